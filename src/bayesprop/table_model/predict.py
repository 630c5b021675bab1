"""Predictions of a table: columns, calibration, decisions, and rows without an answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
from jaxtyping import Float, Shaped

from bayesprop.abstention import scores_for, uncertainty_of
from bayesprop.datasets import registry
from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.distributions.predictive import Predictive
from bayesprop.evaluation.thresholds import Rule, UnreachableError
from bayesprop.model.progress import current, following
from bayesprop.model.task import ExposureError, FarInputError
from bayesprop.scale.large_table import EncodedTables
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import (
    InputError,
    Message,
    close_to,
    listing,
    one_line,
    refusals_of_estimator,
)
from bayesprop.table.values import names_in
from bayesprop.table.write import PARQUET, check_kind, write_table
from bayesprop.table_model.answers import (
    GAP_SHARE,
    GROUP_SHARE,
    Answers,
    Asked,
    ClassAnswers,
    NumberAnswers,
    answers_of,
    check_two_classes,
    free_name,
)
from bayesprop.table_model.answers import words as rule_in_words
from bayesprop.table_model.listener import current_listener, figure
from bayesprop.table_model.sources import Table, large_table, table_name

if TYPE_CHECKING:
    from bayesprop.table_model.model import TableModel


ABSTAINED, ALL, WHY = "abstained", "all", "why"
CHUNK_ROWS = 65_536
D = TypeVar("D", bound="Distribution")


@dataclass(frozen=True, kw_only=True)
class PredictRequest:
    """What is asked of predictions.

    interval, quantiles
        Levels, 0 to 1.
    asked
        How two classes are decided, if not as the fit was told.
    calibrate
        Rows with the target that the fit did not see, a file, data set or frame: they stretch the
        intervals of numbers, or choose the threshold of a rate.
    abstain_above, by
        Above which uncertainty a row has no prediction, and which uncertainty that is.
    columns
        Of the table, to stand beside predictions.
    escape_formulas
        As `write_table` takes it.
    why
        Whether to say of every row why it is predicted so.
    """

    interval: Sequence[float] = ()
    quantiles: Sequence[float] = ()
    asked: Asked = field(default_factory=Asked)
    calibrate: Table | None = None
    abstain_above: float | None = None
    by: str | None = None
    columns: Sequence[str] = ()
    escape_formulas: bool = False
    why: bool = False

    def __post_init__(self) -> None:
        if self.calibrate is not None and self.quantiles:
            raise InputError(Message.of("calibrate.quantiles"))
        if self.asked.rate is not None and self.calibrate is None:
            raise InputError(Message.of("rate.uncalibrated"))


class Abstaining:
    """A rule for when not to answer: `above` which uncertainty; and how often it was met."""

    def __init__(self, by: str, above: float) -> None:
        self.by = by
        self.above = above
        self.n_rows = 0
        self.n_abstained = 0
        self.most = 0.0

    @classmethod
    def asked_for(cls, above: float | None, by: str | None, *, classes: bool) -> Abstaining | None:
        """Check what the user asked for; None where it was nothing."""
        if above is None:
            if by is not None:
                raise InputError(Message.of("abstain.by_alone"))
            return None
        if not (isinstance(above, Real) and 0.0 <= float(above) < math.inf):
            raise InputError(Message.of("abstain.above", got=one_line(str(above))))
        known = scores_for(classes=classes)
        if by is not None and by not in known:
            kind, name = "classes" if classes else "numbers", one_line(str(by))
            own = {"got": name, "kind": kind, "meant": close_to(name, known)}
            raise InputError(Message.of("abstain.by", known=", ".join(known), **own))
        return cls(next(iter(known)) if by is None else by, float(above))

    def applied(
        self,
        predicted: pl.DataFrame,
        predictive: Predictive | ClassPredictive,
        doubts: tuple[str, ...],
    ) -> pl.DataFrame:
        """Empty the predictions of the rows beyond, save their doubts; add the reasons."""
        uncertainty = uncertainty_of(predictive, self.by)
        beyond = ~(uncertainty <= self.above)
        self.n_rows += len(beyond)
        self.n_abstained += int(np.sum(beyond))
        self.most = max(self.most, float(np.max(uncertainty, initial=0.0)))
        answers = [name for name in predicted.columns if name not in doubts]
        reasons = [
            f"{self.by} {value:.6g} > {self.above:g}" if is_beyond else None
            for value, is_beyond in zip(uncertainty, beyond, strict=True)
        ]
        emptied = [
            pl.when(pl.lit(pl.Series(~beyond))).then(pl.col(name)).alias(name) for name in answers
        ]
        return predicted.with_columns(*emptied, pl.Series(ABSTAINED, reasons, dtype=pl.String))

    def sum_up(self) -> None:
        """Say how many rows have no prediction."""
        if self.most == 0.0 and self.n_rows:
            current_listener().warn([Message.of("abstain.never", by=self.by)])
        share = self.n_abstained / max(self.n_rows, 1)
        current_listener().note(
            f"abstained on {self.n_abstained} of {self.n_rows} rows ({100.0 * share:.3g} %): "
            f"{self.by} above {figure(self.above)}; the largest is {figure(self.most)}"
        )


class Answering(NamedTuple):
    """How the rows of a table are answered, and which are not."""

    answers: Answers
    abstaining: Abstaining | None
    why: bool = False

    @classmethod
    def of(
        cls,
        model: TableModel,
        request: PredictRequest,
        others: Collection[str] = (),
    ) -> Answering:
        """Prepare it; InputError where the model cannot answer so.

        others
            Names of columns that stand beside.
        """
        is_class = bool(model.encoding.classes)
        abstaining = Abstaining.asked_for(request.abstain_above, request.by, classes=is_class)
        reasons = (*([] if abstaining is None else [ABSTAINED]), *([WHY] if request.why else []))
        rule = _rule(model, request)
        answers = _answers(model, request, rule, (*reasons, *others))
        if isinstance(answers, NumberAnswers) and request.calibrate is not None:
            learnt = _stretches(model, request.calibrate, answers.intervals)
            answers = replace(answers, stretches=learnt)
        return cls(answers, abstaining, request.why)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        abstained = [] if self.abstaining is None else [ABSTAINED]
        return [*self.answers.names, *([WHY] if self.why else []), *abstained]

    def of_table(self, *, has_gaps: bool, has_groups: bool) -> Answering:
        """Say of every row what its missing or uncertain inputs cost, and what its group does."""
        of_groups = has_groups and isinstance(self.answers, NumberAnswers)
        is_said = {GAP_SHARE: has_gaps, GROUP_SHARE: of_groups}
        shares = tuple(name for name, is_asked in is_said.items() if is_asked)
        return self._replace(answers=replace(self.answers, shares=shares))

    def frame(self, predictive: Any, why: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the predictions of some rows as columns, with the reasons, if there are any."""
        predicted = pl.DataFrame(self.answers.columns(predictive))
        if why is not None:
            predicted = predicted.with_columns(pl.Series(WHY, why, dtype=pl.String))
        if self.abstaining is None:
            return predicted
        return self.abstaining.applied(predicted, predictive, self.answers.doubts)


