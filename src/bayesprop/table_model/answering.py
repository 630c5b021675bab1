"""What is asked of predictions: which columns, calibrated or decided on what, which rows not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from bayesprop.decisions.thresholds import Rule, UnreachableError
from bayesprop.table.encoding import Rows
from bayesprop.table_model.abstaining import ABSTAINED, Abstaining
from bayesprop.table_model.answers import Answers, NumberAnswers
from bayesprop.table_model.deciding import Asked, check_two_classes
from bayesprop.table_model.deciding import words as rule_in_words
from bayesprop.table_model.listener import Listener
from bayesprop.table_model.plain_values import figure
from bayesprop.table_model.predicting import refusals_by_name
from bayesprop.table_model.refusals import InputError, refusals_of_estimator
from bayesprop.table_model.sources import table_name

if TYPE_CHECKING:
    from bayesprop.table_model.model import TableModel


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
    """

    interval: Sequence[float] = ()
    quantiles: Sequence[float] = ()
    asked: Asked = field(default_factory=Asked)
    calibrate: Any = None
    abstain_above: float | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        if self.calibrate is not None and self.quantiles:
            raise InputError("--calibrate stretches intervals only; leave --quantiles out")
        if self.asked.rate is not None and self.calibrate is None:
            raise InputError("--rate chooses a threshold on rows with the target: give --calibrate")


class Answering(NamedTuple):
    """How the rows of a table are answered, and which are not."""

    answers: Answers
    abstaining: Abstaining | None

    @classmethod
    def of(
        cls,
        model: TableModel,
        request: PredictRequest,
        listener: Listener,
        others: Collection[str] = (),
    ) -> Answering:
        """Prepare it; InputError where the model cannot answer so.

        others
            Names of columns that stand beside.
        """
        is_class = bool(model.encoding.classes)
        abstaining = Abstaining.asked_for(request.abstain_above, request.by, classes=is_class)
        reasons = () if abstaining is None else (ABSTAINED,)
        rule = _rule(model, request, listener)
        answers = model.answers(request.interval, request.quantiles, rule, (*reasons, *others))
        if isinstance(answers, NumberAnswers) and request.calibrate is not None:
            learnt = _stretches(model, request.calibrate, answers.intervals, listener)
            answers = replace(answers, stretches=learnt)
        return cls(answers, abstaining)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [*self.answers.names, *([] if self.abstaining is None else [ABSTAINED])]

    def of_table(self, *, has_gaps: bool) -> Answering:
        """Say of every row what its missing inputs cost, where a table has gaps."""
        return self._replace(answers=replace(self.answers, has_gaps=has_gaps))

    def frame(self, predictive: Any) -> pl.DataFrame:
        """Return the predictions of some rows as columns."""
        predicted = pl.DataFrame(self.answers.columns(predictive))
        if self.abstaining is None:
            return predicted
        return self.abstaining.applied(predicted, predictive, self.answers.doubts)

    def sum_up(self, listener: Listener) -> None:
        """Say how many rows have no prediction, where some may have none."""
        if self.abstaining is not None:
            self.abstaining.sum_up(listener)


def _rule(model: TableModel, request: PredictRequest, listener: Listener) -> Rule | None:
    """Return how to decide: as asked now, else as the fit was told, else not at all."""
    positive, asked = model.positive, request.asked
    check_two_classes(model.encoding.classes, asked.option)
    if model.encoding.classes and request.calibrate is not None and asked.rate is None:
        raise InputError("--calibrate is for numbers, and of classes for the threshold of --rate")
    if positive is None:
        return None
    predictive, y = None, np.empty(0)
    if asked.rate is not None:
        rows = _unseen_rows(model, request.calibrate, "a threshold chosen on them would be off")
        predictive, y = model.predictive(rows.X, rows.numbers), rows.y
    with refusals_of_estimator(UnreachableError):
        rule = asked.rule(positive, predictive, y) or model.notes.rule
    if rule is not None:
        listener.note(rule_in_words(rule, positive))
    return rule


def _stretches(
    model: TableModel, table: Any, levels: tuple[float, ...], listener: Listener
) -> tuple[float, ...]:
    """Learn from a table how many std an interval of each level reaches from the mean."""
    from bayesprop.decisions.conformal import ConformalRegressor

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


def _unseen_rows(model: TableModel, table: Any, what_else: str) -> Rows:
    """Read the rows that have a target; InputError if they are those that the model has learnt."""
    rows = model.rows_of(model.read(table, model.encoding.rows), table)
    seen = model.seen_before(rows.y, table)
    if seen is not None:
        raise InputError(
            f"--calibrate needs rows that the fit did not see: {seen}, and {what_else}"
        )
    return rows
