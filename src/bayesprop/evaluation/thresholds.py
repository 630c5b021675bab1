"""From which probability on a row counts as one of a class: by costs, or by a rate.

By costs, with probabilities that keep their promise: a row is flagged where what is lost by leaving
it, p fn, is at least what is lost by flagging it, (1 - p) fp, so where p >= fp / (fp + fn) (Elkan
2001, eq. 2). Nothing is chosen on any rows, and nothing has to be reweighted.

By a rate, on rows that the fit did not see: the threshold at which they have it. What new rows will
have is less sure: of m positive rows of which the k highest are found, the recall among new ones
follows Beta(k, m + 1 - k) whatever the scores' distribution (Wilks 1941, of order statistics); the
share of flagged rows likewise. A precision has the exact binomial interval of its rows (Clopper and
Pearson 1934), and was chosen on them, which flatters it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy import special

from bayesprop.metrics import Counts, Ranked

RECALL, PRECISION, FLAGGED = RATES = ("recall", "precision", "flagged")
_TAILS = (0.025, 0.975)


class UnreachableError(ValueError):
    """A rate that no threshold has on the given rows."""


@dataclass(frozen=True)
class Costs:
    """Costs of errors, in any common unit; a right prediction costs nothing.

    fn
        Of a row of the class that is not flagged.
    fp
        Of a row of another class that is.

    Raises ValueError where one is not a finite number above 0.
    """

    fn: float
    fp: float

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"the cost {name} must be a finite number above 0, got {value:g}")

    @classmethod
    def parse(cls, costs: str | Mapping[str, float]) -> Costs:
        """Read "fn=10,fp=1" or {"fn": 10, "fp": 1}; ValueError if it is neither."""
        pairs: list[tuple[str, str | float]] = []
        if isinstance(costs, str):
            parts = [part.partition("=") for part in costs.split(",")]
            pairs = [(name.strip(), value.strip()) for name, _, value in parts]
        elif isinstance(costs, Mapping):
            pairs = list(costs.items())
        if sorted(str(name) for name, _ in pairs) != ["fn", "fp"]:
            raise ValueError(f"costs must be like fn=10,fp=1 (both, each once), got {costs!r}")
        return cls(**{name: _number(value, costs) for name, value in pairs})

    @property
    def threshold(self) -> float:
        """The probability from which flagging is cheaper."""
        return self.fp / (self.fp + self.fn)

    def expected(
        self, p: Float[np.ndarray, " n"], flagged: Bool[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """Return what each decision is expected to cost."""
        return np.where(flagged, self.fp * (1.0 - p), self.fn * p)

    def mean(self, counts: Counts) -> Float[np.ndarray, " k"]:
        """Return the cost of a row, for every distinct score as the threshold."""
        missed = counts.hits[-1] - counts.hits
        n = counts.hits[-1] + counts.false_alarms[-1]
        return (self.fn * missed + self.fp * counts.false_alarms) / n

    def __str__(self) -> str:
        return f"fn={self.fn:g},fp={self.fp:g}"


@dataclass(frozen=True)
class Rate:
    """Target rate of a threshold on rows whose class is known.

    kind
        "recall": at least that share of the rows of the class is flagged, by the highest such
        threshold. "precision": at least that share of the flagged rows is of the class, by the
        lowest. "flagged": at most that share of all rows is flagged, by the lowest.
    share
        Above 0 and below 1.
    """

    kind: str
    share: float

    def __post_init__(self) -> None:
        if self.kind not in RATES:
            raise ValueError(f"a rate must be one of {', '.join(RATES)}, got {self.kind!r}")
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"{self.kind} must be above 0 and below 1, got {self.share:g}")

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Read "recall=0.9"; ValueError if it is not that."""
        if not isinstance(text, str) or "=" not in text:
            raise ValueError(f"a rate must be like recall=0.9, got {text!r}")
        kind, _, value = text.partition("=")
        return cls(kind.strip(), _number(value.strip(), text))

    def place(self, counts: Counts) -> int | None:
        """Return the place of the threshold among the distinct scores; None where none reaches."""
        if self.kind == RECALL:
            return int(np.argmax(counts.recall >= self.share - 1e-12))
        if self.kind == PRECISION:
            good = (counts.precision >= self.share - 1e-12) & (counts.hits > 0.0)
        else:
            rows = counts.hits + counts.false_alarms
            good = rows <= self.share * rows[-1] + 1e-9
        return int(np.flatnonzero(good)[-1]) if np.any(good) else None

    def __str__(self) -> str:
        return f"{self.kind}={self.share:g}"


def _number(value: str | float, whole: str | Mapping[str, float]) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} in {whole!r} must be a number") from None


