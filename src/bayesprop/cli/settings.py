"""What is asked of a method: its name, and hyper-parameters by option or by name."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayesprop import catalogue
from bayesprop.catalogue import CLASSIFICATION, REGRESSION
from bayesprop.cli.actions import Fit
from bayesprop.cli.console import InputError, refusals_of_estimator
from bayesprop.table.errors import did_you_mean, one_line

DEFAULT_METHOD = {REGRESSION: "mlp", CLASSIFICATION: "mlp"}
_SEED = "random_state"
_OPTIONS = {
    "hidden_layer_sizes": "--hidden",
    "n_epochs": "--epochs",
    "batch_size": "--batch-size",
    "inference": "--inference",
    "target_kind": "--target-kind",
    _SEED: "--seed",
}


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters that an option of their own set, and those of `--set`."""

    by_option: Mapping[str, Any] = field(default_factory=dict)
    by_name: Mapping[str, Any] = field(default_factory=dict)


def settings_of(fit: Fit) -> Settings:
    """Check what can be checked without a table."""
    check_method(fit.method)
    asked = {
        "hidden_layer_sizes": _hidden(fit.hidden) if fit.hidden else None,
        "n_epochs": fit.epochs,
        "batch_size": fit.batch_size,
        "inference": fit.inference,
    }
    by_option = {name: value for name, value in asked.items() if value is not None}
    by_name = _assigned(fit.settings)
    for name in by_name:
        if name in by_option or name in (_SEED, "target_kind"):
            raise InputError(f"--set {name}: this is what {_OPTIONS[name]} says; give that alone")
    return Settings(by_option, by_name)


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
                f"{_OPTIONS[name]}: {method} has no such setting for {task}; methods that have it:"
                f" {', '.join(_methods_with(name)) or 'none'}"
            )
    for name in settings.by_name:
        if name not in has:
            raise InputError(
                f"--set {one_line(name)}: {method} has no such parameter"
                f"{did_you_mean(name, has) or ';'}"
                f" it has: {', '.join(one for one in has if one not in _OPTIONS)}"
                f" (and {', '.join(_OPTIONS[one] for one in has if one in _OPTIONS)})"
            )
    asked = {_SEED: seed} if _SEED in has else {}
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


def _assigned(assignments: Iterable[str]) -> dict[str, Any]:
    """Read "name=value", the value as JSON, or as plain text where it is none."""
    values: dict[str, Any] = {}
    for text in assignments:
        name, is_given, value = text.partition("=")
        name = name.strip()
        if not is_given or not name.isidentifier():
            raise InputError(
                f"--set must be name=value, such as learning_rate=0.01; got {one_line(text)!r}"
            )
        if name in values:
            raise InputError(f"--set {name} is given twice")
        values[name] = _value(value.strip())
    return values


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return tuple(value) if isinstance(value, list) else value


def _hidden(words: Sequence[str]) -> tuple[int, ...]:
    """Read the units of every hidden layer from "50", "50,50" or a repeated option."""
    parts = [part.strip() for word in words for part in word.split(",")]
    if not all(part.isdecimal() and int(part) >= 1 for part in parts):
        got = one_line(",".join(parts))
        raise InputError(f"--hidden must be whole numbers >= 1, such as 50 or 50,50; got {got}")
    return tuple(int(part) for part in parts)
