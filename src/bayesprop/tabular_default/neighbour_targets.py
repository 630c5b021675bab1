"""What was measured nearby, as it was measured, beside what an ensemble says of a target.

Networks say of a target one bell around a mean. Where targets come in several heights, or come
again as they were, the nearest rows know better. Let p(y) be what all else says at a row, with
standard deviation σ. Beside it stand Gaussians around the targets of the N_NEAREST rows,

    (p(y) + sum_j ω w_j k(r_j) N(y; y_j, (s σ)²)) / (1 + sum_j ω w_j k(r_j)),

with k of Matérn 3/2 and r as in `neighbour_process`: the mean of a Dirichlet process whose base is
p, when every row near counts as ω k observations (Ferguson 1973; Dunson, Pillai & Park 2007,
"Bayesian density regression"). Lengths, ω and s maximise the likelihood of rows left out. No
Gaussian is narrower than half of what targets are rounded to: nothing is gained by knowing that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Float64, Int

from bayesprop.numerics import nearest_rows
from bayesprop.numerics.machine import chunks, side_by_side
from bayesprop.tabular_default.duplicate_inputs import Distinct, bits
from bayesprop.tabular_default.stack import is_no_more

LEAST_GAIN = 0.01
"""In nats a row, for which a model keeps all of its rows and looks among them."""

LEAST_SPREAD = 0.1
"""The least s, to which what is learnt is added."""

_FIRST, _STDS = np.array([0.0, -1.0]), np.array([2.0, 1.0])  # of log ω and log s; their priors'
_BOUNDS = np.array([[-7.0, -7.0], [9.0, 3.0]])
_LEAST_ROWS_OF_PRIOR = 100.0
_ENOUGH_ERRORS = 2.0
"""Standard errors below what must be gained at which a first fold ends the search."""


class Nearby(NamedTuple):
    """Gaussians beside a prediction: their means, variances and shares, (k, n) or (k, n, o)."""

    y: np.ndarray
    var: np.ndarray
    share: np.ndarray


class Judges(NamedTuple):
    """Rows left out: their numbers, what all else says of their targets, and how sure it is, (r,).

    log_p
        Log density, nats.
    """

    rows: Int[np.ndarray, " r"]
    log_p: Float[np.ndarray, " r"]
    std: Float[np.ndarray, " r"]

    def at(self, which: np.ndarray) -> Judges:
        """Take some of them."""
        return Judges(*(part[which] for part in self))


@dataclass(frozen=True, eq=False)
class NeighbourTargets(nearest_rows.KeptRows):
    """Rows that it knows, what was measured there, and how often each counts; float32.

    x
        The first columns of what the networks are given: without ramps.
    log_lengths, log_count, log_spread
        Of the lengths (d,), of ω, and of s less LEAST_SPREAD; float64.
    least_std
        Of a Gaussian, as a share of the target's; float64.
    are_twins_silent
        1: rows of the very inputs that are asked about say nothing, as none did when it learnt: a
        row of the table is predicted as a new one is.
    """

    x: Float32[np.ndarray, "n d"]
    y: Float32[np.ndarray, " n"]
    weight: Float32[np.ndarray, " n"]
    log_lengths: Float64[np.ndarray, " d"]
    log_count: Float64[np.ndarray, ""]
    log_spread: Float64[np.ndarray, ""]
    least_std: Float64[np.ndarray, ""]
    are_twins_silent: Float64[np.ndarray, ""]

    def validate(self) -> None:
        """Raise ValueError where these are no targets."""
        super().validate()
        if self.least_std < 0.0:
            raise ValueError("the neighbours' least_std must be at least 0")
        if self.are_twins_silent not in (0.0, 1.0):
            raise ValueError("the neighbours' are_twins_silent must be 0 or 1")

    def nearby(self, x: Float[np.ndarray, "m d"], std: Float[np.ndarray, " m"]) -> Nearby:
        """Put Gaussians around the targets of the nearest rows; `std`: of what all else says."""
        y, share = np.empty((2, nearest_rows.N_NEAREST, len(x)))
        x = x[:, : self.x.shape[1]]
        for part in chunks(len(x), 4 * nearest_rows.N_NEAREST * self.x.shape[1]):
            number = self.nearest(x[part])
            square, _ = _away(self.x[number], x[part], self.log_lengths)
            weight = self.weight[number] * (square > 0.0 if self.are_twins_silent else 1.0)
            count = np.exp(self.log_count) * weight * nearest_rows.correlation(square)
            y[:, part] = self.y[number].T
            share[:, part] = (count / (1.0 + count.sum(axis=1, keepdims=True))).T
        width = np.maximum((LEAST_SPREAD + np.exp(self.log_spread)) * std, self.least_std)
        return Nearby(y, np.broadcast_to(np.square(width), y.shape), share)


def nearby(
    each: Sequence[NeighbourTargets | None],
    x: Float[np.ndarray, "n d"],
    std: Float[np.ndarray, "n o"],
) -> Nearby:
    """Put Gaussians beside every output, of no share where it has no neighbours."""
    parts = np.zeros((3, nearest_rows.N_NEAREST, *std.shape))
    parts[1] = 1.0
    for o, targets in enumerate(each):
        if targets is not None:
            parts[..., o] = targets.nearby(x, std[:, o])
    return Nearby(*parts)


def negative_log_likelihood(
    logarithms: Float[np.ndarray, " h"],
    near: nearest_rows.Known,
    own: nearest_rows.Known,
    judges: Judges,
    least_std: float,
) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " h"]]:
    """-log p of each of r targets given k rows around them, (r,), and the gradient of their sum.

    logarithms
        Of the lengths, (d,), of ω and of s less LEAST_SPREAD.
    """
    log_lengths, log_count, log_spread = logarithms[:-2], logarithms[-2], logarithms[-1]
    square, places = _away(near.x, own.x[:, 0], log_lengths)
    nearness = np.exp(log_count) * near.weight.astype(np.float64)
    count = nearness * nearest_rows.correlation(square)
    added, total = np.exp(log_spread) * judges.std, 1.0 + count.sum(axis=1)
    width = LEAST_SPREAD * judges.std + added
    is_free, width = width > least_std, np.maximum(width, least_std)
    z = (own.y.astype(np.float64) - near.y) / width[:, None]
    log_near = -0.5 * (np.log(2.0 * np.pi) + np.square(z)) - np.log(width)[:, None]
    highest = np.maximum(judges.log_p, log_near.max(axis=1))
    of_near = np.exp(log_near - highest[:, None])
    density = np.exp(judges.log_p - highest) + np.sum(count * of_near, axis=1)
    of_count = 1.0 / total[:, None] - of_near / density[:, None]
    of_lengths = np.einsum(
        "rk,rkd->d", of_count * nearness * nearest_rows.slope(square), np.square(places)
    )
    of_width = np.sum(count * of_near * (1.0 - np.square(z)), axis=1) / density / width
    of_spread = np.sum(of_width * added * is_free)
    value = np.log(total) - np.log(density) - highest
    return value, np.r_[of_lengths, np.sum(of_count * count), of_spread]


def learn(
    rng: np.random.Generator, distinct: Distinct, judges: Judges, o: int, n_inputs: int
) -> NeighbourTargets | None:
    """Learn what the nearest rows say of an output, and keep it where rows left out gain by it.

    judges
        Rows of `distinct.table`.
    """
    if len(judges.rows) < nearest_rows.LEAST_ROWS:
        return None
    table, group = distinct.table, distinct.number
    if table.group is not None:
        group = table.group
    judges = judges.at(rng.permutation(len(judges.rows))[: nearest_rows.MOST_JUDGES])
    others = np.setdiff1d(np.flatnonzero(table.weight), judges.rows)
    rows = np.r_[judges.rows, rng.permutation(others)][: nearest_rows.most_rows(n_inputs)]
    group, x = group[rows], table.x[rows, :n_inputs]
    each = table.weight[rows] / table.weight[rows].mean()
    is_alone = len(np.unique(group)) == len(group)
    known = nearest_rows.Known(x, table.y[rows, o], each, None if is_alone else group)
    are_twins_silent = not is_alone or len(np.unique(bits(x))) == len(x)
    judges, least_std = judges._replace(rows=np.arange(len(judges.rows))), 0.5 * _rounding(known.y)
    gain = in_folds(rng, known, judges, least_std)
    if gain is None or is_no_more(gain - LEAST_GAIN, 0.0):
        return None
    *lengths, log_count, log_spread = _learnt(rng, known, judges, least_std)
    numbers = np.array(lengths), log_count, log_spread, least_std, float(are_twins_silent)
    return NeighbourTargets(*known[:3], *(np.asarray(a, np.float64) for a in numbers))


def in_folds(
    rng: np.random.Generator, known: nearest_rows.Known, judges: Judges, least_std: float
) -> Float[np.ndarray, " r"] | None:
    """Return what targets gain in log p, those of each fold in lengths that others chose.

    None where the first fold says that it would not be enough, or there are no folds.
    """
    n = len(judges.rows)
    gain = np.empty(n)

    def ask(rng: np.random.Generator, fold: nearest_rows.Fold) -> None:
        out, rest = fold
        at_rest = np.flatnonzero(rest < n)
        others = judges.at(rest[at_rest])._replace(rows=at_rest)
        logarithms = _learnt(rng, known.at(rest), others, least_std)
        for part in chunks(len(out), 8 * nearest_rows.N_NEAREST * known.x.shape[1]):
            at = out[part]
            near = nearest_rows.around(known, at, logarithms[:-2])
            minus, _ = negative_log_likelihood(
                logarithms, near, known.at(at[:, None]), judges.at(at), least_std
            )
            gain[at] = -minus - judges.log_p[at]

    is_enough = in_turn(
        rng, nearest_rows.folds_of(known, n), ask, lambda out: gain[out] - LEAST_GAIN
    )
    return gain if is_enough else None


def in_turn(
    rng: np.random.Generator,
    folds: Sequence[nearest_rows.Fold],
    ask: Callable[[np.random.Generator, nearest_rows.Fold], None],
    gains: Callable[[Int[np.ndarray, " r"]], Float[np.ndarray, " r"]],
) -> bool:
    """Ask a fold, and then the others; not these, and False, where it says that nothing is gained.

    gains
        Of rows of a fold that was asked, beyond what must be gained.
    """
    streams = rng.spawn(len(folds))
    if not folds:
        return False
    ask(streams[0], folds[0])
    if is_no_more(gains(folds[0].out), -_ENOUGH_ERRORS):
        return False
    side_by_side(ask, streams[1:], folds[1:])
    return True


def _learnt(
    rng: np.random.Generator, known: nearest_rows.Known, judges: Judges, least_std: float
) -> Float[np.ndarray, " h"]:
    """Return the logarithms under which targets of those that judge, the first, are likely."""
    numbered = known._replace(y=np.arange(len(known.y)))
    numbered = numbered.at(np.arange(min(len(known.y), nearest_rows.ROWS_OF_EVIDENCE)))
    place = np.full(len(numbered.y), -1)
    place[judges.rows] = np.arange(len(judges.rows))
    numbered, speakers = nearest_rows.some_of(rng, numbered, place >= 0)
    others = nearest_rows.Others(_FIRST, _BOUNDS, _STDS)

    def slopes(now: np.ndarray, near: nearest_rows.Known, own: nearest_rows.Known) -> np.ndarray:
        rows, targets = (part._replace(y=known.y[part.y]) for part in (near, own))
        speaking = judges.at(place[own.y[:, 0]])
        return negative_log_likelihood(now, rows, targets, speaking, least_std)[1]

    n_prior = max(len(judges.rows), _LEAST_ROWS_OF_PRIOR)
    return nearest_rows.learn_lengths(rng, numbered, speakers, others, slopes, n_prior)


def _away(
    near: Float[np.ndarray, "r k d"], x: Float[np.ndarray, "r d"], log_lengths: np.ndarray
) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, "r k d"]]:
    """Return squared distances, and differences, in lengths."""
    places = (
        nearest_rows.measured(near, log_lengths) - nearest_rows.measured(x, log_lengths)[:, None]
    )
    return np.square(places).sum(axis=2), places


def _rounding(y: Float[np.ndarray, " n"]) -> float:
    """Return how far half of the targets are from the next other value."""
    values, at = np.unique(y, return_inverse=True)
    if len(values) < 2:
        return 0.0
    steps = np.diff(values.astype(np.float64))
    return float(np.median(np.minimum(np.r_[steps, np.inf], np.r_[np.inf, steps])[at]))
