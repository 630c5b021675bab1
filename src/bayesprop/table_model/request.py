"""What is asked of a fit to a table: rows and columns, the method and its hyper-parameters.

The kind of target is the one asked for, or as its column looks. The notes that a fit left in a
model file may come from anybody: whatever is not of the expected kind counts as not noted.
"""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np
import polars as pl

from bayesprop import catalogue, codec
from bayesprop.catalogue import CLASSIFICATION, REGRESSION, Params
from bayesprop.codec import Json, JsonObject
from bayesprop.evaluation.baselines import Baselines
from bayesprop.evaluation.thresholds import Rule
from bayesprop.model.method import LearnsParts, Streams
from bayesprop.model.task import CLASSES, KINDS_OF_CLASSES, ORDERED, Standardiser, Task
from bayesprop.store import SavedModel
from bayesprop.table.division import Factors, HoldOut
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import (
    OPTIONS,
    InputError,
    Message,
    Said,
    close_to,
    listing,
    one_line,
    refusals_of_estimator,
)
from bayesprop.table.target import Label, class_text
from bayesprop.table_model.answers import Asked, stored_positive
from bayesprop.table_model.listener import Scores, current_listener, plain
from bayesprop.targets.bijectors import (
    CENSORED,
    COUNT,
    NONNEGATIVE,
    NUMBERS,
    PER_CENT,
    POSITIVE,
    SHARE,
    whole_of,
)
from bayesprop.targets.censoring import OFTEN, are_many
from bayesprop.targets.kinds import guessed_kind

if TYPE_CHECKING:
    from bayesprop.estimators.shell import EstimatorBase
    from bayesprop.table_model.sources import Table


DEFAULT_METHOD, FRAME = "default", "the frame"
WORDS = {
    POSITIVE: "numbers above 0",
    NONNEGATIVE: "numbers from 0 on, some of them 0",
    CENSORED: "numbers that are censored at a limit",
    SHARE: "shares, from 0 to 1 or to 100 %",
    COUNT: "whole numbers from 0 on",
}
"""What targets of a kind are, in words."""
_Kind = TypeVar("_Kind")
KEPT = {
    "weights": str,
    "drop": tuple[str, ...],
    "missing": tuple[str, ...],
    "kinds": dict[str, str],
    "std_of": dict[str, str | float],
    "group": Factors,
    "time": str,
}
"""What a model file keeps of a request, to read other tables by, as JSON gives it back."""