def _answers(
    model: TableModel, request: PredictRequest, rule: Rule | None, others: Collection[str]
) -> Answers:
    """Say how predictions are written; InputError where that is not for such a target."""
    encoding, order = model.encoding, model.saved.fitted.task.order
    for option, levels in (("interval", request.interval), ("quantiles", request.quantiles)):
        if levels and encoding.classes and order is None:
            raise InputError(Message.of(f"{option}.classes"))
        if not all(0.0 < level < 1.0 for level in levels):
            got = ", ".join(f"{level:g}" for level in levels)
            raise InputError(Message.of(f"{option}.share", got=got))
    numbers = NumberAnswers(tuple(request.interval) or (0.9,), tuple(request.quantiles))
    answers = answers_of(encoding, encoding.target_name, numbers, order)
    if not isinstance(answers, ClassAnswers):
        return answers
    if model.positive is not None and rule is not None:
        answers = replace(answers, positive=model.positive, rule=rule)
    taken = {*replace(answers, label="").names, *others}
    return replace(answers, label=free_name(answers.label, taken))


def _rule(model: TableModel, request: PredictRequest) -> Rule | None:
    """Return the decision rule: of this call, else of the fit, else None."""
    positive, asked = model.positive, request.asked
    check_two_classes(model.encoding.classes, asked.option)
    if model.encoding.classes and request.calibrate is not None and asked.rate is None:
        raise InputError(Message.of("calibrate.classes"))
    if positive is None:
        return None
    predictive, y = None, np.empty(0)
    if request.calibrate is not None:
        rows = _unseen_rows(model, request.calibrate, "a threshold chosen on them would be off")
        predictive, y = predictive_of(model, rows.X, rows.numbers), rows.y
    with refusals_of_estimator(UnreachableError):
        rule = asked.rule(positive, predictive, y) or model.notes.rule
    if rule is not None:
        current_listener().note(rule_in_words(rule, positive))
    return rule


