"""What networks of classes leave, as the labels of the nearest rows tell it.

Let an ensemble give the classes of a row the probabilities p. The logits of a row move by f, which
is chosen by the likelihood of the labels around it, of which each counts the less the further away
it is (local likelihood: Tibshirani & Hastie 1987), and by a normal prior:

    sum_j w_j k(r_j) log p(y_j | logits of row j + f) - |f|² / (2 a²),

with k of Matérn 3/2, r as in `neighbour_process`, and j one of the N_NEAREST rows. One step of
Fisher's scoring from f = 0, with the diagonal of the curvature, is

    f_c = sum_j w_j k_j (1[y_j = c] - p_jc) / (1 / a² + sum_j w_j k_j h(p_jc)),

where h(p) = p (1 - p) would let one label move logits without end that a network is sure of: a
tenth of it is that of p = 1/2. The p_j are those of networks that have not seen row j. Lengths and
a² maximise the likelihood of rows left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Float64, Int, Int32

from bayesprop.numerics import nearest_rows
from bayesprop.numerics.machine import chunks
from bayesprop.tabular_default import stack as stacking
from bayesprop.tabular_default.neighbour_targets import in_turn
from bayesprop.tabular_default.stack import LEAST_PROBA

LEAST_GAIN = 0.01
"""Share of the loss, for which a model keeps all of its rows and looks among them."""

_BOUND = 0.1  # share of the curvature that is that of p = 1/2
_FIRST_LOG_VAR, _LOG_VARS, _LOG_VAR_STD = 0.0, (-6.0, 9.0), 2.0  # of a²
_LEAST_ROWS_OF_PRIOR = 100.0


class Labelled(NamedTuple):
    """Rows with their classes, what networks without them gave these, and how often each counts.

    group
        As in `Known`.
    """

    x: Float[np.ndarray, "n d"]
    code: Int[np.ndarray, " n"]
    proba: Float[np.ndarray, "n c"]
    weight: Float[np.ndarray, " n"]
    group: Int[np.ndarray, " n"] | None = None

    def at(self, rows: np.ndarray) -> Labelled:
        """Take some rows."""
        x, code, proba, weight, group = self
        group = None if group is None else group[rows]
        return Labelled(x[rows], code[rows], proba[rows], weight[rows], group)

    @property
    def numbered(self) -> nearest_rows.Known:
        """The rows, whose numbers take the place of their classes."""
        return nearest_rows.Known(self.x, np.arange(len(self.x)), self.weight, self.group)


class Shift(NamedTuple):
    """What moves the logits of r rows, (r, c), and the curvatures by which it was divided, (r, c).

    pulls, curvatures
        What each of k rows adds to both where it is as near as can be, (r, k, c).
    square, places
        Squared distances of these, (r, k), and from where, in lengths, (r, k, d).
    """

    f: Float[np.ndarray, "r c"]
    curvature: Float[np.ndarray, "r c"]
    pulls: Float[np.ndarray, "r k c"]
    curvatures: Float[np.ndarray, "r k c"]
    square: Float[np.ndarray, "r k"]
    places: Float[np.ndarray, "r k d"]

    @classmethod
    def of(
        cls, near: Labelled, x: Float[np.ndarray, "r d"], logarithms: Float[np.ndarray, " h"]
    ) -> Shift:
        """Sum over k rows around each of r; logarithms: of the lengths, (d,), and of a²."""
        log_lengths, log_var = logarithms[:-1], logarithms[-1]
        places = (
            nearest_rows.measured(near.x, log_lengths)
            - nearest_rows.measured(x, log_lengths)[:, None]
        )
        square = np.square(places).sum(axis=2)
        nearness = near.weight * nearest_rows.correlation(square)
        p = near.proba.astype(np.float64)
        curvatures = (1.0 - _BOUND) * p * (1.0 - p) + 0.25 * _BOUND
        pulls = _less_one(p, near.code)
        curvature = np.exp(-log_var) + np.einsum("rk,rkc->rc", nearness, curvatures)
        f = -np.einsum("rk,rkc->rc", nearness, pulls) / curvature
        return cls(f, curvature, pulls, curvatures, square, places)


@dataclass(frozen=True, eq=False)
class NeighbourLabels(nearest_rows.KeptRows):
    """Rows that it knows, their classes, what networks without them gave these, and weights.

    x
        The first columns of what the networks are given: without ramps; float32, as `proba` and
        `weight`; `code` is int32.
    log_lengths, log_var
        Of the lengths (d,), and of a²; float64.
    """

    x: Float32[np.ndarray, "n d"]
    code: Int32[np.ndarray, " n"]
    proba: Float32[np.ndarray, "n c"]
    weight: Float32[np.ndarray, " n"]
    log_lengths: Float64[np.ndarray, " d"]
    log_var: Float64[np.ndarray, ""]

    def validate(self) -> None:
        """Raise ValueError where these are no labels."""
        super().validate()
        if (self.proba < 0.0).any() or (self.proba > 1.0).any():
            raise ValueError("the neighbours' proba must be 0 to 1")
        n_classes = self.proba.shape[1]
        if (self.code < 0).any() or (self.code >= n_classes).any():
            raise ValueError(f"the neighbours' code must be 0 to {n_classes - 1}")

    def moved(
        self, x: Float[np.ndarray, "m d"], proba: Float[np.ndarray, "m c"]
    ) -> Float[np.ndarray, "m c"]:
        """Move the probabilities of rows as their neighbours tell."""
        known, moved = Labelled(self.x, self.code, self.proba, self.weight), np.empty_like(proba)
        x, logarithms = x[:, : self.x.shape[1]], np.r_[self.log_lengths, self.log_var]
        for part in _chunks(len(x), known):
            near = known.at(self.nearest(x[part]))
            moved[part] = _moved(proba[part], Shift.of(near, x[part], logarithms).f)
        return moved


class Judged(NamedTuple):
    """What rows left out choose: neighbours, None where they want none, and the power of all.

    loss
        Mean loss of the rows left out under both, nats.
    """

    labels: NeighbourLabels | None
    power: float
    loss: float


def judge(known: Labelled, rng: np.random.Generator | None) -> Judged:
    """Ask the neighbours of some rows, if there are enough, and keep these where they help.

    rng
        None: they are not asked.
    """
    without = _judged(known, known.proba)
    if rng is None or len(known.code) < nearest_rows.LEAST_ROWS:
        return without
    known = known.at(rng.permutation(len(known.code))[: nearest_rows.most_rows(known.x.shape[1])])
    known = known._replace(weight=known.weight / known.weight.mean())
    if known.group is not None and len(np.unique(known.group)) == len(known.group):
        known = known._replace(group=None)
    moved = in_folds(rng, known)
    if moved is None:
        return without
    judges = known.at(np.arange(len(moved)))
    before, after = _judged(judges, judges.proba), _judged(judges, moved)
    if before.loss - after.loss < LEAST_GAIN * before.loss:
        return without
    return after._replace(labels=learn(rng, known))


def _judged(known: Labelled, proba: Float[np.ndarray, "n c"]) -> Judged:
    power, losses = _losses(known, proba)
    return Judged(None, power, float(np.average(losses, weights=known.weight)))


def _losses(known: Labelled, proba: Float[np.ndarray, "n c"]) -> tuple[float, np.ndarray]:
    """Return the best power, and under it what every row loses, nats."""
    power = stacking.inverse_temperature(proba, known.code, known.weight)
    likelihood = stacking.raised(proba, power)[np.arange(len(known.code)), known.code]
    return power, -np.log(likelihood)


def learn(rng: np.random.Generator, known: Labelled) -> NeighbourLabels:
    """Learn lengths and a², and remember the rows."""
    *lengths, log_var = _learnt(rng, known)
    x, proba, weight = (np.asarray(a, np.float32) for a in (known.x, known.proba, known.weight))
    logarithms = np.array(lengths), np.array(log_var)
    return NeighbourLabels(x, known.code.astype(np.int32), proba, weight, *logarithms)


def in_folds(rng: np.random.Generator, known: Labelled) -> Float[np.ndarray, "r c"] | None:
    """Move the probabilities of the first MOST_JUDGES rows, each as the others tell.

    In lengths that only others chose: a pair of rows would praise what it chose, whichever of the
    two is judged. None where the first fold says that nothing is gained, or there are no folds.
    """
    moved = known.proba[: nearest_rows.MOST_JUDGES].copy()

    def move(rng: np.random.Generator, fold: nearest_rows.Fold) -> None:
        moved[fold.out] = moved_without(known, fold.out, _learnt(rng, known.at(fold.rest)))

    def gains(out: Int[np.ndarray, " r"]) -> Float[np.ndarray, " r"]:
        judges = known.at(out)
        (_, before), (_, after) = _losses(judges, judges.proba), _losses(judges, moved[out])
        return before - after - LEAST_GAIN * before.mean()

    return (
        moved
        if in_turn(rng, nearest_rows.folds_of(known.numbered, len(moved)), move, gains)
        else None
    )


def moved_without(
    known: Labelled, own: Int[np.ndarray, " r"], logarithms: Float[np.ndarray, " h"]
) -> Float[np.ndarray, "r c"]:
    """Move the probabilities of some rows as others tell."""
    moved, numbered = np.empty((len(own), known.proba.shape[1])), known.numbered
    for part in _chunks(len(own), known):
        near = nearest_rows.around(numbered, own[part], logarithms[:-1])
        rows = known.at(near.y)._replace(weight=near.weight)
        f = Shift.of(rows, known.x[own[part]], logarithms).f
        moved[part] = _moved(known.proba[own[part]], f)
    return moved


def negative_log_likelihood(
    logarithms: Float[np.ndarray, " h"], near: Labelled, own: Labelled
) -> tuple[float, Float[np.ndarray, " h"]]:
    """-log p of the classes of r rows, given k rows around each, summed, and its gradient.

    logarithms
        Of the lengths, (d,), and of a².
    """
    shift = Shift.of(near, own.x, logarithms)
    moved = _moved(own.proba, shift.f)
    likelihood = np.take_along_axis(moved, own.code[:, None], axis=1)
    share = _less_one(moved, own.code) / shift.curvature
    of_nearness = -np.einsum("rc,rkc->rk", share, shift.pulls)
    of_nearness -= np.einsum("rc,rkc->rk", share * shift.f, shift.curvatures)
    of_square = of_nearness * near.weight * nearest_rows.slope(shift.square)
    of_lengths = np.einsum("rk,rkd->d", of_square, np.square(shift.places))
    of_var = np.exp(-logarithms[-1]) * np.sum(share * shift.f)
    return -float(np.log(np.maximum(likelihood, LEAST_PROBA)).sum()), np.r_[of_lengths, of_var]


def _learnt(rng: np.random.Generator, known: Labelled) -> Float[np.ndarray, " h"]:
    """Return the logarithms under which rows are likely, given those around each."""
    n_prior = max(len(known.code), _LEAST_ROWS_OF_PRIOR)
    numbered, speakers = nearest_rows.some_of(rng, known.numbered)
    others = nearest_rows.Others(np.array([_FIRST_LOG_VAR]), np.array(_LOG_VARS), _LOG_VAR_STD)

    def slopes(now: np.ndarray, near: nearest_rows.Known, own: nearest_rows.Known) -> np.ndarray:
        rows = known.at(near.y)._replace(weight=near.weight)
        return negative_log_likelihood(now, rows, known.at(own.y[:, 0]))[1]

    return nearest_rows.learn_lengths(rng, numbered, speakers, others, slopes, n_prior)


def _moved(
    proba: Float[np.ndarray, "r c"], f: Float[np.ndarray, "r c"]
) -> Float[np.ndarray, "r c"]:
    logits = np.log(np.maximum(proba, LEAST_PROBA)) + f
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _less_one(proba: Float[np.ndarray, "*r c"], code: Int[np.ndarray, "*r"]) -> np.ndarray:
    """Return the slopes of minus the log-likelihood in the logits."""
    at = code[..., None]
    slopes = proba.copy()
    np.put_along_axis(slopes, at, np.take_along_axis(proba, at, axis=-1) - 1.0, axis=-1)
    return slopes


def _chunks(n_rows: int, known: Labelled) -> list[slice]:
    return chunks(n_rows, 8 * nearest_rows.N_NEAREST * max(known.proba.shape[1], known.x.shape[1]))
