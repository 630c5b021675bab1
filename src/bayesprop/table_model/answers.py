"""How predictions are written, as columns of a table and as words: numbers, or classes.

Of two classes one is positive, and a rule of costs or a rate decides between them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import polars as pl

from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.distributions.predictive import GaussianPredictive, Predictive
from bayesprop.evaluation.thresholds import AtThreshold, Costs, Rate, Rule
from bayesprop.table.date_forms import DURATION, DURATION_FORMS, HOURS, durations_as
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import (
    InputError,
    Message,
    close_to,
    listed,
    one_line,
    refusals_of_estimator,
)
from bayesprop.table.target import Label, class_text
from bayesprop.table_model.listener import figure, figure_beside

if TYPE_CHECKING:
    from bayesprop.codec import Json, JsonObject


_MOVED = 1.25
MAX_CLASS_COLUMNS, LIKELIEST_CLASSES = 20, 5
_WORDED_CLASSES = 3
SHARES = GAP_SHARE, GROUP_SHARE = "gap_share", "group_share"
DIGITS, DIGITS_OF_STD = 7, 4
"""Significant digits of predictions as text, and to which digit of its std a number is given."""


class Asked(NamedTuple):
    """What the options ask for, read; None where they were not given."""

    costs: Costs | None = None
    rate: Rate | None = None

    @classmethod
    def of(cls, cost: str | Mapping[str, float] | None, rate: str | None) -> Asked:
        """Check what can be checked without a table."""
        if cost is not None and rate is not None:
            raise InputError(Message.of("cost.and_rate"))
        with refusals_of_estimator(ValueError):
            costs = None if cost is None else Costs.parse(cost)
            return cls(costs, None if rate is None else Rate.parse(rate))

    def rule(
        self, positive: Positive | None, predictive: Distribution | None, y: np.ndarray
    ) -> Rule | None:
        """Return the rule; None where none was asked for.

        predictive, y
            Of rows that the fit did not see, which a rate needs.
        """
        if self.costs is not None:
            return Rule.of_costs(self.costs)
        if self.rate is None or positive is None:
            return None
        p = cast(ClassPredictive, predictive).proba[:, positive.place]
        return Rule.of_rate(self.rate, p, y == positive.label)

    @property
    def option(self) -> str:
        """The option that was given; empty where none was."""
        return "cost" if self.costs else "rate" if self.rate else ""


class Positive(NamedTuple):
    """The positive one of two classes, by its place."""

    classes: tuple[Label, ...]
    place: int

    @property
    def label(self) -> Label:
        """The class."""
        return self.classes[self.place]

    @property
    def name(self) -> str:
        """As a table spells it, fit to print."""
        return one_line(class_text(self.label))


def check_two_classes(classes: tuple[Label, ...], option: str) -> None:
    """Refuse an option that is for two classes."""
    if option and len(classes) != 2:
        there = f"there are {len(classes)}" if classes else "the target is a number"
        raise InputError(Message.of(f"{option}.classes", there=there))


def positive_of(classes: tuple[Label, ...], asked: str | None, y: np.ndarray) -> Positive | None:
    """Return the class asked for, else the rarer, the second of equals; None unless two classes.

    y
        Labels of the rows to learn from.
    """
    check_two_classes(classes, "positive" if asked is not None else "")
    if len(classes) != 2:
        return None
    if asked is None:
        return Positive(classes, int(np.mean(y == classes[0]) >= 0.5))
    names = [class_text(label) for label in classes]
    if asked not in names:
        own = {"asked": one_line(asked), "meant": close_to(asked, names)}
        raise InputError(Message.of("positive.unknown", names=listed(names), **own))
    return Positive(classes, names.index(asked))


def stored_positive(
    classes: tuple[Label, ...], noted: Json, shares: np.ndarray | None
) -> Positive | None:
    """Return the positive class of a model file: as noted, else the rarer, else the second.

    noted
        May be anything: whatever is no class counts as not noted.
    shares
        Of the classes among the rows of the fit, where they are known.
    """
    if len(classes) != 2:
        return None
    for place, label in enumerate(classes):
        if type(label) is type(noted) and label == noted:
            return Positive(classes, place)
    return Positive(classes, int(shares is None or len(shares) != 2 or shares[0] >= shares[1]))


def words(rule: Rule, positive: Positive) -> str:
    """Say a rule in a line."""
    text = f"decides {positive.name!r} from a probability of {rule.threshold:.4g}, by {rule.asked}"
    if rule.rate is None or rule.among_new is None:
        return text
    (low, high), new = rule.spread, rule.among_new
    return (
        f"{text} on {rule.n_rows} rows, {rule.n_positive} of them {positive.name!r} (other rows"
        f" would give {low:.4g} to {high:.4g}; {rule.rate.kind} among new rows: {new[0]:.3g} to"
        f" {new[1]:.3g}, 95 times of 100)"
    )


def choice_in_words(positive: Positive, option: str | None) -> Message:
    """Say which class is positive, and why: by the option, or because it is the rarer."""
    code = "positive.rarer" if option is None else "positive.asked"
    return Message.of(code, name=positive.name)


def decided(
    rule: Rule | None, positive: Positive | None, predictive: Distribution, y: np.ndarray
) -> JsonObject | None:
    """Return what a rule does on rows of known class; None where there is no rule.

    "threshold"; rows "found", "missed", "false_alarms", "rest"; "recall" and "precision" with the
    ends of their 95 % intervals; "mean_cost" of a row, None for a rate.
    """
    if positive is None or rule is None:
        return None
    flagged = rule.flags(cast(ClassPredictive, predictive).proba[:, positive.place])
    at = AtThreshold.of(flagged, y == positive.label)
    cost = None if rule.costs is None else at.cost(rule.costs)
    shares = {"recall": at.recall, "precision": at.precision}
    return {"threshold": rule.threshold, **at._asdict(), **shares, "mean_cost": cost}


def decided_in_words(rule: Rule, positive: Positive, decided: JsonObject) -> str:
    """Say what a rule does on rows of known class, of what `decided` returns."""
    recall, precision = (
        f"{figure(share)} (95 %: {figure(low)} to {figure(high)})"
        for share, low, high in (decided["recall"], decided["precision"])
    )
    cost = decided["mean_cost"]
    return (
        f"flagged as {positive.name!r} from {decided['threshold']:.4g} ({rule.asked}): "
        f"{decided['found']} right, {decided['false_alarms']} false alarms, {decided['missed']} "
        f"missed; recall {recall}, precision {precision}"
        + ("" if cost is None else f"; cost of a row {figure(cost)}")
    )


def base_rate_moved(rows: EncodedRows, classes: tuple[Label, ...]) -> list[Message]:
    """Say that the weights of the rows to learn from give a class another share than its rows."""
    if rows.weight is None or not classes:
        return []
    codes = np.searchsorted(np.array(classes), rows.y)
    counts = np.bincount(codes, minlength=len(classes))
    weighed = np.bincount(codes, rows.weight, len(classes)) / np.sum(rows.weight)
    share = counts / len(codes)
    ratio = np.where(counts > 0, weighed / np.maximum(share, 1e-300), 1.0)
    most = int(np.argmax(np.abs(np.log(np.maximum(ratio, 1e-300)))))
    if 1.0 / _MOVED <= ratio[most] <= _MOVED:
        return []
    own = {"before": 100.0 * share[most], "after": 100.0 * weighed[most]}
    return [Message.of("weights.move_shares", label=class_text(classes[most]), **own)]


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
