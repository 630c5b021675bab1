"""Kinds of targets: the map of each, learnt from rows or read from a file; a guess by the rows.

Counts are intervals of a number on the whole line, with or without an exposure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.targets.bijectors import (
    CENSORED,
    COUNT,
    NONNEGATIVE,
    NUMBERS,
    PER_CENT,
    POSITIVE,
    SHARE,
    Identity,
    Logit,
    SoftplusInverse,
    TargetMap,
    whole_of,
)
from bayesprop.targets.censoring import (
    OFTEN,
    CensoredMap,
    IntervalMap,
    Ridge,
    Tendency,
    are_many,
    curves,
    evenly,
    learn_from_zero,
    learn_limits,
    left_out_score,
    zero_inflated,
)

_LEAST_STEP, _LEAST_ROWS = 0.1, 5.0
_LARGEST_COUNT = 2.0**50
_LEAST_HEAP = 3.0
"""Rows of a heap: a count may be there twice by chance."""
_MOST_HEAPS, _LARGEST_HEAP = 32, 1e9
"""A prediction is summed over their ends, whose logarithms must be apart."""
_CLOSE = 0.3
"""Standard deviation of scores about a ridge, below which heaps say less than inputs do."""
_UNSEEN = 0.5
"""Rows that stand for what lies between two knots of which no row was."""
KINDS = (NUMBERS, POSITIVE, NONNEGATIVE, CENSORED, SHARE, COUNT)
_FEW_ROWS = 20
_GAINS = {SHARE: -0.1, POSITIVE: 0.1}
_GAIN_BY_BOUNDS, _FEW_BOUNDS = 0.05, 0.05
"""Nats a row that the map must gain a ridge; and where so many of its intervals begin below 0."""
_MOST_ERROR, _MOST_SHARE = 0.25, 0.1
"""Largest error of a ridge that tells whole numbers apart, and its share of their spread."""
_LOW_COUNT, _MOST_SQUARES = 10.0, 2.25
"""Median of counts that may have a cliff, a few zeros with nothing between them and the rest; and
mean square of a ridge's errors through their map, over that without, which says that they have."""
_FEW_ROWS_OF_KIND, _FEW_VALUES = 50, 3
_MOST_ROWS_OF_CURVES = 1000