def _stretches(model: TableModel, table: Table, levels: tuple[float, ...]) -> tuple[float, ...]:
    """Learn from a table how many std an interval of each level reaches from the mean."""
    from bayesprop.conformal import ConformalRegressor

    listener = current_listener()
    with listener.doing(f"calibrating on {table_name(table)}"):
        rows = _unseen_rows(model, table, "intervals calibrated on them would be too narrow")
        with refusals_by_name(rows.X, model.encoding, rows.numbers):
            conformal = [ConformalRegressor(model.estimator, coverage=level) for level in levels]
            learnt = tuple(one.calibrate(rows.X, rows.y).stretch_ for one in conformal)
    listener.warn(rows.remarks)
    pairs = zip(levels, learnt, strict=True)
    words = ", ".join(f"{100 * level:g} %: mean ± {figure(reach)} std" for level, reach in pairs)
    listener.note(f"calibrated on {len(rows.y)} rows of {table_name(table)}: {words}")
    return learnt


def _unseen_rows(model: TableModel, table: Table, what_else: str) -> EncodedRows:
    """Read the rows that have a target; InputError if they are those that the model has learnt."""
    rows = model.rows_of(model.read(table, model.encoding.rows), table)
    seen = model.seen_before(rows.y, table)
    if seen is not None:
        raise InputError(Message.of("calibrate.seen", seen=seen, why=what_else))
    return rows


def write_predictions(
    model: TableModel, source: Table, request: PredictRequest, out: str | None
) -> int | pl.DataFrame:
    """Predict a table, some rows at a time, and return the predictions, or write them to a file.

    Returns how many there are where they are written, beside row numbers or columns of the table.

    out
        As `write_table` takes it.
    """
    listener, what, escaping = current_listener(), table_name(source), request.escape_formulas
    uncertain = [name for name, source in model.std_of.items() if source != 0.0]
    if uncertain and (request.why or request.calibrate is not None):
        raise InputError(Message.of("std_of.together", *uncertain))
    check_kind(out, escape_formulas=escaping)
    with listener.doing(f"reading {what}"):
        table = _tables(model, source)
    columns = _beside(table.columns, request.columns)
    answering = Answering.of(model, request, (*(["row"] if out else []), *columns))
    if taken := [name for name in columns if name in answering.names]:
        taken = one_line(listing(taken))
        raise InputError(Message.of("columns.taken", taken=taken))
    with listener.doing(f"looking at {what}"):
        looked = table.looked_at()
    if not looked.n_rows:
        raise InputError(Message.of("predict.no_rows", what=what))
    listener.warn(looked.warnings)
    has_groups = bool(model.known_groups) and request.calibrate is None
    answering = answering.of_table(has_gaps=looked.has_gaps, has_groups=has_groups)
    absent = [n for n in model.group_columns if has_groups and n not in table.columns]
    for name in absent:
        listener.note(Message.of("group.absent", name))
    with listener.doing(f"predicting {looked.n_rows} rows"):
        how = {"is_numbered": out is not None, "by_group": has_groups}
        parts = _predicted(model, table, answering, columns, **how)
        if out is not None and Path(out).suffix.lower() not in PARQUET:
            parts = map(answering.answers.rounded, parts)
        parts = map(answering.answers.rendered, parts)
        if out is None:
            predicted = pl.concat(parts)
        else:
            predicted = write_table(parts, out, escape_formulas=escaping)
    if answering.abstaining is not None:
        answering.abstaining.sum_up()
    return looked.n_rows if predicted is None else predicted


