"""What is asked of a fit to a table: rows and columns, the method and its hyper-parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesprop import catalogue
from bayesprop.catalogue import CLASSIFICATION, REGRESSION, Params
from bayesprop.model.method import LearnsParts, Streams
from bayesprop.model.task import KINDS_OF_CLASSES
from bayesprop.table.division import HoldOut
from bayesprop.table.errors import (
    OPTIONS,
    InputError,
    Message,
    close_to,
    one_line,
    refusals_of_estimator,
)
from bayesprop.table.target import class_text
from bayesprop.table_model.deciding import Asked

if TYPE_CHECKING:
    from bayesprop.estimators.shell import EstimatorBase
    from bayesprop.table_model.sources import Table

DEFAULT_METHOD, FRAME = "default", "the frame"


@dataclass(frozen=True, kw_only=True)
class RowRequest(HoldOut):
    """The rows and columns of a table for training, and the rows for evaluation.

    Without a share to hold out, few rows are judged in folds.

    table
        What it is called: a file, a data set, FRAME, or any name.
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
    test: Table | None = None

    def __post_init__(self) -> None:
        if self.test is None:
            return
        for name in ("time", "test_fraction"):
            if getattr(self, name) is not None:
                raise InputError(Message.of(f"test.and_{name}"))
        if isinstance(self.test, str) and self.table == self.test:
            raise InputError(Message.of("test.same", what=self.test))

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
    """A fit: its method, its rows for evaluation, and its decision rule for two classes.

    settings
        Hyper-parameters of the method.
    with_peers
        Whether scikit-learn's boosting and Gaussian process are fitted beside it, for the report.
    shards, rounds, cluster, checkpoint
        Parts that are learnt apart, and how often; address of a Dask scheduler whose workers do
        it; file of the last round.
    """

    method: str | None = None
    settings: Params = field(default_factory=dict)
    positive: str | None = None
    asked: Asked = field(default_factory=Asked)
    unit: str | None = None
    with_peers: bool = False
    shards: int | None = None
    rounds: int | None = None
    cluster: str | None = None
    checkpoint: str | Path | None = None

    @classmethod
    def of(cls, table: Table, **asked: Any) -> FitRequest:
        """Take columns and classes by what they are called; refuse what no table is needed for."""
        request = cls(table=str(table) if isinstance(table, str | Path) else FRAME, **asked)
        if "random_state" in request.settings:
            raise InputError(Message.of("seed.twice"))
        if request.task not in (None, REGRESSION, CLASSIFICATION):
            raise InputError(Message.of("task.unknown", got=repr(request.task)))
        seed, missing, kinds, drop = request.seed, request.missing, request.kinds, request.drop
        is_whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
        if not is_whole or not 0 <= seed < 2**32:
            raise InputError(Message.of("seed.number", got=repr(seed)))
        if isinstance(missing, str):
            raise InputError(Message.of("missing.list", example=[missing], got=repr(missing)))
        if kinds is not None and not isinstance(kinds, Mapping):
            raise InputError(Message.of("kinds.mapping", got=repr(kinds)))
        columns = ("target", "exposure", "weights", "group", "time")
        named = {name: getattr(request, name) for name in columns}
        paths = {"test": request.test, "checkpoint": request.checkpoint}
        return replace(
            request,
            **{name: str(column) for name, column in named.items() if column is not None},
            **{name: str(path) for name, path in paths.items() if isinstance(path, Path)},
            seed=int(seed),
            drop=(str(drop),) if isinstance(drop, str | int) else tuple(map(str, drop)),
            missing=None if missing is None else tuple(map(str, missing)),
            kinds=None if kinds is None else {str(one): str(kinds[one]) for one in kinds},
            order=None if request.order is None else tuple(map(class_text, request.order)),
            positive=None if request.positive is None else class_text(request.positive),
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("shards", "rounds"):
            n = getattr(self, name)
            if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
                raise InputError(Message.of(f"{name}.number", got=repr(n)))
        for name in ("rounds", "cluster", "checkpoint"):
            if self.shards is None and getattr(self, name) is not None:
                raise InputError(Message.of(f"{name}.alone"))


def check_method(name: str | None) -> None:
    """Refuse a name that no method has."""
    if name is not None and name not in catalogue.METHODS:
        name = one_line(str(name))
        own = {"name": name, "meant": close_to(name, catalogue.METHODS)}
        raise InputError(Message.of("method.unknown", names=", ".join(catalogue.METHODS), **own))


def method_of(name: str | None, task: str, why: str = "") -> str:
    """Return the method for a task, which `why` explains; InputError if it does another one.

    why
        Empty for a task that was asked for.
    """
    name = name or DEFAULT_METHOD
    if task in catalogue.METHODS[name].homes:
        return name
    code = "method.task" if why else "method.asked_task"
    own = {"name": name, "task": catalogue.METHODS[name].task, "why": why, "other": task}
    raise InputError(Message.of(code, names=", ".join(methods_for(task)), **own))


def learns_all_rows(name: str | None) -> bool:
    """Whether a method, for any task, learns a table larger than memory; None: the default."""
    method = catalogue.METHODS.get(DEFAULT_METHOD if name is None else name)
    kinds = [catalogue.estimator_class(method.name, t) for t in method.homes] if method else []
    return any(issubclass(kind.method_class, (Streams, LearnsParts)) for kind in kinds)


def methods_for(task: str) -> list[str]:
    """Return the names of the methods that do a task, in the order of the table of methods."""
    return [name for name, method in catalogue.METHODS.items() if task in method.homes]


def make_estimator(settings: Params, method: str, task: str, seed: int) -> EstimatorBase:
    """Build the estimator; InputError for a hyper-parameter that it does not have or refuses."""
    has = _parameters_of(method, task)
    for name in settings:
        if name not in has and name in OPTIONS:
            own = {"settings": name, "method": method, "task": task}
            names = ", ".join(_methods_with(name)) or "none"
            raise InputError(Message.of("setting.of_others", names=names, **own))
        if name not in has:
            own = {
                "unknown": one_line(name),
                "method": method,
                "meant": close_to(name, has),
                "names": ", ".join(one for one in has if one not in OPTIONS),
                "settings": ", ".join(one for one in has if one in OPTIONS),
            }
            raise InputError(Message.of("setting.unknown", **own))
    seeded = {"random_state": seed} if "random_state" in has else {}
    with refusals_of_estimator(TypeError, ValueError):
        return catalogue.make(method, task=task, **seeded, **settings)


def _parameters_of(method: str, task: str) -> list[str]:
    return list(inspect.signature(catalogue.estimator_class(method, task)).parameters)


def _methods_with(parameter: str) -> list[str]:
    """Return every method that has a hyper-parameter, with the tasks for which it has it."""
    tasks = {
        name: [task for task in method.homes if parameter in _parameters_of(name, task)]
        for name, method in catalogue.METHODS.items()
    }
    return [f"{name} ({', '.join(able)})" for name, able in tasks.items() if able]
