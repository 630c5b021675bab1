"""From a table to an evaluated model: split, encoding, fit, scores.

Rows are learnt whole or in shards: those of a table, dealt; or a dask DataFrame's partitions, where
they lie. Workers are threads of this machine, or a Dask cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from operator import getitem
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, cast

import numpy as np
import polars as pl

from bayesprop import codec
from bayesprop.catalogue import CLASSIFICATION
from bayesprop.evaluation.thresholds import Rule, UnreachableError
from bayesprop.scale.all_rows import AllRows, HeldOut
from bayesprop.scale.cluster import Job, Pool, Workers, connected, results
from bayesprop.scale.large_table import LargeTable, Part, RareValues
from bayesprop.scale.shards import check_combines, fit_shards, remembers_start
from bayesprop.table.column_checks import giveaways
from bayesprop.table.division import Division, Grouping, factors_of
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import (
    OPTIONS,
    InputError,
    Message,
    Said,
    for_terminal,
    one_line,
    refusals_of_estimator,
)
from bayesprop.table_model.answers import Asked, Positive, base_rate_moved, check_two_classes
from bayesprop.table_model.answers import positive_of as positive_class
from bayesprop.table_model.evaluate import (
    INTERRUPTED,
    Judged,
    JudgedAgain,
    judge,
    judged_again,
    judged_in_folds,
    learn,
)
from bayesprop.table_model.listener import current_listener, plain
from bayesprop.table_model.request import (
    KEPT,
    FitRequest,
    make_estimator,
    method_of,
    settings_of_kind,
)
from bayesprop.table_model.sources import (
    Table,
    Target,
    aside_of,
    column,
    divided,
    fingerprint,
    from_frame,
    in_groups,
    read_any,
    table_name,
    target_of,
    to_learn,
)

if TYPE_CHECKING:
    from dask.dataframe import DataFrame

    from bayesprop.codec import JsonObject
    from bayesprop.estimators.shell import EstimatorBase


ROUNDS = 10
_FEW_ROWS = 300
"""Below which a tenth of the rows judges nothing, and folds judge instead."""
FITTING, FITTING_BEFORE_FOLDS = 0.7, 0.4
"""Shares of the time that the fit may take; folds, which judge a small table, are fits as well."""


def learn_in_shards(request: FitRequest, estimator: EstimatorBase, rows: EncodedRows) -> None:
    """Deal rows into shards, at random by the seed, and fit an estimator to them.

    ValueError, in one line, for what the estimator, the checkpoint or the cluster refuses.
    """
    order = np.random.default_rng(request.seed).permutation(len(rows.y))
    dealt = [rows.of(order[k :: request.shards]) for k in range(request.shards or 1)]
    with workers(request) as executor:
        fitted = fit_shards(
            estimator,
            [(one.X, one.y, one.weight) for one in dealt],
            rounds=request.rounds or ROUNDS,
            executor=executor,
            checkpoint=request.checkpoint,
        )
    vars(estimator).update(vars(fitted))


@contextmanager
def workers(request: FitRequest) -> Iterator[Pool]:
    """Yield what learns shards: a client of the cluster that was named, or threads."""
    if request.cluster is None:
        from joblib import cpu_count

        with ThreadPoolExecutor(cpu_count()) as pool:
            yield pool
        return
    is_safe = request.checkpoint is not None
    how = "the same command goes on" if is_safe else "with a checkpoint file a fit can go on"
    with connected(request.cluster, f"start it again: {how} after the last round") as client:
        yield client


def is_partitioned(table: Table) -> TypeGuard[DataFrame]:
    """Whether a table is a dask DataFrame."""
    return hasattr(table, "npartitions") and hasattr(table, "to_delayed")


@contextmanager
def rows_to_learn(
    request: FitRequest, table: Table
) -> Iterator[tuple[pl.DataFrame, AllRows | None]]:
    """Read the rows of a fit as `to_learn` does; those of a dask DataFrame are on workers."""
    if not is_partitioned(table):
        yield to_learn(request, table)
        return
    with _client(request) as client:
        target = target_of(request, pl.DataFrame(schema=dict.fromkeys(table.columns, pl.Null)))
        aside = aside_of(request, tuple(table.columns))
        partitions: Any = Partitions(table, client, request)
        yield PartitionedRows.of(partitions, target.name, aside, request.seed, streams=True)


def _client(request: FitRequest) -> AbstractContextManager[Pool]:
    """Return the client of the cluster that was named, or the one that there is."""
    if request.cluster is not None:
        return workers(request)
    from distributed import default_client

    try:
        return nullcontext(default_client())
    except ValueError as error:
        raise InputError(Message.of("cluster.none")) from error


class Partitions:
    """Frames on the workers of Dask as one table.

    frames, firsts
        Futures of all partitions, and the places of their first rows in the table, from 0.
    """

    def __init__(self, table: DataFrame, client: Any, request: FitRequest) -> None:
        """Let workers read all partitions; ValueError names one that cannot be."""
        self.client, self.request, self.columns = client, request, tuple(table.columns)
        self.submit = Workers(client).submit
        read = client.compute(list(table.to_delayed()))
        self.frames = [self.submit(from_frame, one) for one in read]
        counts = [self.submit(len, frame) for frame in self.frames]
        ends = np.cumsum(results(counts, range(len(counts))))
        self.firsts, self.n_rows = [0, *ends[:-1].tolist()], int(ends[-1])

    @property
    def located(self) -> list[tuple[Job, int]]:
        """Every partition with its first place."""
        return list(zip(self.frames, self.firsts, strict=True))

    def sample(self, n: int, seed: int, target: str | None = None) -> Part:
        """Draw rows as `LargeTable.sample` does, with a few of every rare value."""
        rng = np.random.default_rng(seed)
        chosen = np.sort(rng.choice(self.n_rows, min(n, self.n_rows), replace=False, shuffle=False))
        parts = np.split(chosen, np.searchsorted(chosen, self.firsts[1:]))
        pairs = zip(self.located, parts, strict=True)
        jobs = [self.submit(getitem, frame, part - first) for (frame, first), part in pairs]
        frame = pl.concat(results(jobs, range(len(jobs))), how="vertical_relaxed")
        rare = RareValues.of(self.columns, target)
        looks = [self.submit(_rare, rare, *one) for one in self.located]
        for few, places, names in results(looks, range(len(looks))):
            rare.only(names)
            rare.look(few, places)
        return Part(*rare.beside(frame, chosen))


class PartitionedRows(AllRows):
    """Learns all partitions after a sample of their rows, which count once."""

    table: Any

    def remark(self, estimator: EstimatorBase) -> str:
        """Word which rows were learnt, and on which the fit was selected and evaluated."""
        return (
            f"learnt {estimator.fit_report_.n_rows} rows in {len(self.table.frames)} partitions, "
            f"after a sample of {len(self.places)} of {self.table.n_rows} rows, on which the fit "
            "is evaluated"
        )

    def row_name(self, place: int) -> str:
        """Return its number in the whole table, from 1."""
        return str(place + 1)

    @staticmethod
    def are_learnt_by(estimator: EstimatorBase) -> bool:
        """Whether what an estimator learns of partitions can be put together; ValueError if not."""
        check_combines(estimator)
        return True

    def learn(
        self, encoding: TableEncoding, division: Division, estimator: Any, sample: EncodedRows
    ) -> None:
        """Fit an estimator to the sample, from which it goes on to all other rows."""
        estimator.fit(sample.X, sample.y, **sample.weights)
        held_out, request, submit = HeldOut(self, division), self.table.request, self.table.submit
        places = self.places if remembers_start(estimator) else self.places[:0]
        sampled = PartitionedRows(cast(LargeTable, None), places, self.aside, self.seed)
        fitted = fit_shards(
            estimator,
            [submit(_others, sampled, *one, encoding, held_out) for one in self.table.located],
            rounds=request.rounds or ROUNDS,
            executor=self.table.client,
            start=estimator,
            checkpoint=request.checkpoint,
        )
        estimator.keep(fitted.fitted_)


def _rare(
    rare: RareValues, frame: pl.DataFrame, first: int
) -> tuple[pl.DataFrame, np.ndarray, list[str]]:
    """Return rows of values that may be rare, their places, and columns that have few values."""
    own = RareValues(rare.most)
    own.look(frame, np.arange(first, first + len(frame)))
    return own.frames[0], own.places[0], list(own.numbers)


def _others(
    rows: AllRows, frame: pl.DataFrame, first: int, encoding: TableEncoding, held_out: HeldOut
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Encode the rows of a partition that are neither sampled nor held out."""
    places = np.arange(first, first + len(frame))
    is_new = ~np.isin(places, rows.places)
    if not is_new.any():
        return np.empty((0, len(encoding.feature_names))), np.empty(0), None
    new = rows.encoded(Part(frame.filter(is_new), places[is_new]), encoding, held_out)
    return new.X, new.y, new.weight


