"""What is asked of a fit to a table: rows and columns, the method and its hyper-parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayesprop import catalogue
from bayesprop.catalogue import CLASSIFICATION
from bayesprop.model.method import LearnsParts, Streams
from bayesprop.model.task import KINDS_OF_CLASSES
from bayesprop.table.division import HoldOut
from bayesprop.table.errors import did_you_mean, one_line
from bayesprop.table_model.deciding import Asked
from bayesprop.table_model.refusals import OPTIONS, SEED, InputError, refusals_of_estimator

DEFAULT_METHOD = "default"


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters that an option of their own set, and those of `--set`."""

    by_option: Mapping[str, Any] = field(default_factory=dict)
    by_name: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RowRequest(HoldOut):
    """Which rows and columns of a table a fit learns from, and which judge it.

    Without a share to hold out, few rows are judged in folds.

    table
        What it is called: a file, a data set, or any name.
    target, task, target_kind
        None: the data set's own, or as the column looks.
    order
        Ordered classes from the lowest to the highest; None: numbers sort themselves.
    test
        Rows of one's own to judge by, and no others: a table as `table` is named, or a frame.
    """

    table: str
    target: str | None = None
    task: str | None = None
    target_kind: str | None = None
    order: tuple[str, ...] | None = None
    test: Any = None

    def __post_init__(self) -> None:
        if self.test is None:
            return
        for option, value in (("--time", self.time), ("--test-fraction", self.test_fraction)):
            if value is not None:
                raise InputError(
                    f"--test and {option} are two ways to judge a fit: give one of them"
                )
        if isinstance(self.test, str) and self.table == self.test:
            raise InputError(f"--test {self.test}: these are the rows that are learnt")

    @property
    def share(self) -> float:
        """The share held out: none beside rows of one's own."""
        return super().share if self.test is None else 0.0

    def task_or(self, usual: str | None) -> str | None:
        """Return the task that was asked for, also by a kind of classes; else the usual one."""
        asks_for_classes = self.order is not None or self.target_kind in KINDS_OF_CLASSES
        return self.task or (CLASSIFICATION if asks_for_classes else usual)


@dataclass(frozen=True, kw_only=True)
class FitRequest(RowRequest):
    """A fit: by which method, judged by which rows, and how two classes are told apart.

    with_peers
        Whether scikit-learn's boosting and Gaussian process are fitted beside it, for the report.
    shards, rounds, cluster, checkpoint
        Parts that are learnt apart, and how often; address of a Dask scheduler whose workers do
        it; file of the last round.
    """

    method: str | None = None
    settings: Settings = field(default_factory=Settings)
    positive: str | None = None
    asked: Asked = field(default_factory=Asked)
    unit: str | None = None
    with_peers: bool = False
    shards: int | None = None
    rounds: int | None = None
    cluster: str | None = None
    checkpoint: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("shards", "rounds"):
            n = getattr(self, name)
            if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
                raise InputError(f"--{name} must be a whole number >= 1, got {n!r}")
        for name in ("rounds", "cluster", "checkpoint"):
            if self.shards is None and getattr(self, name) is not None:
                raise InputError(f"--{name} goes with --shards K, the parts that are learnt apart")


def check_method(name: str | None) -> None:
    """Refuse a name that no method has."""
    if name is not None and name not in catalogue.METHODS:
        hint = did_you_mean(name, catalogue.METHODS) or ";"
        names = ", ".join(catalogue.METHODS)
        raise InputError(f"no method {one_line(name)!r}{hint} there are: {names}")


def method_of(name: str | None, task: str, why: str) -> str:
    """Return the method for a task, which `why` explains; InputError if it does another one."""
    name = name or DEFAULT_METHOD
    if task in catalogue.METHODS[name].homes:
        return name
    raise InputError(
        f"--method {name} does {catalogue.METHODS[name].task} only, and {why}; methods for {task}:"
        f" {', '.join(methods_for(task))}"
    )


def learns_all_rows(name: str | None) -> bool:
    """Whether a method, for any task, learns a table larger than memory; None: the default."""
    method = catalogue.METHODS.get(DEFAULT_METHOD if name is None else name)
    kinds = [catalogue.estimator_class(method.name, t) for t in method.homes] if method else []
    return any(issubclass(kind.method_class, (Streams, LearnsParts)) for kind in kinds)


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
    seeded = {SEED: seed} if SEED in has else {}
    with refusals_of_estimator(TypeError, ValueError):
        return catalogue.make(method, task=task, **seeded, **settings.by_option, **settings.by_name)


def _parameters_of(method: str, task: str) -> list[str]:
    return list(inspect.signature(catalogue.estimator_class(method, task)).parameters)


def _methods_with(parameter: str) -> list[str]:
    """Return every method that has a hyper-parameter, with the tasks for which it has it."""
    tasks = {
        name: [task for task in method.homes if parameter in _parameters_of(name, task)]
        for name, method in catalogue.METHODS.items()
    }
    return [f"{name} ({', '.join(able)})" for name, able in tasks.items() if able]
