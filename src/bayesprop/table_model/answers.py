"""How predictions are written, as columns of a table and as words: numbers, or classes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import GaussianPredictive, Predictive
from bayesprop.evaluation.thresholds import Rule
from bayesprop.table.date_forms import DURATION, DURATION_FORMS, HOURS, durations_as
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.target import class_text
from bayesprop.table_model.deciding import Positive
from bayesprop.table_model.plain_values import figure, figure_beside

if TYPE_CHECKING:
    from bayesprop.codec import JsonObject

MAX_CLASS_COLUMNS, LIKELIEST_CLASSES = 20, 5
_WORDED_CLASSES = 3
SHARES = GAP_SHARE, GROUP_SHARE = "gap_share", "group_share"
DIGITS, DIGITS_OF_STD = 7, 4
"""Significant digits of predictions as text, and to which digit of its std a number is given."""


def rounded(values: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Round to DIGITS significant digits, or to the last of DIGITS_OF_STD of a std if finer."""
    with np.errstate(divide="ignore", invalid="ignore"):
        own = DIGITS - 1 - np.floor(np.log10(np.abs(values)))
        by_std = DIGITS_OF_STD - 1 - np.floor(np.log10(std))
    own, by_std = (np.where(np.isfinite(one), one, 0.0) for one in (own, by_std))
    n_decimals = np.maximum(own, by_std).astype(int)
    result = np.array(values, np.float64)
    for n in np.unique(n_decimals):
        result[n_decimals == n] = np.round(result[n_decimals == n], n)
    return result


def _rounded(predicted: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    floats = [name for name in names if predicted.schema[name].is_float()]
    rounded = predicted.with_columns(pl.col(floats).round_sig_figs(DIGITS))
    return rounded.with_columns(pl.col(name).round(DIGITS) for name in floats if name in SHARES)


@dataclass(frozen=True)
class NumberAnswers:
    """Mean, standard deviations, intervals and quantiles of a predicted number.

    stretches
        How many std each interval reaches from the mean; None: as the predictive has it.
    shares
        Which of SHARES to say of every row: what its missing inputs, or its group, cost.
    form
        In which durations are written; None: numbers are none.
    """

    intervals: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()
    stretches: tuple[float, ...] | None = None
    doubts: tuple[str, ...] = ("std", "epistemic_std", "noise_std", *SHARES)
    shares: tuple[str, ...] = ()
    form: str | None = None

    def columns(self, predictive: Predictive) -> dict[str, np.ndarray]:
        """Return the predictions of some rows as named columns, in the units of the target."""
        columns = {
            "mean": predictive.mean,
            "std": predictive.std,
            "epistemic_std": np.sqrt(predictive.epistemic_var),
            "noise_std": np.sqrt(predictive.noise_var),
            **{name: getattr(predictive, name) for name in self.shares},
        }
        for place, level in enumerate(self.intervals):
            if self.stretches is None:
                low, high = np.moveaxis(predictive.interval(level), -1, 0)
            else:
                half = self.stretches[place] * predictive.std
                ends = np.stack([predictive.mean - half, predictive.mean + half], axis=-1)
                low, high = np.moveaxis(predictive.limited(ends), -1, 0)
            columns[f"lower_{100.0 * level:.10g}"] = low
            columns[f"upper_{100.0 * level:.10g}"] = high
        return columns | {f"q_{level:g}": predictive.quantile(level) for level in self.quantiles}

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns(GaussianPredictive(*np.ones((3, 1)))))

    def rounded(self, predicted: pl.DataFrame) -> pl.DataFrame:
        """Round predictions to digits that mean something: DIGITS, and more for small errors."""
        own = set(predicted.columns) - {"std", "epistemic_std", "noise_std", *SHARES}
        own = [name for name in own if name in self.names]
        std = predicted["std"].to_numpy()
        return _rounded(predicted, self.names).with_columns(
            pl.Series(name, rounded(predicted[name].to_numpy(), std)).fill_nan(None) for name in own
        )

    def rendered(self, predicted: pl.DataFrame) -> pl.DataFrame:
        """Write durations in their form, all of a row to a hundredth of its std or finer."""
        if self.form is None:
            return predicted
        std = predicted["std"].to_numpy()
        own = [name for name in predicted.columns if name in {*self.names} - {*SHARES}]
        return predicted.with_columns(
            durations_as(self.form, predicted[name], std).alias(name) for name in own
        )

    def _figures(self, record: JsonObject) -> list[str]:
        """Write the mean of one row, and its std, epistemic std and noise std."""
        mean, *stds = (record[name] for name in ("mean", "std", "epistemic_std", "noise_std"))
        if self.form is None:
            return [figure_beside(mean, stds[0]), *(figure(v, 3) for v in stds)]
        form = HOURS if self.form == DURATION else self.form
        return durations_as(form, pl.Series([mean, *stds]), np.full(4, stds[0])).to_list()

    def brief(self, target: str, record: JsonObject) -> dict[str, str]:
        """Return the answer of one row, by column, as cells of a small table."""
        return dict(zip((target, "±"), self._figures(record), strict=False))

    def words(self, one: Predictive, unit: str) -> str:
        """Word the prediction of one row and its uncertainty, in two parts."""
        record = {name: float(values[0]) for name, values in self.columns(one).items()}
        mean, std, epistemic, noise = self._figures(record)
        unit = "" if self.form else unit
        parts = f"± {epistemic} is epistemic, ± {noise} is noise"
        return f"{mean} ± {std}{' ' * bool(unit)}{unit}: {parts}"