class Fitted(NamedTuple):
    """The result of one run of `fit`, with its evaluation.

    share
        Of the rows that were held out; 0 where all are learnt.
    target_sha256
        Digest of the target of every row, by which the table is known again.
    title
        Which rows judge it.
    positive, rule
        Of two classes: the positive one, and how to decide, if that was said.
    base_rate
        What the weights did to the shares of the classes, in a sentence; empty if nothing.
    n_streamed
        Rows learnt of a large table, of which `train` is a sample; 0 where `train` is all.
    """

    request: FitRequest
    target: Target
    method: str
    estimator: EstimatorBase
    encoding: TableEncoding
    train: EncodedRows
    judged: Judged
    share: float
    title: str
    again: list[JudgedAgain]
    warnings: list[Said]
    target_sha256: str
    positive: Positive | None = None
    rule: Rule | None = None
    base_rate: str = ""
    n_streamed: int = 0

    @property
    def rows(self) -> dict[str, int]:
        """Numbers of training rows and held-out rows."""
        judged = self.judged.rows
        n = 0 if judged is None or len(judged.y) == len(self.train.y) else len(judged.y)
        return {"train": self.n_streamed or len(self.train.y), "held_out": n}

    def metadata(self, command: str) -> JsonObject:
        """Say what reproduces the model: the command, and every setting that it implied."""
        request, judged = self.request, self.judged
        own = request.test is None or isinstance(request.test, str)
        return plain(
            {
                "command": command,
                "source": request.table,
                "target": self.target.name,
                "task": self.encoding.task,
                "unit": self.target.unit,
                "seed": request.seed,
                "config": {
                    "method": self.method,
                    "parameters": self.estimator.get_params(deep=False),
                    "test_fraction": self.share,
                    **{name: getattr(request, name) for name in KEPT},
                    "test": request.test if own else table_name(request.test),
                    "shards": request.shards,
                    "rounds": request.rounds,
                },
                "rows": self.rows,
                "missing": self.encoding.gap_shares(self.train.X),
                "target_sha256": self.target_sha256,
                "held_out": judged.scores,
                "standard_errors": dict(judged.errors),
                "judged_by": self.title,
                "warnings": [
                    codec.to_json(one, Message) if isinstance(one, Message) else one
                    for one in self.warnings
                ],
                "baselines": judged.baselines and judged.baselines.to_dict(),
                "positive": self.positive and self.positive.label,
                "decision": codec.to_json(self.rule, Rule),
                "base_rate": self.base_rate,
            }
        )

    @property
    def on_judging(self) -> list[str]:
        """Remarks of the report page on the evaluation and on better or equal models."""
        said = list(self.judged.remarks)
        if self.title and self.title != f"{self.rows['held_out']} held-out rows":
            said.insert(0, f"evaluated on {self.title}")
        said += [one.remark for one in self.again]
        said = [*map(for_terminal, said)]
        return [f"{sentence[0].upper()}{sentence[1:]}." for sentence in said]


