"""What a report says of the positive one of two classes: ranking, costs, what a threshold does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from bayesprop.decisions.thresholds import FLAGGED, AtThreshold, Costs, Rule
from bayesprop.model.ranking import Curve, Curves, Ranked, curves
from bayesprop.report.words import number, percent

LIKELIER = 0.5
_N_THRESHOLDS = 181


@dataclass(frozen=True)
class CostCurve:
    """What a hundred rows cost at each threshold, and where 95 of 100 tables of such rows lie.

    best
        Threshold of least cost on these rows, and that cost: in hindsight, so it flatters.
    chosen, never, always
        Cost at the rule's threshold, where no row is flagged, and where all are.
    """

    curve: Curve
    best: tuple[float, float]
    chosen: float
    never: float
    always: float


@dataclass(frozen=True)
class TwoClasses:
    """The positive class among the judged rows.

    share
        Of it among the rows; what average precision is by chance.
    curves
        None where either class has fewer than five rows.
    rule
        How the model decides; None: by the likelier class.
    costs
        None where the rule is not by costs.
    """

    positive: str
    other: str
    share: float
    curves: Curves | None
    rule: Rule | None
    at: AtThreshold
    costs: CostCurve | None

    @property
    def threshold(self) -> float:
        """The probability from which a row is flagged."""
        return LIKELIER if self.rule is None else self.rule.threshold

    @property
    def how(self) -> str:
        """Say where the threshold comes from, and how sure it is."""
        rule = self.rule
        if rule is None:
            return "No costs and no rate were given: a row is flagged where the class is likelier."
        if rule.costs is not None:
            fn, fp = number(rule.costs.fn), number(rule.costs.fp)
            return (
                f"A missed row costs {fn}, a false alarm {fp}: flagging is cheaper from {fp} /"
                f" ({fp} + {fn}) = {percent(rule.threshold, 1)} on, if probabilities keep their"
                " promise. No rows were needed to choose it."
            )
        low, high = rule.spread
        text = (
            f"It was chosen to reach {rule.asked} on {rule.n_rows:,} rows, of which"
            f" {rule.n_positive:,} are of the class; other such rows would have given"
            f" {percent(low, 1)} to {percent(high, 1)}."
        )
        if rule.among_new is None:
            return text
        low, high = rule.among_new
        kind = "" if rule.rate is None else rule.rate.kind
        name = "share of flagged rows" if kind == FLAGGED else kind
        return (
            f"{text} Among new rows the {name} will be {percent(low)} to {percent(high)}, 95 times"
            " of 100."
        )


def two_classes(
    p: Float[np.ndarray, " n"],
    positive: Bool[np.ndarray, " n"],
    names: tuple[str, str],
    rule: Rule | None,
) -> TwoClasses:
    """Compute it; `names` are those of the positive class and of the other, `p` is of the first."""
    threshold = LIKELIER if rule is None else rule.threshold
    at = AtThreshold.of(p >= threshold, positive)
    costs = None if rule is None or rule.costs is None else _cost_curve(p, positive, rule.costs, at)
    share = float(np.mean(positive))
    return TwoClasses(*names, share, curves(p, positive), rule, at, costs)


def _cost_curve(
    p: Float[np.ndarray, " n"], positive: Bool[np.ndarray, " n"], costs: Costs, at: AtThreshold
) -> CostCurve:
    """Count the mistakes at thresholds from a tenth of the chosen one to near certainty."""
    n, n_positive = len(p), int(np.sum(positive))
    start = np.log10(min(costs.threshold / 10.0, 0.1))
    grid = np.unique(np.append(np.logspace(start, 0.0, _N_THRESHOLDS), costs.threshold))
    missed = np.searchsorted(np.sort(p[positive]), grid)
    alarms = n - n_positive - np.searchsorted(np.sort(p[~positive]), grid)
    mean = (costs.fn * missed + costs.fp * alarms) / n
    square = (costs.fn**2 * missed + costs.fp**2 * alarms) / n
    half = 1.96 * np.sqrt(np.maximum(square - mean**2, 0.0) / n)
    ranked = Ranked.of(p, positive)
    every = costs.mean(ranked.counts())
    never, always = costs.fn * n_positive / n, costs.fp * (n - n_positive) / n
    best = int(np.argmin(every))
    least = (float(ranked.score[best]), 100.0 * float(every[best]))
    if never <= every[best]:
        least = (1.0, 100.0 * never)
    curve = Curve(grid, *(100.0 * y for y in (mean, np.maximum(mean - half, 0.0), mean + half)))
    return CostCurve(curve, least, 100.0 * at.cost(costs), 100.0 * never, 100.0 * always)