@dataclass(frozen=True, kw_only=True)
class FitRequest(HoldOut):
    """The arguments of `fit` but y: rows and columns, the method, evaluation, decisions.

    Without a share to hold out, few rows are judged in folds.

    table
        What it is called: a file, a data set, FRAME, or any name.
    target, task, target_kind
        None: the data set's own, or as the column looks.
    order
        Ordered classes from the lowest to the highest; None: numbers sort themselves.
    test
        Rows of one's own to judge by, and no others: a table as `table` is named, or a frame.
    settings
        Hyper-parameters of the method.
    with_peers
        Whether scikit-learn's boosting and Gaussian process are fitted beside it, for the report.
    shards, rounds, cluster, checkpoint
        Parts that are learnt apart, and how often; address of a Dask scheduler whose workers do
        it; file of the last round.
    cost, rate
        How two classes are decided, as `Asked.of` reads them.
    """

    table: str
    target: str | None = None
    task: str | None = None
    target_kind: str | None = None
    order: tuple[str, ...] | None = None
    test: Table | None = None
    method: str | None = None
    settings: Params = field(default_factory=dict)
    positive: str | None = None
    unit: str | None = None
    with_peers: bool = False
    shards: int | None = None
    rounds: int | None = None
    cluster: str | None = None
    checkpoint: str | Path | None = None
    cost: str | Mapping[str, float] | None = None
    rate: str | None = None

    @classmethod
    def of(cls, table: Table, **asked: Any) -> FitRequest:
        """Take columns and classes by what they are called; refuse what no table is needed for."""
        request = cls(table=str(table) if isinstance(table, str | Path) else FRAME, **asked)
        if "random_state" in request.settings:
            raise InputError(Message.of("seed.twice"))
        if request.task not in (None, REGRESSION, CLASSIFICATION):
            raise InputError(Message.of("task.unknown", got=repr(request.task)))
        check_method(request.method)
        if request.task is not None:
            method_of(request.method, request.task)
        seed, missing, kinds, drop = request.seed, request.missing, request.kinds, request.drop
        cost = request.cost
        is_whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
        if not is_whole or not 0 <= seed < 2**32:
            raise InputError(Message.of("seed.number", got=repr(seed)))
        if isinstance(missing, str):
            raise InputError(Message.of("missing.list", example=[missing], got=repr(missing)))
        for name in ("kinds", "std_of"):
            if not isinstance(got := getattr(request, name), Mapping | None):
                raise InputError(Message.of(f"{name}.mapping", got=repr(got)))
        columns, group = ("target", "exposure", "weights", "time"), request.group
        named = {name: getattr(request, name) for name in columns}
        paths = {"test": request.test, "checkpoint": request.checkpoint}
        return replace(
            request,
            **{name: str(column) for name, column in named.items() if column is not None},
            **{name: str(path) for name, path in paths.items() if isinstance(path, Path)},
            seed=int(seed),
            group=_names(() if group is None else group) or None,
            drop=_names(drop),
            missing=None if missing is None else tuple(map(str, missing)),
            kinds=None if kinds is None else {str(one): str(kinds[one]) for one in kinds},
            std_of={
                str(name): float(own) if isinstance(own, Real) else str(own)
                for name, own in (request.std_of or {}).items()
            }
            or None,
            order=None if request.order is None else tuple(map(class_text, request.order)),
            positive=None if request.positive is None else class_text(request.positive),
            cost=plain(dict(cost)) if isinstance(cost, Mapping) else cost,
        )

    def __post_init__(self) -> None:
        for name in ("time", "test_fraction"):
            if self.test is not None and getattr(self, name) is not None:
                raise InputError(Message.of(f"test.and_{name}"))
        if isinstance(self.test, str) and self.table == self.test:
            raise InputError(Message.of("test.same", what=self.test))
        for name in ("shards", "rounds"):
            n = getattr(self, name)
            if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
                raise InputError(Message.of(f"{name}.number", got=repr(n)))
        for name in ("rounds", "cluster", "checkpoint"):
            if self.shards is None and getattr(self, name) is not None:
                raise InputError(Message.of(f"{name}.alone"))
        Asked.of(self.cost, self.rate)  # refuses what is no rule

    @property
    def share(self) -> float:
        """The share held out: none beside rows of one's own."""
        return super().share if self.test is None else 0.0

    @property
    def asked(self) -> Asked:
        """How two classes are decided."""
        return Asked.of(self.cost, self.rate)

    def task_or(self, usual: str | None) -> str | None:
        """Return the task that was asked for, also by a kind of classes; else the usual one."""
        asks_for_classes = self.order is not None or self.target_kind in KINDS_OF_CLASSES
        return self.task or (CLASSIFICATION if asks_for_classes else usual)


def _names(names: Any) -> tuple[str, ...]:
    """Take a column, or several, by what they are called."""
    return (str(names),) if isinstance(names, str | int) else tuple(map(str, names))


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


def classes_in_words(classes: Sequence[Label], order: Sequence[int] | None) -> str:
    """List the classes of a target, in their order where they have one."""
    words = list(map(class_text, classes))
    if order is None:
        return listing(words)
    return f"ordered, {' < '.join(words[place] for place in order)}"


def outside_support(task: Task, y: np.ndarray, target: str) -> list[Message]:
    """Word how many evaluated targets are impossible for the target kind of the model."""
    target_map = getattr(task, "map", None)
    if target_map is None or target_map.holds(y).all():
        return []
    bad = y[~target_map.holds(y)]
    own = {"n": len(bad), "have": "has" if len(bad) == 1 else "have", "example": bad[0]}
    return [Message.of("target.impossible", target, kind=WORDS[target_map.kind], **own)]