def fit_table(request: FitRequest, frame: pl.DataFrame, all_rows: AllRows | None = None) -> Fitted:
    """Split a table, encode its columns, fit, evaluate; InputError or TableError in one line.

    all_rows
        Of a large table, whose sample `frame` is.
    """
    target = target_of(request, frame)
    request = replace(request, group=factors_of(request.group, frame.columns) or None)
    if request.std_of and (all_rows is not None or request.shards is not None):
        raise InputError(Message.of("std_of.whole"))
    if request.unit is not None:
        target = target._replace(unit=request.unit)
    with _of_sample(all_rows):
        parts = divided(request, frame, target.name, request.task_or(target.task))
    if all_rows is not None:
        remarks = [one.within("sample", n_sample=len(frame)) for one in parts.remarks]
        parts = parts._replace(remarks=remarks)
    current_listener().remark(parts.remarks)
    if parts.marks is not None and request.unit is None:
        target = target._replace(unit=parts.marks.unit)
    if request.unit and parts.task == CLASSIFICATION:
        raise InputError(Message.of("unit.classes", one_line(target.name)))
    method = method_of(request.method, parts.task, f"{one_line(target.name)} asks for {parts.task}")
    make = partial(make_estimator, request.settings, method, parts.task, request.seed)
    return _fit(request, method, make, parts, target, all_rows)