@dataclass(frozen=True)
class ClassAnswers:
    """The likeliest class in column `label`, probabilities of classes, entropies in nats.

    positive, rule
        Of two classes, how to decide; None: the likeliest class is all that is said.
    shares
        As of `NumberAnswers`.
    order, ordered
        Places of ordered classes from the lowest to the highest, and intervals and quantiles of
        them; None: they have no order.
    """

    label: str
    classes: tuple[str, ...]
    positive: Positive | None = None
    rule: Rule | None = None
    doubts: tuple[str, ...] = ("entropy", "mutual_information", GAP_SHARE)
    shares: tuple[str, ...] = ()
    order: tuple[int, ...] | None = None
    ordered: NumberAnswers | None = None

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        classes = np.array(self.classes)
        even = np.full((1, len(classes)), 1.0 / len(classes))
        return list(self.columns(ClassPredictive(even, np.zeros(1), classes, order=self.order)))

    @property
    def _quantiles(self) -> dict[str, float]:
        """Levels of the quantiles of ordered classes, by name of the column; none without order."""
        if self.ordered is None:
            return {}
        tails = {100.0 * level: 0.5 - 0.5 * level for level in self.ordered.intervals}
        bounds = {
            f"{side}_{percent:.10g}": at
            for percent, tail in tails.items()
            for side, at in (("lower", tail), ("upper", 1.0 - tail))
        }
        return (
            {"median": 0.5} | bounds | {f"q_{level:g}": level for level in self.ordered.quantiles}
        )

    def columns(self, predictive: ClassPredictive) -> dict[str, np.ndarray]:
        """Return the predictions of some rows as named columns.

        Every probability, or those of the likeliest classes only.
        """
        proba = predictive.proba
        columns = {self.label: predictive.label}
        if self.positive is not None and self.rule is not None:
            columns |= _decision(predictive, self.positive.place, self.rule)
        columns |= {name: predictive.quantile(at) for name, at in self._quantiles.items()}
        if len(self.classes) <= MAX_CLASS_COLUMNS:
            columns |= {f"p({self.classes[at]})": proba[:, at] for at in predictive.shown}
        else:
            order = np.argsort(-proba, axis=1, kind="stable")[:, :LIKELIEST_CLASSES]
            for rank, codes in enumerate(order.T, start=1):
                columns[f"class_{rank}"] = predictive.classes[codes]
                columns[f"p_{rank}"] = proba[np.arange(len(proba)), codes]
        columns |= {"entropy": predictive.entropy}
        columns |= {"mutual_information": predictive.mutual_information}
        return columns | {name: getattr(predictive, name) for name in self.shares}

    def rounded(self, predicted: pl.DataFrame) -> pl.DataFrame:
        """Round predictions to digits that mean something: DIGITS of them."""
        return _rounded(predicted, self.names)

    def rendered(self, predicted: pl.DataFrame) -> pl.DataFrame:
        """Return predictions as they are: classes need no other form."""
        return predicted

    def brief(self, target: str, record: JsonObject) -> dict[str, str]:
        """Return the prediction of one row as cells of a small table, by column."""
        return {target: class_text(record[self.label])}

    def words(self, one: ClassPredictive, unit: str) -> str:  # noqa: ARG002
        """Word the prediction of one row and its uncertainty, in two parts."""
        proba = one.proba[0]
        likeliest = np.argsort(-proba, kind="stable")[:_WORDED_CLASSES]
        shares = [f"{self.classes[k]} ({proba[k]:.0%})" for k in likeliest]
        return (
            f"{' or '.join(shares)}: {figure(float(one.entropy[0]))} nats of uncertainty, "
            f"{figure(float(one.mutual_information[0]))} of them epistemic"
        )


def _decision(predictive: ClassPredictive, positive: int, rule: Rule) -> dict[str, np.ndarray]:
    """Return which of two classes to act on, and what that costs on average if costs were given."""
    p = predictive.proba[:, positive]
    flagged = rule.flags(p)
    decided = {"decision": predictive.classes[np.where(flagged, positive, 1 - positive)]}
    return (
        decided
        if rule.costs is None
        else decided | {"expected_cost": rule.costs.expected(p, flagged)}
    )


Answers = NumberAnswers | ClassAnswers


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name for the column of the likeliest class that no other column has."""
    label, rank = name, 1
    while label in taken:
        label, rank = f"predicted_{name}" + (f"_{rank}" if rank > 1 else ""), rank + 1
    return label


def answers_of(
    encoding: TableEncoding,
    label: str,
    numbers: NumberAnswers,
    order: tuple[int, ...] | None = None,
) -> Answers:
    """Return how what a table's model predicts is written; `label` is the column of a class."""
    classes = tuple(map(class_text, encoding.classes))
    if not classes:
        if (marks := encoding.marks) is not None and marks.written in DURATION_FORMS:
            return replace(numbers, form=marks.written)
        return numbers
    ordered = None if order is None else numbers
    return ClassAnswers(label, classes, order=order, ordered=ordered)