def settings_of_kind(
    request: FitRequest,
    encoding: TableEncoding,
    train: EncodedRows,
    target: pl.Series,
    *,
    noise: float | str | None = None,
) -> Params:
    """Return the hyper-parameters that say what a target can be; none for classes without order.

    target
        As the table has it.
    noise
        What the fit was told of the noise: a variance goes with numbers as they are only.
    """
    is_class = encoding.task == CLASSIFICATION
    if is_class and request.exposure is None:
        return _settings_of_classes(request, encoding, target)
    kind = None if is_class else _kind_of(request, encoding, train, noise)
    if request.exposure is None:
        return {"target_kind": kind}
    if kind is None or request.target_kind not in (None, COUNT):
        raise InputError(Message.of("exposure.kind"))
    names = encoding.feature_names
    if request.exposure not in names:
        own = {"got": request.exposure, "names": one_line(listing(names))}
        raise InputError(Message.of("exposure.column", **own))
    return {"target_kind": COUNT, "exposure": names.index(request.exposure)}


def _kind_of(
    request: FitRequest,
    encoding: TableEncoding,
    train: EncodedRows,
    noise: float | str | None,
) -> str:
    """Return the kind of a target of numbers, and say where it was guessed."""
    name, limits = one_line(encoding.target_name), encoding.limits
    if request.order or request.target_kind in KINDS_OF_CLASSES:
        code = "order.of_classes" if request.order else "target_kind.of_classes"
        raise InputError(Message.of(code, kind=request.target_kind))
    is_percent = encoding.marks is not None and encoding.marks.unit == "%"
    if request.target_kind == SHARE and not is_percent and whole_of(train.y) == PER_CENT:
        current_listener().note(f"{name} is treated as per cent, because some values exceed 1")
    if request.target_kind is not None or request.exposure is not None:
        return request.target_kind or COUNT
    if isinstance(noise, Real):
        return NUMBERS
    if any(are_many(train.y == limit, times=OFTEN) for limit in limits):
        kind = CENSORED
    else:
        x = train.filled
        z = Standardiser.fit(x).transform(x)
        kind = guessed_kind(z, train.y, train.weight, is_percent=is_percent)
    if kind != NUMBERS:
        current_listener().note(Message.of("target_kind.guessed", name, what=WORDS[kind]))
    return kind


def _settings_of_classes(request: FitRequest, encoding: TableEncoding, target: pl.Series) -> Params:
    """Return the order of classes, as asked for or as their owner's categories have it."""
    name, labels = one_line(encoding.target_name), encoding.classes
    if request.target_kind not in (None, *KINDS_OF_CLASSES):
        raise InputError(Message.of("target_kind.of_numbers", name, kind=request.target_kind))
    if request.target_kind == CLASSES:
        if request.order:
            raise InputError(Message.of("order.unordered"))
        return {}
    words, is_text = request.order, isinstance(labels[0], str)
    words = _levels(target) if words is None else words
    if words is None and request.target_kind is None:
        return {}
    if words is None and is_text:
        example = ",".join(map(str, labels[:5]))
        raise InputError(Message.of("order.words", name, example=example))
    if words is None:
        return {"target_kind": ORDERED}
    settings = {"target_kind": ORDERED, "order": _labels_in_order(name, labels, words)}
    if request.order is None and request.target_kind is None and len(labels) > 2:
        order = " < ".join(map(class_text, settings["order"]))
        note = Message.of("target_kind.ordered", name, order=one_line(order))
        current_listener().note(note)
    return settings


def _levels(target: pl.Series) -> tuple[str, ...] | None:
    """Return the levels of categories that have an order; None of those that have none."""
    kind = target.dtype
    return tuple(kind.categories.to_list()) if isinstance(kind, pl.Enum) else None


def _labels_in_order(
    name: str, labels: tuple[Label, ...], words: tuple[str, ...]
) -> tuple[Label, ...]:
    """Return labels in the order of their words; words that no row has may be among these."""
    by_word = {class_text(label): label for label in labels}
    missing = [word for word in by_word if word not in words]
    if missing or len(set(words)) < len(words):
        code = "order.lacking" if missing else "order.twice"
        raise InputError(Message.of(code, name, missing=one_line(listing(missing))))
    return tuple(by_word[word] for word in words if word in by_word)