@dataclass(frozen=True)
class Rule:
    """Flag the rows whose probability of the class is at least `threshold`.

    costs, rate
        What it follows from; exactly one.
    spread
        Where the threshold of rows drawn anew lies 95 times of 100; both ends are `threshold` for
        costs, which need no rows.
    among_new
        95 % interval of the rate among new rows; None for costs.
    n_rows, n_positive
        On which it was chosen.
    """

    threshold: float
    costs: Costs | None = None
    rate: Rate | None = None
    spread: tuple[float, float] = (0.0, 1.0)
    among_new: tuple[float, float] | None = None
    n_rows: int = 0
    n_positive: int = 0

    @classmethod
    def of_costs(cls, costs: Costs) -> Rule:
        """Take the threshold of least expected cost."""
        return cls(costs.threshold, costs, None, (costs.threshold, costs.threshold))

    @classmethod
    def of_rate(
        cls, rate: Rate, p: Float[np.ndarray, " n"], positive: Bool[np.ndarray, " n"]
    ) -> Rule:
        """Choose a threshold on rows that the fit did not see.

        p
            Probability of the class.
        positive
            Which rows are of it.

        Raises UnreachableError where no threshold has the rate, or a class has no row.
        """
        if not (np.any(positive) and not np.all(positive)):
            raise UnreachableError(
                f"{rate} needs rows of both classes to choose a threshold on, got"
                f" {int(np.sum(positive))} of the positive class among {len(positive)}"
            )
        ranked = Ranked.of(p, positive)
        counts = ranked.counts()
        place = rate.place(counts)
        if place is None:
            raise UnreachableError(
                f"no threshold reaches {rate} on these rows: {_best(rate, counts)}"
            )
        drawn = [ranked.score[k] for k in map(rate.place, ranked.redrawn()) if k is not None]
        low, high = map(float, np.quantile(drawn or [ranked.score[place]], _TAILS))
        return cls(
            float(ranked.score[place]),
            None,
            rate,
            (low, high),
            _among_new(rate, counts, place),
            len(p),
            int(np.sum(positive)),
        )

    def flags(self, p: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Return which rows are flagged."""
        return p >= self.threshold

    @property
    def asked(self) -> str:
        """The costs or the rate, as typed."""
        return str(self.costs or self.rate)

    def validate(self) -> None:
        """Raise ValueError unless all shares lie from 0 to 1, and one thing was asked for."""
        if (self.costs is None) == (self.rate is None):
            raise ValueError("a rule must follow from costs or from a rate")
        for share in (self.threshold, *self.spread, *(self.among_new or ())):
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"a share must be 0 to 1, got {share}")


def _best(rate: Rate, counts: Counts) -> str:
    if rate.kind == PRECISION:
        return f"the highest is {np.max(counts.precision[counts.hits > 0.0]):.3g}"
    rows = counts.hits + counts.false_alarms
    return f"the rows of highest probability are {rows[0] / rows[-1]:.3g} of all, and equal"


def _among_new(rate: Rate, counts: Counts, place: int) -> tuple[float, float]:
    hits, rows = counts.hits[place], counts.hits[place] + counts.false_alarms[place]
    if rate.kind == PRECISION:
        return binomial_interval(hits, rows)
    n = counts.hits[-1] + (counts.false_alarms[-1] if rate.kind == FLAGGED else 0.0)
    k = rows if rate.kind == FLAGGED else hits
    low, high = special.betaincinv(k, n + 1.0 - k, _TAILS)
    return float(low), float(high)


def binomial_interval(k: float, n: float) -> tuple[float, float]:
    """Return the exact 95 % interval of a share, given k of n (Clopper, Pearson)."""
    low = special.betaincinv(k, n - k + 1.0, _TAILS[0]) if k > 0 else 0.0
    high = special.betaincinv(k + 1.0, n - k, _TAILS[1]) if k < n else 1.0
    return float(low), float(high)


class AtThreshold(NamedTuple):
    """Result of a threshold on rows whose class is known.

    found, missed, false_alarms, rest
        Rows: flagged and of the class, of the class only, flagged only, neither.
    """

    found: int
    missed: int
    false_alarms: int
    rest: int

    @classmethod
    def of(cls, flagged: Bool[np.ndarray, " n"], positive: Bool[np.ndarray, " n"]) -> AtThreshold:
        """Count."""
        pairs = (flagged & positive, ~flagged & positive, flagged & ~positive, ~flagged & ~positive)
        return cls(*(int(np.sum(one)) for one in pairs))

    @property
    def recall(self) -> tuple[float, float, float]:
        """Share of the class that is flagged, and its 95 % interval; nan without such rows."""
        return _with_interval(self.found, self.found + self.missed)

    @property
    def precision(self) -> tuple[float, float, float]:
        """Share of the flagged rows that is of the class, and its 95 % interval; nan without."""
        return _with_interval(self.found, self.found + self.false_alarms)

    def cost(self, costs: Costs) -> float:
        """Mean cost of a row."""
        return (costs.fn * self.missed + costs.fp * self.false_alarms) / sum(self)


def _with_interval(k: int, n: int) -> tuple[float, float, float]:
    return (k / n, *binomial_interval(k, n)) if n else (float("nan"), 0.0, 1.0)