@dataclass(frozen=True, eq=False)
class CountScores(IntervalMap):
    """Normal scores of places t; a count k takes those of (k - 1/2, k + 1/2), from -1/2 on.

    Between knots z is linear in log(t + 1/2). Below the first knot Phi(z) is linear in t and zero
    at -1/2; beyond the last z is linear in t, with the slope that it has there. With an exposure e
    the place is that of a rate: (t + 1/2) / e - 1/2 stands for t.

    Only the scores of half-integers matter to a probability.

    knots
        Rising, above -1/2.
    scores
        Of the knots, rising: normal quantiles of the share of training targets below.
    tendency
        Where scores lie, by the inputs. None: anywhere, evenly over t.
    exposure
        Of the rows that are mapped, in the shape of their targets; None: 1.
    """

    knots: Float[np.ndarray, " k"]
    scores: Float[np.ndarray, " k"]
    tendency: Tendency | None = None
    exposure: Float[np.ndarray, "n ..."] | None = None

    kind = COUNT
    step = 1.0
    rule = "whole numbers >= 0 (below 2^50)"
    remedy = "take 'numbers', or 'positive' for numbers > 0"

    @property
    def support(self) -> tuple[float, float]:
        """Bounds of what a target can be."""
        return 0.0, np.inf

    @property
    def bends(self) -> Float[np.ndarray, " b"]:
        """The scores of the knots."""
        return np.append(-np.inf, self.scores)

    def holds(self, y: np.ndarray) -> np.ndarray:
        """Whether each target is a count."""
        return (y >= 0.0) & (y == np.floor(y)) & (y < _LARGEST_COUNT)

    def __getitem__(self, rows: slice | np.ndarray | tuple) -> CountScores:
        """Return the map of some of the rows that have an exposure."""
        return self if self.exposure is None else replace(self, exposure=self.exposure[rows])

    @classmethod
    def joined(cls, parts: Sequence[CountScores]) -> CountScores:
        """Put the rows that have exposures one after another."""
        exposures = [part.exposure for part in parts if part.exposure is not None]
        return replace(parts[0], exposure=np.concatenate(exposures)) if exposures else parts[0]

    def bounds(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of half a count below and above each count."""
        return self.forward(y - 0.5), self.forward(y + 0.5)

    def spread(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return the score of a share u of each count's unit interval."""
        return self.forward(y - 0.5 + u)

    def limited(self, interval: Float[np.ndarray, "n ... 2"]) -> Float[np.ndarray, "n ... 2"]:
        """Bring the bounds of intervals to the outermost counts that they hold."""
        low, high = np.moveaxis(np.maximum(interval, 0.0), -1, 0)
        return np.stack([np.ceil(low), np.floor(high)], axis=-1)

    def share(self, k: np.ndarray) -> np.ndarray:
        """Return the share of all rows that have a count."""
        return special.ndtr(self.forward(k + 0.5)) - special.ndtr(self.forward(k - 0.5))

    @property
    def jumps(self) -> Float[np.ndarray, " j"]:
        """Counts at the knots, if one has knots at both ends above a stretch of several."""
        width = np.diff(self.knots)
        has_heaps = self.exposure is None and ((width[1:] == 1.0) & (width[:-1] > 1.0)).any()
        return np.floor(self.knots) if has_heaps else np.zeros(0)

    @property
    def _log_knots(self) -> np.ndarray:
        return np.log(self.knots + 0.5)

    @property
    def _last_slope(self) -> float:
        """dz/dt beyond the last knot, at exposure 1."""
        rise = 1.0
        if len(self.knots) > 1:
            rise = float(np.diff(self.scores)[-1] / np.diff(self._log_knots)[-1])
        return rise / float(self.knots[-1] + 0.5)

    @property
    def _unit(self) -> np.ndarray | float:
        return 1.0 if self.exposure is None else self.exposure

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return the score of a place t >= -1/2; -inf at -1/2."""
        above = np.maximum(np.asarray(y, np.float64) + 0.5, 0.0) / self._unit
        first, last = self.knots[0] + 0.5, self.knots[-1] + 0.5
        share = special.ndtr(self.scores[0]) * np.minimum(above / first, 1.0)
        z = np.interp(np.log(np.maximum(above, first)), self._log_knots, self.scores)
        z = z + self._last_slope * np.maximum(above - last, 0.0)
        return np.where(above < first, special.ndtri(share), z)

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return the place of a score, above -1/2."""
        return self._above(z) * self._unit - 0.5

    def _above(self, z: np.ndarray) -> np.ndarray:
        """Return the place of a score at exposure 1, as counted from -1/2."""
        share = np.exp(special.log_ndtr(z) - special.log_ndtr(self.scores[0]))
        above = np.exp(np.interp(z, self.scores, self._log_knots))
        above = above + np.maximum(z - self.scores[-1], 0.0) / self._last_slope
        return np.where(z < self.scores[0], share * (self.knots[0] + 0.5), above)

    def observed(self, z: np.ndarray) -> np.ndarray:
        """Return the count in whose unit interval g(z) lies."""
        return np.maximum(np.ceil(self.inverse(z) - 0.5), 0.0)

    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return dt/dz."""
        log_density = -0.5 * z * z - 0.5 * np.log(2.0 * np.pi)
        below = np.exp(log_density - special.log_ndtr(self.scores[0])) * (self.knots[0] + 0.5)
        beyond = np.full(np.shape(z), 1.0 / self._last_slope)
        if len(self.knots) == 1:
            return np.where(z < self.scores[0], below, beyond) * self._unit
        piece = np.clip(np.searchsorted(self.scores, z, side="right") - 1, 0, len(self.knots) - 2)
        rise = (np.diff(self._log_knots) / np.diff(self.scores))[piece]
        within = rise * self._above(z)
        slope = np.select([z < self.scores[0], z < self.scores[-1]], [below, within], beyond)
        return slope * self._unit

    def validate(self) -> None:
        """Raise ValueError where knots or scores are none; exposures are their rows' own."""
        knots, scores = self.knots, self.scores
        if not len(knots) or (np.diff(knots) <= 0.0).any() or (np.diff(scores) <= 0.0).any():
            raise ValueError("the knots and scores of counts must rise")
        if knots[0] <= -0.5 or knots[-1] > 1e300 or np.abs(scores).max() > 30.0:
            raise ValueError("the knots of counts must lie above -1/2, their scores within 30")
        if self.exposure is not None:
            raise ValueError("a file holds no exposures of rows")


def learnt_scores(
    ridge: Ridge,
    y: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    exposure: Float[np.ndarray, " n"] | None,
) -> CountScores:
    """Learn the scores of counts, and where in their intervals they lie by a ridge.

    Heaps get knots of their own unless inputs tell scores apart more closely, as a formula would.
    """
    if exposure is not None:
        spread = (y + np.random.RandomState(0).random_sample(len(y))) / exposure - 1.0
        tally = _Tally.of(spread, weight)
        rates = replace(tally.through(tally.apart(_LEAST_ROWS)), exposure=exposure[:, None])
        return replace(rates.with_tendency(ridge, y), exposure=None)
    tally = _Tally.of(y, weight)
    scores = tally.through(tally.apart(0.0)).with_tendency(ridge, y)
    if cast(Tendency, scores.tendency).std < _CLOSE:
        return scores
    heaped = tally.with_heaps(scores.knots)
    if len(heaped.knots) == len(scores.knots):
        return scores
    return heaped.with_tendency(ridge, y)


class _Tally(NamedTuple):
    """Numbers of rows by value.

    ends
        Of values, rising: just above what the rows of a value are.
    rows
        Of each value, summing to all.
    """

    ends: Float[np.ndarray, " v"]
    rows: Float[np.ndarray, " v"]

    @classmethod
    def of(cls, y: np.ndarray, weight: np.ndarray) -> _Tally:
        values, place = np.unique(y, return_inverse=True)
        rows = np.bincount(place, weights=weight)
        return cls(values + 0.5, rows * len(y) / rows.sum())

    def apart(self, first: float) -> Float[np.ndarray, " k"]:
        """Return ends that lie apart in score, each with rows enough between it and the last.

        first
            Rows at least up to the first.
        """
        n_below = np.cumsum(self.rows)
        scores = special.ndtri(n_below / (n_below[-1] + 1.0))
        kept = [int(np.argmax(n_below >= min(first, n_below[-1])))]
        for k in range(kept[0] + 1, len(scores)):
            is_apart = scores[k] - scores[kept[-1]] >= _LEAST_STEP
            is_apart &= self.ends[k] > self.ends[kept[-1]] * (1.0 + 1.0 / _LARGEST_HEAP)
            if is_apart and n_below[k] - n_below[kept[-1]] >= _LEAST_ROWS:
                kept.append(k)
        return self.ends[kept]

    def through(self, knots: Float[np.ndarray, " k"]) -> CountScores:
        """Return the scores of a grid of places, between which a new row may lie."""
        n_below = np.append(0.0, np.cumsum(self.rows))
        below = n_below[np.searchsorted(self.ends, knots, side="right")]
        between = np.maximum(np.diff(below, prepend=0.0), _UNSEEN)
        n = between.sum() + n_below[-1] - below[-1] + 1.0
        return CountScores(knots, special.ndtri(np.cumsum(between) / n))

    def with_heaps(self, knots: Float[np.ndarray, " k"]) -> CountScores:
        """Put knots at both ends of every heap: a count that stands out, as round numbers do.

        Heaping is Heitjan & Rubin's word (1990) for what people round to. The knots raise the
        likelihood of all rows by more than it takes to say which count it is and how many rows it
        has (minimum description length, Rissanen 1978).
        """
        values, n = self.ends - 0.5, self.rows.sum()
        price = np.log(n) + np.log(len(values))
        may_be = (self.rows >= _LEAST_HEAP) & (values < _LARGEST_HEAP)
        n_heaps = 0
        while True:
            scores = self.through(knots)
            expected = n * scores.share(values)
            is_more = may_be & (self.rows > expected)
            gain = np.where(is_more, special.kl_div(self.rows, expected), 0.0)
            best = np.argsort(-gain)[: _MOST_HEAPS - n_heaps]
            new = best[gain[best] > price]
            if not len(new):
                return _beyond_a_heap(scores) if n_heaps else scores
            may_be[new], n_heaps = False, n_heaps + len(new)
            heaps = values[new]
            knots = np.union1d(knots, np.append(heaps + 0.5, heaps[heaps > 0.0] - 0.5))


def _beyond_a_heap(scores: CountScores) -> CountScores:
    """Let scores rise beyond the last knot as they did over the half of all places below it."""
    last, end = scores.knots[-1], scores.scores[-1]
    half = np.array(max(0.5 * (last + 0.5) - 0.5, scores.knots[0]))
    rise = float((end - scores.forward(half)) / np.log((last + 0.5) / (half + 0.5)))
    return CountScores(
        np.append(scores.knots, last + 1.0), np.append(scores.scores, end + rise / (last + 0.5))
    )


UNLEARNT: dict[str, TargetMap] = {
    POSITIVE: SoftplusInverse(1.0),
    NONNEGATIVE: zero_inflated(NONNEGATIVE, np.inf),
    CENSORED: CensoredMap(CENSORED, Identity(), -np.inf, np.inf),
    SHARE: zero_inflated(SHARE, 1.0),
    COUNT: CountScores(np.array([0.5]), np.array([0.0])),
}
"""A map of every kind but numbers as they are; shares between 0 and the whole have `Logit`."""


def learnt_map(
    kind: str,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    weight: Float[np.ndarray, " n"] | None = None,
    exposure: Float[np.ndarray, " n"] | None = None,
) -> TargetMap:
    """Learn the map of a kind from training rows; ValueError where a target leaves its support.

    x
        Standardised inputs: a ridge on them judges scales of `SoftplusInverse` on rows left out,
        and says where in its interval a count lies.
    weight
        Of each row; rows of weight 0 teach nothing.
    exposure
        Of counts: how long, or on how many, each was counted. None: all alike.
    """
    counted = np.ones(len(y), bool) if weight is None else weight > 0.0
    whole = whole_of(y[counted])
    unlearnt = zero_inflated(SHARE, whole) if kind == SHARE else UNLEARNT[kind]
    unlearnt.check(y)
    if y.shape[1] != 1:
        raise ValueError(
            f"target_kind={kind!r} takes one target, got {y.shape[1]}: fit one model a target"
        )
    weight = np.ones(len(y)) if weight is None else weight
    x, y, weight = x[counted], y[counted, 0], weight[counted]
    if kind == SHARE and Logit(whole).holds(y).all():
        return Logit(whole)
    ridge = Ridge.of_some(x, weight)
    if kind == POSITIVE:
        maps = SoftplusInverse.candidates(y)[: None if len(y) >= _FEW_ROWS else 1]
        return max(maps, key=lambda one: left_out_score(one, ridge, y[ridge.at]))
    if kind == COUNT:
        return learnt_scores(ridge, y, weight, None if exposure is None else exposure[counted])
    if kind == CENSORED:
        return learn_limits(ridge, y)
    return learn_from_zero(cast(CensoredMap, unlearnt), ridge, y)


def guessed_kind(
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"] | None = None,
    *,
    is_percent: bool = False,
) -> str:
    """Return one of `KINDS`: numbers unless another kind is clearly better.

    Whole numbers from 0 on are counts, unless a ridge tells them apart on rows left out, as it does
    sums of other columns, or errs much more through the map of high counts. Other numbers from 0
    on, a fiftieth of them 0, are nonnegative if a ridge errs less through their map, as it does not
    of formulas; shares if they end at 1, as a fiftieth do. Numbers between 0 and 1 are shares
    unless their map loses a tenth of a nat a row for a ridge on rows left out, others above 0 are
    positive if their map gains as much, or half of it where intervals of the ridge would begin
    below 0.

    Per cent between 0 and 100, a twenty-fifth of them above 1, are judged as shares, and are
    neither counts nor nonnegative; their bounds count however few rows are there.

    x
        Standardised inputs.
    is_percent
        Whether the targets were written with per cent signs: 24.7 is then a share of 100.
    """
    if weight is not None:
        x, y, weight = x[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
    if len(y) < _FEW_ROWS_OF_KIND or len(np.unique(y)) < _FEW_VALUES:
        return NUMBERS
    weight = np.ones(len(y)) if weight is None else weight
    scale = float(np.std(y))
    share = zero_inflated(SHARE, PER_CENT if is_percent else 1.0)
    is_in_unit = not is_percent or are_many(y > 1.0, times=OFTEN)
    can_be_share = is_in_unit and bool(share.holds(y).all())
    is_percent = is_percent and can_be_share
    if not is_percent and UNLEARNT[COUNT].holds(y).all() and np.min(y) == 0.0:
        ridge = Ridge.of_some(x, weight)
        error = np.sqrt(ridge.left_out(y[ridge.at]).mean_square)
        if error < min(_MOST_ERROR, _MOST_SHARE * scale):
            return NUMBERS
        if np.median(y) < _LOW_COUNT:
            return COUNT
        plain, mapped = _errors_by_map(COUNT, x, y, weight, np.square)
        return NUMBERS if mapped > _MOST_SQUARES * plain else COUNT
    is_inside = Logit(share.high).holds(y).all()
    is_at_bound = not is_inside if is_percent else can_be_share and are_many(y == 1.0)
    if np.min(y) >= 0.0 and (is_at_bound or are_many(y == 0.0)):
        kind = SHARE if is_at_bound else NONNEGATIVE
        plain, mapped = _errors_by_map(kind, x, y, weight, np.abs)
        return kind if mapped < plain else NUMBERS
    kind = SHARE if can_be_share and is_inside else POSITIVE
    if np.min(y) <= 0.0:
        return NUMBERS
    ridge = Ridge.of_some(x, weight)
    plain, mapped = (
        left_out_score(one, ridge, y[ridge.at])
        for one in (Identity(), learnt_map(kind, x, y[:, None], weight))
    )
    gain = mapped - plain
    if gain > _GAINS[kind]:
        return kind
    is_bound = kind == POSITIVE and gain > _GAIN_BY_BOUNDS and _reaches_below_0(ridge, y[ridge.at])
    return POSITIVE if is_bound else NUMBERS


def _reaches_below_0(ridge: Ridge, y: Float[np.ndarray, " n"]) -> bool:
    """Whether 90 % intervals of a ridge for rows left out begin below 0 in more than a few."""
    best = ridge.left_out(y)
    low = y - best.errors + special.ndtri(0.05) * np.sqrt(best.mean_square)
    return bool(np.average(low < 0.0, weights=ridge.weight) > _FEW_BOUNDS)


def _errors_by_map(
    kind: str,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    size: Callable[[np.ndarray], np.ndarray],
) -> tuple[float, float]:
    """Return the mean size of errors of a ridge of curves, plain and through the map of a kind."""
    at = evenly(len(x), _MOST_ROWS_OF_CURVES)
    x, y, weight = x[at], y[at, None], weight[at]
    learnt = learnt_map(kind, x, y, weight)
    z = learnt.encode(y, np.random.RandomState(0), x)
    ridge = Ridge.of(curves(x), weight)
    plain = ridge.left_out_errors(y)
    mapped = learnt.inverse(z - ridge.left_out_errors(z)) - y
    of_plain, of_mapped = (
        float(np.average(size(errors[..., 0]), axis=1, weights=weight).min())
        for errors in (plain, mapped)
    )
    return of_plain, of_mapped