class Notes:
    """The notes of a fit; empty or None where a model was saved from Python.

    rows
        Counts of rows: "train" and "held_out".
    missing
        Share of the training rows that lack a value, of the columns that have such rows.
    updates
        What was noted of every table that the model has learnt since.
    held_out, errors, judged_by
        The metrics of the fit on rows that it had not learnt, the standard errors of the model's,
        and which rows these are.
    std_of, group
        Columns whose values have errors, and those of what belongs together, as given to the fit.
    positive, rule
        Of two classes: the positive one (the rarer, in files that do not say), and how to decide.
    base_rate
        What the weights of the fit did to the shares of the classes, in a sentence.
    """

    def __init__(self, saved: SavedModel) -> None:
        notes, self.versions = saved.metadata, saved.header["versions"]

        def noted(key: str, kind: type[_Kind]) -> _Kind:
            return notes[key] if isinstance(notes.get(key), kind) else kind()

        rows, self.config = noted("rows", dict), noted("config", dict)
        each = ((name, partial(codec.from_json, kind)) for name, kind in KEPT.items())
        kept = {name: _stored(read, self.config.get(name)) for name, read in each}
        if not (kept["group"] and all(kept["group"])):
            del kept["group"]
        self._kept = {name: one for name, one in kept.items() if one is not None}
        self.std_of: dict[str, str | float] = self._kept.get("std_of", {})
        self.group: Factors | None = self._kept.get("group")
        self.command: str = noted("command", str)
        self.source: str = noted("source", str)
        self.unit: str = noted("unit", str)
        self.seed: int = noted("seed", int)
        self.target_sha256: str = noted("target_sha256", str)
        self.updates = [one for one in noted("updates", list) if isinstance(one, dict)]
        self.rows = {k: rows[k] for k in ("train", "held_out") if isinstance(rows.get(k), int)}
        gaps = noted("missing", dict)
        self.missing = {name: one for name, one in gaps.items() if _is_figure(one) and 0 <= one < 1}
        self.held_out = _scores(noted("held_out", dict))
        self._baselines = notes.get("baselines")
        classes = () if saved.table is None else saved.table.classes
        constant = self.baselines and self.baselines.models["constant"] if classes else None
        shares = getattr(constant, "share", None)
        self.positive = stored_positive(classes, notes.get("positive"), shares)
        self.rule = (
            _stored(partial(codec.from_json, Rule), notes.get("decision"))
            if self.positive
            else None
        )
        errors = noted("standard_errors", dict)
        self.errors = {name: one for name, one in errors.items() if _is_figure(one)}
        self.judged_by: str = noted("judged_by", str)
        stored = (_stored_said(one) for one in noted("warnings", list))
        self.warnings = [one for one in stored if one is not None]
        self.base_rate: str = noted("base_rate", str)

    @cached_property
    def baselines(self) -> Baselines | None:
        """Baselines of the fit; None where the file has none."""
        return _stored(Baselines.from_dict, self._baselines)

    def for_report(self) -> JsonObject:
        """Return the notes that the report page shows, dated today."""
        return {
            "created": datetime.date.today().isoformat(),
            "versions": self.versions,
            "source": self.source,
            "unit": self.unit,
            "seed": self.seed,
            "rule": self.rule,
            "base_rate": self.base_rate,
        }

    def learning(self, table: Any) -> FitRequest:
        """Return what the fit was asked, for another table."""
        share = self.config.get("test_fraction")
        share = float(share) if _is_figure(share) else 0.0
        return FitRequest(table=table, test_fraction=share, seed=self.seed, **self._kept)

    @property
    def n_fitted(self) -> int:
        """Rows of the last fit from scratch, without those that were learnt row by row since."""
        fits = [k for k, one in enumerate(self.updates, 1) if one.get("refitted")]
        streamed = (one.get("learnt") for one in self.updates[max(fits, default=0) :])
        return self.rows.get("train", 0) - sum(n for n in streamed if isinstance(n, int))


def _stored(read: Callable[..., _Kind], stored: Json) -> _Kind | None:
    """Rebuild what was stored; None where it is not one."""
    try:
        return read(stored)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None


def _stored_said(stored: Json) -> Said | None:
    """Read a remark; None where it is none."""
    if isinstance(stored, str):
        return stored
    return _stored(partial(codec.from_json, Message), stored)


def _scores(stored: JsonObject) -> Scores | None:
    if "model" not in stored or not all(isinstance(one, dict) for one in stored.values()):
        return None
    figures = [figure for one in stored.values() for figure in one.values()]
    return stored if all(f is None or _is_figure(f) for f in figures) else None


def _is_figure(value: Json) -> TypeGuard[float]:
    """Whether a value is a number that a float can be."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**53)
