"""What `positive`, `cost` and `rate` ask for: the positive one of two classes, and a rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.evaluation.thresholds import AtThreshold, Costs, Rate, Rule
from bayesprop.table.encoding import EncodedRows
from bayesprop.table.errors import (
    InputError,
    Message,
    close_to,
    listed,
    one_line,
    refusals_of_estimator,
)
from bayesprop.table.target import Label, class_text
from bayesprop.table_model.plain_values import figure

if TYPE_CHECKING:
    from bayesprop.codec import Json, JsonObject

_MOVED = 1.25


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
