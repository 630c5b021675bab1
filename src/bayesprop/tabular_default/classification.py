"""Classification that needs no tuning: experts of networks whose weights held-out rows choose.

Networks with Gaussian weights, moments through every layer in closed form (Roth & Pernkopf 2016),
adaptive priors and a linear path, as for numbers; the likelihood is categorical. Two choices that
no fixed value serves are made four ways at once: whether inputs have piecewise-linear ramps beside
them, and how often the posterior believes it saw every row. Each of the four experts is several
networks, each trained without its part of the rows. Predictions of these rows give the experts
their mixture weights. Where held-out rows gain by it, the labels of the nearest rows move the
mixture (`neighbours`). In the end the shares of the classes get a weight of one in n + 2, for a
surprise among n rows.
Of ordered classes there are further experts, whose likelihood is cumulative: where their order says
nothing, their weights are small.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Float64, Int
from scipy import special

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.model.method import Parts
from bayesprop.model.progress import SILENT, Progress
from bayesprop.numerics.dense import one_blas_thread
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import outputs as ensemble_outputs
from bayesprop.tabular_default import stack as stacking
from bayesprop.tabular_default.duplicate_inputs import Distinct
from bayesprop.tabular_default.kernel_classes import N_PAIRS, advance_classes
from bayesprop.tabular_default.neighbours import LocalLogits
from bayesprop.tabular_default.networks import (
    Networks,
    dead_units,
    init_member,
    init_thresholds,
)
from bayesprop.tabular_default.outputs import class_outputs
from bayesprop.tabular_default.piecewise_linear import Ramps, bounded
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.training import FitInfo, Loop, Table, train

_N_NORMALS, _STEPS_OF_NORMALS, _N_PAIRS = 2**13, 16, 64
_NEARBY_SECONDS = 5.0  # what classes of rows nearby may take to learn, on a slow machine
_TRAINING = 0.9
"""Share of the time, and of the bar, that training takes."""

LIKELIHOOD_WEIGHTS = (1.0, 8.0)
"""Copies that a row counts for."""


class ClassState(NamedTuple):
    """The posterior of all networks, and how they are mixed.

    experts
        Networks without and with ramps, of every likelihood weight.
    weights
        Mixture weights of the experts, (f,).
    ramps
        Of the inputs.
    constant
        Probabilities of the classes in the training rows, (c,).
    points
        Standard normal draws of all logits, whose negatives belong to them, (p, c).
    seed
        The number that fixed the starts, the folds and the order of the rows.
    neighbours
        What moves the mixture; None where held-out rows want nothing.
    surprise
        Weight of the constant beside all that: n rows without a surprise leave one in n + 2 (the
        rule of succession, Laplace 1774).
    """

    experts: tuple[Networks, ...]
    weights: Float64[np.ndarray, " f"]
    ramps: Ramps
    constant: Float64[np.ndarray, " c"]
    points: Float32[np.ndarray, "p c"]
    seed: int
    neighbours: LocalLogits | None = None
    surprise: float = 0.0

    def validate(self) -> None:
        """Raise ValueError unless all parts belong to one ensemble."""
        n_inputs, n_classes = len(self.ramps.n_knots), len(self.constant)
        for name, size in (("constant", n_classes), ("weights", len(self.experts))):
            share = getattr(self, name)
            if share.shape != (size,) or (share < 0.0).any() or abs(share.sum() - 1.0) > 1e-6:
                raise ValueError(f"{name} must be {size} numbers from 0 on that sum to one")
        if not 0.0 <= self.surprise < 1.0:
            raise ValueError("surprise must be from 0 to 1")
        if not len(self.points) or self.points.shape[1] != n_classes:
            raise ValueError(f"points must have rows, and {n_classes} columns")
        near = self.neighbours
        if near is not None and (near.x.shape[1], near.proba.shape[1]) != (n_inputs, n_classes):
            raise ValueError(f"neighbours must be of {n_inputs} inputs and {n_classes} classes")
        for one in self.experts:
            n_given, first = n_inputs + one.is_ramped * self.ramps.n_ramps, one.members[0]
            n_thresholds = len(first.thresholds)
            wanted = (n_given, 1 if n_thresholds else n_classes)
            if (first.sizes[0][0], first.sizes[0][-1]) != wanted or n_thresholds not in (
                0,
                n_classes - 1,
            ):
                raise ValueError(f"networks must lead from {n_given} inputs to {n_classes} classes")
            if not first.is_direct or first.noise:
                raise ValueError("networks of classes must take the inputs last, and have no noise")


@one_blas_thread()
def fit(
    seed: int,
    x: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, " n"],
    n_classes: int,
    settings: EnsembleSettings,
    *,
    weight: Float[np.ndarray, " n"] | None = None,
    groups: Int[np.ndarray, " n"] | None = None,
    progress: Progress = SILENT,
    is_ordered: bool = False,
    parts: Parts | None = None,
) -> tuple[ClassState, FitInfo]:
    """Train all networks, and weigh them by held-out rows.

    x, codes
        Standardised inputs, and the number of every row's class.
    is_ordered
        Whether these numbers are an order; of two classes they are none.
    groups
        Numbers of what is left out together; None: rows of the same inputs.
    weight, progress, parts
        As in `regression.fit`.
    """
    weight = np.ones(len(x)) if weight is None else np.asarray(weight, np.float64)
    rng, ramps = np.random.default_rng(seed), Ramps.of(x, weight)
    counts = np.bincount(codes, weight, n_classes)
    if parts is not None and groups is None:
        groups = np.arange(len(x))
    rows, fold, has_groups = _folded(x, codes, weight, groups, settings.n_members, rng)
    one_hot = np.eye(n_classes, dtype=np.float32).__getitem__
    table = Table.of(rows.x, rows.y, rows.weight, rows.group, parts, one_hot)._replace(fold=fold)
    views = table.given(bounded), table.given(ramps.encode)
    starts = _start(rng, views, counts, settings, is_ordered=is_ordered and n_classes > 2)
    loop = Loop(
        advance_classes, _normals(seed, n_classes), f"{ensemble_outputs.__name__}:rehearse_classes"
    )
    experts, losses = train(
        starts,
        [views[one.is_ramped] for one in starts],
        [settings] * len(starts),
        seed=seed,
        loop=loop,
        numbers=[f * settings.n_members for f in range(len(starts))],
        progress=progress.part(0.0, _TRAINING, time_share=_TRAINING),
    )
    progress.report(_TRAINING, 1.0, "rows left out")
    n_rows = counts.sum()
    state = ClassState(
        tuple(experts),
        np.full(len(experts), 1.0 / len(experts)),
        ramps,
        constant=counts / n_rows,
        points=points(n_classes),
        seed=seed,
        surprise=float(1.0 / (n_rows + 2.0)),
    )
    asks_neighbours = settings.learns_processes and has_groups
    if asks_neighbours and (progress.is_over or progress.seconds_left < _NEARBY_SECONDS):
        progress.cut("without rows nearby")
        asks_neighbours = False
    held_out = hold_out(state, views, fold)
    state, left_out_loss = _weighed(state, rows, *held_out, rng if asks_neighbours else None)
    dead = (dead_units(m.mean, settings.priors.mean) for one in experts for m in one.members)
    n_near = 0 if state.neighbours is None else len(state.neighbours.weight)
    guards = {"dead_units": sum(map(sum, dead)), "neighbour_rows": n_near}
    return state, FitInfo(losses, guards, left_out_loss=left_out_loss)


def _folded(
    x: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    groups: Int[np.ndarray, " n"] | None,
    n_folds: int,
    rng: np.random.Generator,
) -> tuple[Rows, Int[np.ndarray, " n"], bool]:
    """Deal rows out to folds; of a table of cells no input is left out whole, but some rows."""
    if groups is None:
        distinct = Distinct.of(Rows(x.astype(np.float32), codes[:, None], weight))
        if n_folds > 1 and distinct.has_cells:
            return *stacking.dealt(x, codes, weight, n_folds), False
        groups = distinct.number
    groups = np.unique(groups, return_inverse=True)[1]
    return Rows(x, codes, weight, groups), stacking.folds(groups, codes, n_folds, rng), True


def _start(
    rng: np.random.Generator,
    views: tuple[Table, Table],
    counts: Float[np.ndarray, " c"],
    settings: EnsembleSettings,
    *,
    is_ordered: bool,
) -> list[Networks]:
    """Draw the initial networks of all experts; of ordered classes there are twice as many."""
    experts = []
    for of_order, is_ramped, likelihood_weight in product(
        (False, True)[: 1 + is_ordered], (False, True), LIKELIHOOD_WEIGHTS
    ):
        n_outputs = 1 if of_order else len(counts)
        sizes = (views[is_ramped].x.shape[1], *settings.hidden_layer_sizes, n_outputs)
        members = [init_member(rng, sizes) for _ in range(settings.n_members)]
        if of_order:
            thresholds = init_thresholds(1.0 + counts)
            members = [one._replace(thresholds=thresholds) for one in members]
        no_floor = np.zeros(len(counts), np.float32)
        experts.append(
            Networks.of(members, no_floor, is_ramped=is_ramped, likelihood_weight=likelihood_weight)
        )
    return experts


def hold_out(
    state: ClassState, views: tuple[Table, Table], fold: Int[np.ndarray, " n"]
) -> tuple[Int[np.ndarray, " r"], Float[np.ndarray, "f r c"]]:
    """Return rows that a network has not seen, and what that of every expert predicts there."""
    n_members = state.experts[0].n_members
    rows = np.flatnonzero((fold >= 0) & (fold < n_members))
    proba = np.empty((len(state.weights), len(rows), len(state.constant)))
    for f, expert in enumerate(state.experts):
        for k, member in enumerate(expert.members):
            out = fold[rows] == k
            x = views[expert.is_ramped].x[rows[out]]
            (one,) = class_outputs([member], x, state.points)
            proba[f, out] = one.proba
    return rows, proba


def _weighed(
    state: ClassState,
    table: Rows,
    rows: Int[np.ndarray, " r"],
    proba: Float[np.ndarray, "f r c"],
    rng: np.random.Generator | None,
) -> tuple[ClassState, float]:
    """Set all that is not trained by held-out rows; and return their mean loss.

    rng
        None: their neighbours are not asked.
    """
    if not len(rows):
        return state, float("nan")
    held = table.at(rows)
    likelihood = proba[:, np.arange(len(rows)), held.y]
    weights = stacking.mixture_weights(np.maximum(likelihood, stacking.LEAST_PROBA), held.weight)
    mixture = np.tensordot(weights, proba, 1)
    x = bounded(held.x).astype(np.float32)
    known = held._replace(x=x)
    logits = None if rng is None else LocalLogits.fit(rng, known, mixture)
    if logits is not None:
        _, known, mixture = logits
    losses = stacking.log_loss(mixture, known.y)
    state = state._replace(weights=weights, neighbours=None if logits is None else logits[0])
    return state, float(np.average(losses, weights=known.weights))


def predict(state: ClassState, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
    """Predict the classes of standardised rows.

    The expected entropy is that of the mixture times what neighbours do to the whole entropy: the
    share of the doubt that data would remove is that before they move the mixture.
    """
    views = bounded(x), state.ramps.encode(x)
    proba, entropy = np.zeros((len(x), len(state.constant))), np.zeros(len(x))
    for expert, weight in zip(state.experts, state.weights, strict=True):
        for one in class_outputs(expert.members, views[expert.is_ramped], state.points):
            proba += weight / expert.n_members * one.proba
            entropy += weight / expert.n_members * one.expected_entropy
    moved = proba if state.neighbours is None else state.neighbours.moved(views[0], proba)
    before, after = (special.entr(p).sum(axis=1) for p in (proba, moved))
    entropy *= after / np.maximum(before, stacking.LEAST_PROBA)
    own, share = special.entr(state.constant).sum(), state.surprise
    return ClassPredictive.of_codes(
        (1.0 - share) * stacking.normalised(moved) + share * state.constant,
        (1.0 - share) * entropy + share * own,
    )


def points(n_classes: int) -> Float32[np.ndarray, "p c"]:
    """Draw all logits so that they cover the normal distribution evenly (Owen 1995)."""
    from scipy.stats import qmc

    uniform = qmc.Sobol(n_classes, rng=0).random(_N_PAIRS)
    return special.ndtri(uniform).astype(np.float32)


def _normals(seed: int, n_classes: int) -> Float32[np.ndarray, " z"]:
    """Draw what the steps of training draw from, many times what one takes."""
    size = max(_N_NORMALS, _STEPS_OF_NORMALS * N_PAIRS * n_classes)
    return np.random.default_rng([seed, 1]).standard_normal(size).astype(np.float32)
