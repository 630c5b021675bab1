"""The table of methods, `methods.toml`: the command line and the contract tests find them here."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayesprop.estimators.shell import EstimatorBase

REGRESSION, CLASSIFICATION = "regression", "classification"
Params = Mapping[str, Any]
"""Hyper-parameters by name."""


@dataclass(frozen=True)
class Method:
    """A way to fit a Bayesian network.

    home, classifier
        "module:Class" of the regressor and of the classifier, imported only when the method is
        used; None where it has none.
    cost
        What a fit costs, in words.
    when
        When to choose it, in words.
    is_slow
        Whether a comparison leaves it out unless it is named.
    """

    name: str
    summary: str
    paper: str
    cost: str
    when: str
    home: str | None = None
    classifier: str | None = None
    is_slow: bool = False

    @property
    def homes(self) -> dict[str, str]:
        """Where the estimator of each task lives, by task."""
        found = {REGRESSION: self.home, CLASSIFICATION: self.classifier}
        return {task: home for task, home in found.items() if home is not None}

    @property
    def task(self) -> str:
        """The tasks, in words."""
        return ", ".join(self.homes)


def _read_methods() -> dict[str, Method]:
    content = resources.files("bayesprop").joinpath("methods.toml").read_text("utf-8")
    return {name: Method(name, **fields) for name, fields in tomllib.loads(content).items()}


METHODS = _read_methods()


def estimator_class(name: str, task: str = REGRESSION) -> type[EstimatorBase]:
    """Return the estimator class of a method; ValueError names the methods that exist."""
    module, attribute = _home(name, task).split(":")
    return getattr(importlib.import_module(module), attribute)


def plain_class(name: str, task: str = REGRESSION) -> type[EstimatorBase]:
    """Return the estimator class of a method without scikit-learn, which predicts all the same."""
    module, attribute = _home(name, task).split(":")
    return importlib.import_module(module).plain[attribute]


def _home(name: str, task: str) -> str:
    """Return "module:Class" of an estimator; ValueError names the methods that exist."""
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {name!r}")
    if task not in (REGRESSION, CLASSIFICATION):
        raise ValueError(f"task must be {REGRESSION} or {CLASSIFICATION}, got {task!r}")
    homes = METHODS[name].homes
    if task not in homes:
        able = ", ".join(method.name for method in METHODS.values() if task in method.homes)
        raise ValueError(f"method {name!r} does {METHODS[name].task} only; for {task}: {able}")
    return homes[task]


def make(name: str, *, task: str = REGRESSION, **params: Any) -> Any:
    """Build an unfitted estimator of a method with the given hyper-parameters."""
    return estimator_class(name, task)(**params)