def _tables(model: TableModel, source: Table) -> EncodedTables:
    is_named = isinstance(source, str) and registry.find(source) is not None
    large = None if is_named else large_table(source)
    if large is None or (isinstance(source, str | Path) and not large.is_large):
        return EncodedTables(model.encode, model.read(source))
    return EncodedTables(model.encode, large if large.is_large else large.whole())


def _beside(columns: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Return the columns that predictions are to stand beside."""
    names = names_in(asked, columns)
    for name in names:
        if name not in (*columns, ALL):
            own = {"meant": close_to(name, columns), "names": one_line(listing(columns))}
            raise InputError(Message.of("columns.unknown", name, **own))
    return list(columns) if ALL in names else list(dict.fromkeys(names))


def _predicted(
    model: TableModel,
    table: EncodedTables,
    answering: Answering,
    columns: list[str],
    *,
    is_numbered: bool,
    by_group: bool,
) -> Iterator[pl.DataFrame]:
    """Yield the predictions of some rows at a time, so that memory stays bounded."""
    going = current()
    for frame, (x, _, x_std, groups), place in table:
        groups = groups if by_group else None
        for start in range(0, len(x), CHUNK_ROWS):
            part = x[start : start + CHUNK_ROWS]
            std, own = (
                None if one is None else one[start : start + CHUNK_ROWS] for one in (x_std, groups)
            )
            first, why = place + start + 1, None
            numbers = range(first, first + len(part))
            with following(going.part(start / len(x), (start + len(part)) / len(x))):
                predictive = predictive_of(model, part, numbers, std, own)
            if answering.why:
                from bayesprop.table_model.explain import explained

                of_inputs = predictive if own is None else predictive_of(model, part, numbers)
                why = explained(model, frame.slice(start, len(part)), part, of_inputs).why
            predicted = answering.frame(predictive, why)
            if columns:
                yield frame.select(columns).slice(start, len(part)).hstack(predicted)
            else:
                yield predicted.with_row_index("row", first) if is_numbered else predicted


@contextmanager
def refusals_by_name(
    features: Float[np.ndarray, "n k"],
    encoding: TableEncoding,
    numbers: Sequence[int] | np.ndarray,
) -> Iterator[None]:
    """Word an estimator's refusals as the table does, a far value not by places in a matrix."""
    try:
        with refusals_of_estimator(ValueError):
            yield
    except InputError as refusal:
        error = refusal.__cause__
        if isinstance(error, ExposureError):
            name = one_line(encoding.feature_names[error.column])
            raise InputError(error.at(f"data row {numbers[error.row]}", name)) from error
        if not isinstance(error, FarInputError):
            raise
        # It may have seen a few of the rows, in another order.
        places = np.flatnonzero(features[:, error.column] == error.value)
        row = f"data row {numbers[places[0]]}: " if len(places) else ""
        name = one_line(encoding.feature_names[error.column])
        own = {"furthest": error.furthest, "value": error.value}
        raise InputError(Message.of("predict.too_far", row=row, name=name, **own)) from error


def predict_rows(
    predict: Callable[[Float[np.ndarray, "n k"]], D],
    features: Float[np.ndarray, "n k"],
    encoding: TableEncoding,
    numbers: Sequence[int] | np.ndarray,
    positive: int | None = None,
) -> D:
    """Predict some rows; refuse values too far from the training table for a finite answer.

    numbers
        What the table calls the rows, for the message.
    """
    with refusals_by_name(features, encoding, numbers):
        predictive = predict(features)
    if not np.all(good := predictive.is_finite):
        row = numbers[int(np.argmin(good))]
        raise InputError(Message.of("predict.not_finite", row=row))
    return predictive if positive is None else replace(predictive, positive=positive)


def predictive_of(
    model: TableModel,
    X: Float[np.ndarray, "n k"],
    numbers: Sequence[int] | np.ndarray,
    X_std: Float[np.ndarray, "n k"] | None = None,
    groups: Shaped[np.ndarray, "n f"] | None = None,
) -> Distribution:
    """Predict some encoded rows by a table's model, as `predict_rows` does."""
    place = model.positive and model.positive.place
    predict = partial(model.saved.fitted.predict, X_std=X_std, groups=groups)
    return predict_rows(predict, X, model.encoding, numbers, place)