def _fit(
    request: FitRequest,
    method: str,
    make: Callable[[], EstimatorBase],
    parts: Division,
    target: Target,
    all_rows: AllRows | None,
) -> Fitted:
    listener = current_listener()
    in_folds = _is_judged_in_folds(request, parts)
    if in_folds:
        parts = parts._replace(is_test=np.zeros(len(parts.frame), bool))
    with _of_sample(all_rows):
        encoding = parts.encoding()
        train, test = parts.encoded(encoding)
    check_two_classes(encoding.classes, request.asked.option)
    positive = positive_class(encoding.classes, request.positive, train.y)
    moved = base_rate_moved(train, encoding.classes)
    given_away = giveaways(encoding, parts.frame.filter(~parts.is_test), train)
    for sentence in encoding.report:
        if sentence not in encoding.questions:
            listener.note(sentence)
    listener.remark([*encoding.questions, *moved, *given_away])
    table = [*encoding.report, *moved, *given_away]
    if request.test is not None:
        own = request.group, request.std_of
        test = own_rows(request.test, encoding, train, *own, all_rows)
    make = _of_kind(request, encoding, train, parts.frame[target.name], make)
    estimator = make()
    refusals = (ValueError, *([TypeError] if request.settings.keys() - OPTIONS else []))
    if request.shards is not None:
        from bayesprop.scale.shards import check_combines

        with refusals_of_estimator(ValueError):
            check_combines(estimator)
    share = FITTING_BEFORE_FOLDS if in_folds else FITTING
    n_rows, learn_all = len(train.y), None
    if request.shards is not None and all_rows is None:
        learn_all = partial(learn_in_shards, request)
    if all_rows is not None and all_rows.are_learnt_by(estimator):
        n_rows = all_rows.table.n_rows - parts.counts["held_out"]
        learn_all = partial(all_rows.learn, encoding, parts)
    with (
        listener.doing(f"fitting {n_rows} rows", time_share=share) as going,
        listener.stoppable(going),
        refusals_of_estimator(*refusals),
    ):
        remarks = learn(estimator, train, learn_all)
    if all_rows is not None:
        remarks = [all_rows.remark(estimator), *remarks]
    listener.remark(remarks)
    if going.stop.is_set():
        listener.offer("the fit was interrupted")
    place = None if positive is None else positive.place
    judged, peers = INTERRUPTED, request.with_peers
    try:
        if not in_folds:
            with listener.doing(f"evaluating on {len(test.y)} rows"):
                judged = judge(estimator, encoding, train, test, place, with_peers=peers)
        elif not going.stop.is_set():
            judged = judged_in_folds(request, parts, encoding, make, place)
    except KeyboardInterrupt:
        listener.offer("interrupted during the evaluation")
    rule, unreached = _rule(request.asked, positive, judged)
    listener.remark(test.remarks if request.test is not None else [])
    known = [*judged.remarks, *unreached]
    again = []
    if not going.cuts and request.shards is None:
        with listener.doing("looking for rows that belong together"):
            again = judged_again(request, parts, judged, make, encoding)
    known += [one.remark for one in again if one.is_worse]
    listener.remark(known)
    for one in again:
        if not one.is_worse:
            listener.note(one.remark)
    remarks = [*parts.remarks, *table, *remarks, *test.remarks, *known]
    share = parts.counts["held_out"] / len(parts.frame)
    title = _title(request, judged, in_folds=in_folds)
    return Fitted(
        request,
        target,
        method,
        estimator,
        encoding,
        train,
        judged,
        share,
        title,
        again,
        remarks,
        fingerprint(encoding.target(parts.target)),
        positive,
        rule,
        "".join(map(for_terminal, moved)),
        0 if all_rows is None or learn_all is None else estimator.fit_report_.n_rows,
    )


