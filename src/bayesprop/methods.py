"""The table of methods: one line each; the command line and the contract tests find them here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Method:
    """A way to fit a Bayesian network.

    home
        "module:Class" of the estimator, imported only when the method is used.
    cost
        What a fit costs, in words.
    when
        When to choose it, in words.
    """

    name: str
    summary: str
    task: str
    paper: str
    home: str
    cost: str
    when: str


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            name="pbp",
            summary="Probabilistic backpropagation: one pass of means and variances a datum",
            task="regression",
            paper="Hernández-Lobato & Adams (2015)",
            home="bayesprop.estimators.pbp:PBPRegressor",
            cost="about 1 µs a row and epoch (50 ReLU units, one core)",
            when="tables of any length, streams, no tuning, Gaussian noise of one size",
        ),
    )
}


def estimator_class(name: str) -> type:
    """Return the estimator class of a method; ValueError names the methods that exist."""
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {name!r}")
    module, _, attribute = METHODS[name].home.partition(":")
    return getattr(importlib.import_module(module), attribute)


def make(name: str, **params: Any) -> Any:
    """Build an unfitted estimator of a method with the given hyper-parameters."""
    return estimator_class(name)(**params)
