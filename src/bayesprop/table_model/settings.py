"""What is asked of a method: its name, and hyper-parameters by option or by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayesprop import catalogue
from bayesprop.catalogue import CLASSIFICATION, REGRESSION
from bayesprop.table.errors import did_you_mean, one_line
from bayesprop.table_model.refusals import InputError, refusals_of_estimator

DEFAULT_METHOD = {REGRESSION: "mlp", CLASSIFICATION: "mlp"}


SEED = "random_state"


OPTIONS = {
    "hidden_layer_sizes": "--hidden",
    "n_epochs": "--epochs",
    "batch_size": "--batch-size",
    "inference": "--inference",
    "target_kind": "--target-kind",
    "exposure": "--exposure",
    SEED: "--seed",
}


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters that an option of their own set, and those of `--set`."""

    by_option: Mapping[str, Any] = field(default_factory=dict)
    by_name: Mapping[str, Any] = field(default_factory=dict)


def check_method(name: str | None) -> None:
    """Refuse a name that no method has."""
    if name is not None and name not in catalogue.METHODS:
        hint = did_you_mean(name, catalogue.METHODS) or ";"
        known = ", ".join(catalogue.METHODS)
        raise InputError(f"no method {one_line(name)!r}{hint} there are: {known}")


def method_of(asked: str | None, task: str, why: str) -> str:
    """Return the method for a task, which `why` explains; InputError if it does another one."""
    name = asked or DEFAULT_METHOD[task]
    if task in catalogue.METHODS[name].homes:
        return name
    raise InputError(
        f"--method {name} does {catalogue.METHODS[name].task} only, and {why}; methods for {task}:"
        f" {', '.join(methods_for(task))}"
    )


def methods_for(task: str) -> list[str]:
    """Return the names of the methods that do a task, in the order of the table of methods."""
    return [name for name, method in catalogue.METHODS.items() if task in method.homes]


def make_estimator(settings: Settings, method: str, task: str, seed: int) -> Any:
    """Build the estimator; InputError for a hyper-parameter that it does not have or refuses."""
    has = _parameters_of(method, task)
    for name in settings.by_option:
        if name not in has:
            raise InputError(
                f"{OPTIONS[name]}: {method} has no such setting for {task}; methods that have it:"
                f" {', '.join(_methods_with(name)) or 'none'}"
            )
    for name in settings.by_name:
        if name not in has:
            raise InputError(
                f"--set {one_line(name)}: {method} has no such parameter"
                f"{did_you_mean(name, has) or ';'}"
                f" it has: {', '.join(one for one in has if one not in OPTIONS)}"
                f" (and {', '.join(OPTIONS[one] for one in has if one in OPTIONS)})"
            )
    asked = {SEED: seed} if SEED in has else {}
    with refusals_of_estimator(TypeError, ValueError):
        return catalogue.make(method, task=task, **asked, **settings.by_option, **settings.by_name)


def _parameters_of(method: str, task: str) -> list[str]:
    return list(inspect.signature(catalogue.estimator_class(method, task)).parameters)


def _methods_with(parameter: str) -> list[str]:
    """Return every method that has a hyper-parameter, with the tasks for which it has it."""
    tasks = {
        name: [task for task in method.homes if parameter in _parameters_of(name, task)]
        for name, method in catalogue.METHODS.items()
    }
    return [f"{name} ({', '.join(able)})" for name, able in tasks.items() if able]