def _of_sample(all_rows: AllRows | None) -> AbstractContextManager[None]:
    """Let messages call rows of a sample as they are in the large table."""
    return nullcontext() if all_rows is None else all_rows.rows_called(all_rows.places)


def _is_judged_in_folds(request: FitRequest, parts: Division) -> bool:
    """Whether 10 % of the rows would be too few, and no other evaluation was requested."""
    choices = request.test_fraction, request.test, request.time, request.shards
    is_chosen = any(a is not None for a in choices)
    return not is_chosen and len(parts.frame) < _FEW_ROWS


def own_rows(
    table: Table,
    encoding: TableEncoding,
    train: EncodedRows,
    group: Grouping,
    std_of: Mapping[str, str | float] | None = None,
    all_rows: AllRows | None = None,
) -> EncodedRows:
    """Read rows for evaluation; InputError if there are none, or if they are the training rows."""
    frame = read_any(table, encoding.text_columns, missing=encoding.missing)
    column(frame, encoding.target_name, table)
    rows = encoding.rows(frame, std_of=std_of)
    if not len(rows.y):
        raise InputError(Message.of("test.no_target", what=table_name(table)))
    same = rows
    if all_rows is not None:
        same = rows.of(np.isin(rows.numbers - 1, all_rows.places[train.numbers - 1]))
    if fingerprint(same.y) == fingerprint(train.y):
        raise InputError(Message.of("test.learnt", what=table_name(table)))
    return in_groups(rows, frame, group)


def _first(request: FitRequest) -> str:
    """Word the column whose groups are held out together, of several."""
    return one_line(factors_of(request.group, ())[0][0])


def _title(request: FitRequest, judged: Judged, *, in_folds: bool) -> str:
    """Word the rows that a fit is evaluated on."""
    rows = judged.rows
    if rows is None:
        return ""
    if in_folds:
        whole = f", folds of whole groups of {_first(request)}" if request.group else ""
        return f"{len(rows.y)} rows, by cross-validation{whole}"
    is_own, which = request.test is not None, ""
    if rows.group is not None:
        new = "" if is_own else "new "
        n = len(np.unique(rows.group))
        which = f", of {n} {new}values of {_first(request)}"
    elif request.time:
        which = f", the latest by {one_line(request.time)}"
    what = f"rows of {table_name(request.test)}" if is_own else "held-out rows"
    return f"{len(rows.y)} {what}{which}"


def _rule(
    asked: Asked, positive: Positive | None, judged: Judged
) -> tuple[Rule | None, list[Message]]:
    """Return how to decide; where held-out rows do not reach a rate, none, and a sentence."""
    predictive, y = None, np.empty(0)
    if asked.rate is not None:
        if judged.models is None or judged.rows is None:
            raise InputError(Message.of("rate.no_rows"))
        predictive, y = judged.models["model"], judged.rows.y
    try:
        return asked.rule(positive, predictive, y), []
    except UnreachableError as error:
        return None, [Message.of("rate.unreached", reason=error)]


def _of_kind(
    request: FitRequest,
    encoding: TableEncoding,
    train: EncodedRows,
    target: pl.Series,
    make: Callable[[], EstimatorBase],
) -> Callable[[], EstimatorBase]:
    """Return what builds the estimator for the kind of its target."""
    noise = make().get_params(deep=False).get("noise")
    settings = settings_of_kind(request, encoding, train, target, noise=noise)
    return lambda: make().set_params(**settings)
