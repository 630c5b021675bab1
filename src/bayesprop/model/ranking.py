"""How well a score puts the rows of one class before the others: two curves, their areas, chance.

Average precision is sum_k (R_k - R_{k-1}) P_k over the distinct scores from the highest down, with
recall R and precision P; the area under the ROC curve is P(a row of the class scores higher), ties
by half. Chance is that of drawing the rows anew (the bootstrap; Efron 1979),
or the groups that they belong to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

N_DRAWS, _FEWEST_DRAWS, _MOST_VALUES = 200, 40, 20_000_000
FEWEST_FOR_BANDS = 5
_GRID = np.linspace(0.0, 1.0, 101)


class Counts(NamedTuple):
    """Rows of the class, and others, that score at least as much as each distinct score."""

    hits: Float[np.ndarray, " k"]
    false_alarms: Float[np.ndarray, " k"]

    @property
    def precision(self) -> Float[np.ndarray, " k"]:
        """Share of these rows that are of the class; 1 where there are none."""
        rows = self.hits + self.false_alarms
        return np.where(rows > 0.0, self.hits / np.maximum(rows, 1e-300), 1.0)

    @property
    def recall(self) -> Float[np.ndarray, " k"]:
        """Share of the rows of the class that are among these."""
        return self.hits / self.hits[-1]

    @property
    def average_precision(self) -> float:
        """Mean precision over the rows of the class."""
        return float(np.sum(np.diff(self.recall, prepend=0.0) * self.precision))

    @property
    def roc_auc(self) -> float:
        """Area under the ROC curve."""
        fallout = self.false_alarms / self.false_alarms[-1]
        recall = np.concatenate([[0.0], self.recall])
        return float(np.sum(np.diff(fallout, prepend=0.0) * (recall[1:] + recall[:-1]) / 2.0))

    @property
    def is_of_both(self) -> bool:
        """Whether there are rows of the class and others."""
        return bool(self.hits[-1] > 0.0 and self.false_alarms[-1] > 0.0)


class Ranked(NamedTuple):
    """Rows in the order of their score, the highest first.

    score
        The distinct scores; `ends` are the places of the last row of each.
    unit
        Number, from 0, of what each row is drawn with: its group, or itself.
    """

    score: Float[np.ndarray, " k"]
    ends: Int[np.ndarray, " k"]
    positive: Bool[np.ndarray, " n"]
    unit: Int[np.ndarray, " n"]

    @classmethod
    def of(
        cls,
        score: Float[np.ndarray, " n"],
        positive: Bool[np.ndarray, " n"],
        group: Shaped[np.ndarray, " n"] | None = None,
    ) -> Ranked:
        """Sort; `group` labels rows that belong together."""
        order = np.argsort(-score, kind="stable")
        falling = score[order]
        ends = np.append(np.flatnonzero(np.diff(falling)), len(score) - 1)
        own = np.arange(len(score))
        unit = own if group is None else np.unique(group[order], return_inverse=True)[1]
        return cls(falling[ends], ends, positive[order], unit)

    @property
    def n_units(self) -> int:
        """How many groups there are, or rows without one."""
        return int(np.max(self.unit)) + 1

    def counts(
        self, times: Float[np.ndarray, " n"] | Int[np.ndarray, " n"] | None = None
    ) -> Counts:
        """Count, every row once or so many times."""
        times = np.ones(len(self.positive)) if times is None else times
        hits = np.cumsum(times * self.positive)[self.ends]
        return Counts(hits, np.cumsum(times)[self.ends] - hits)

    def redrawn(self) -> Iterator[Counts]:
        """Draw as many rows, or groups, with replacement, 200 times (fewer of many), and count.

        Draws without a row of either class are left out.
        """
        n, rng = self.n_units, np.random.default_rng(0)
        n_draws = _MOST_VALUES // len(self.positive)
        for _ in range(int(np.clip(n_draws, _FEWEST_DRAWS, N_DRAWS))):
            times = np.bincount(rng.integers(n, size=n), minlength=n)
            counts = self.counts(times[self.unit])
            if counts.is_of_both:
                yield counts


class Areas(NamedTuple):
    """Average precision and area under the ROC curve with their standard errors; nan if none."""

    average_precision: float
    average_precision_se: float
    roc_auc: float
    roc_auc_se: float


def areas(
    score: Float[np.ndarray, " n"],
    positive: Bool[np.ndarray, " n"],
    group: Shaped[np.ndarray, " n"] | None = None,
) -> Areas:
    """Compute both; standard errors where there are two rows or more of either class.

    group
        Labels of rows that belong together; of a single group there are no errors.
    """
    ranked = Ranked.of(score, positive, group)
    counts = ranked.counts()
    if not counts.is_of_both:
        return Areas(*[float("nan")] * 4)
    errors = np.array([np.nan, np.nan])
    if min(counts.hits[-1], counts.false_alarms[-1], ranked.n_units) >= 2:
        drawn = [(one.average_precision, one.roc_auc) for one in ranked.redrawn()]
        errors = np.std(drawn, axis=0, ddof=1)
    return Areas(counts.average_precision, float(errors[0]), counts.roc_auc, float(errors[1]))


class Curve(NamedTuple):
    """A curve and where 95 of 100 curves of rows drawn anew pass, point by point; shares."""

    x: Float[np.ndarray, " g"]
    y: Float[np.ndarray, " g"]
    low: Float[np.ndarray, " g"]
    high: Float[np.ndarray, " g"]


class Curves(NamedTuple):
    """Precision against recall, and recall against the share of false alarms among the others."""

    precision_recall: Curve
    roc: Curve


def curves(
    score: Float[np.ndarray, " n"],
    positive: Bool[np.ndarray, " n"],
    group: Shaped[np.ndarray, " n"] | None = None,
) -> Curves | None:
    """Compute both; None where either class has fewer than five rows, or there are fewer groups."""
    ranked = Ranked.of(score, positive, group)
    counts = ranked.counts()
    if min(counts.hits[-1], counts.false_alarms[-1], ranked.n_units) < FEWEST_FOR_BANDS:
        return None
    drawn = list(ranked.redrawn())
    return Curves(
        _banded(_GRID[1:], _precision_at(counts), [_precision_at(one) for one in drawn]),
        _banded(_GRID, _recall_at(counts), [_recall_at(one) for one in drawn]),
    )


def _banded(x: np.ndarray, y: np.ndarray, drawn: list[np.ndarray]) -> Curve:
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    return Curve(x, y, low, high)


def _precision_at(counts: Counts) -> Float[np.ndarray, " g"]:
    """Precision where a recall of 1, 2, ... 100 % is reached."""
    return counts.precision[np.searchsorted(counts.recall, _GRID[1:] - 1e-9)]


def _recall_at(counts: Counts) -> Float[np.ndarray, " g"]:
    """Recall at a share of false alarms of 0, 1, ... 100 %."""
    fallout = counts.false_alarms / counts.false_alarms[-1]
    return np.interp(_GRID, np.append(0.0, fallout), np.append(0.0, counts.recall))


def surest_first(
    uncertainty: Float[np.ndarray, " n"], loss: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return uncertainties of rows, ascending, and their losses.

    Among rows of equal uncertainty these are their mean: what a random order would give on average.
    """
    levels, tie, size = np.unique(uncertainty, return_inverse=True, return_counts=True)
    mean_loss = np.bincount(tie, weights=loss, minlength=len(levels)) / size
    return np.repeat(levels, size), np.repeat(mean_loss, size)
