"""Classification that needs no tuning: families of networks whose shares rows left out choose.

Networks with Gaussian weights, moments through every layer in closed form (Roth & Pernkopf 2016),
adaptive priors and a linear path, as for numbers; the likelihood is categorical. Two choices that
no fixed value serves are made four ways at once: how inputs are given (`input_views`), and how
often the posterior believes it saw every row. Each of the four families is several networks, each
trained without its part of the rows. What these say of the rows that they have not seen gives the
families, and a constant beside them, their shares in a mixture, and the mixture a power. Where they
gain by it, the labels of the nearest rows move the mixture before that (`neighbour_labels`). In the
end the constant gets one share of n + 2, for a surprise among n rows. Of ordered classes there are
further families, whose likelihood is cumulative: where their order says nothing, their shares are
small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Float64, Int
from scipy import special

from bayesprop.model.method import Parts
from bayesprop.model.progress import SILENT, Progress
from bayesprop.numerics.dense import one_blas_thread
from bayesprop.tabular_default import neighbour_labels
from bayesprop.tabular_default import outputs as ensemble_outputs
from bayesprop.tabular_default import stack as stacking
from bayesprop.tabular_default.distinct_rows import Distinct, Rows
from bayesprop.tabular_default.gaussian_network import dead_units
from bayesprop.tabular_default.kernel_classes import N_PAIRS, advance_classes
from bayesprop.tabular_default.member import Member, init_classes, init_ordered
from bayesprop.tabular_default.neighbour_labels import Labelled, NeighbourLabels
from bayesprop.tabular_default.outputs import Doubtful, class_outputs
from bayesprop.tabular_default.piecewise_linear import Ramps, bounded
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.training import (
    FitInfo,
    Job,
    Loop,
    losses_of,
    n_complete,
    train_all,
)

_N_NORMALS, _STEPS_OF_NORMALS, _N_PAIRS = 2**13, 16, 64
_NEARBY_SECONDS = 5.0  # what classes of rows nearby may take to learn, on a slow machine
_TRAINING = 0.9
"""Share of the time, and of the bar, that training takes."""

_NONE = np.zeros(1)


class Family(NamedTuple):
    """Networks that are alike: whether they are given ramps, and copies that a row counts for.

    is_ordered
        Whether the likelihood is cumulative.
    """

    has_ramps: bool
    likelihood_weight: float
    is_ordered: bool = False


FAMILIES = (Family(False, 1.0), Family(False, 8.0), Family(True, 1.0), Family(True, 8.0))
ORDERED_FAMILIES = (*FAMILIES, *(family._replace(is_ordered=True) for family in FAMILIES))
"""Those of more than two ordered classes."""


class ClassState(NamedTuple):
    """The posterior of all networks, and how they are mixed.

    families
        Members of each of FAMILIES, or of ORDERED_FAMILIES.
    ramps
        Of the inputs.
    constant
        Probabilities of the classes in the training rows, (c,).
    shares
        Of the families, and last of the constant, (f + 1,).
    power
        That the mixture is raised to, (1,).
    points
        Standard normal draws of all logits, whose negatives belong to them, (p, c).
    seed
        The number that fixed the starts, the folds and the order of the rows.
    neighbours
        What moves the mixture before the power; None where rows left out want nothing.
    surprise
        Share of the constant beside all that, (1,): n rows without a surprise leave one in n + 2
        (the rule of succession, Laplace 1774).
    """

    families: tuple[tuple[Member, ...], ...]
    ramps: Ramps
    constant: Float64[np.ndarray, " c"]
    shares: Float64[np.ndarray, " f"]
    power: Float64[np.ndarray, " one"]
    points: Float32[np.ndarray, "p c"]
    seed: int
    neighbours: NeighbourLabels | None = None
    surprise: Float64[np.ndarray, " one"] = _NONE

    @property
    def kinds(self) -> tuple[Family, ...]:
        """What the families are."""
        return FAMILIES if len(self.families) == len(FAMILIES) else ORDERED_FAMILIES

    def validate(self) -> None:
        """Raise ValueError unless all parts belong to one ensemble."""
        n_inputs, n_classes = len(self.ramps.n_knots), len(self.constant)
        for name, size in (("constant", n_classes), ("shares", len(self.kinds) + 1)):
            share = getattr(self, name)
            if share.shape != (size,) or (share < 0.0).any() or abs(share.sum() - 1.0) > 1e-6:
                raise ValueError(f"{name} must be {size} numbers from 0 on that sum to one")
        if self.power.shape != (1,) or self.power[0] <= 0.0:
            raise ValueError("power must be one number > 0")
        if self.surprise.shape != (1,) or not 0.0 <= self.surprise[0] < 1.0:
            raise ValueError("surprise must be one number from 0 to 1")
        if not len(self.points) or self.points.shape[1] != n_classes:
            raise ValueError(f"points must have rows, and {n_classes} columns")
        near = self.neighbours
        if near is not None and (near.x.shape[1], near.proba.shape[1]) != (n_inputs, n_classes):
            raise ValueError(f"neighbours must be of {n_inputs} inputs and {n_classes} classes")
        for family, members in zip(self.kinds, self.families, strict=True):
            n_given = n_inputs + family.has_ramps * self.ramps.n_ramps
            wanted = (n_given, 1, n_classes - 1) if family.is_ordered else (n_given, n_classes, 0)
            found = {(one.sizes[0][0], one.sizes[0][-1], len(one.thresholds)) for one in members}
            if found != {wanted} or len({one.sizes for one in members}) != 1:
                raise ValueError(f"networks must lead from {n_given} inputs to {n_classes} classes")
            if not members[0].is_direct or members[0].noise:
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
    """Train all networks, and weigh them by rows left out.

    x, codes
        Standardised inputs, and the number of every row's class.
    is_ordered
        Whether these numbers are an order; of two classes they are none.
    groups
        Numbers of what is left out together; None: rows of the same inputs.
    weight, progress, parts
        As in `ensemble.fit`.
    """
    weight = np.ones(len(x)) if weight is None else np.asarray(weight, np.float64)
    rng, ramps = np.random.default_rng(seed), Ramps.of(x, weight)
    counts = np.bincount(codes, weight, n_classes)
    if parts is not None and groups is None:
        groups = np.arange(len(x))
    folded = _parted(x, codes, weight, groups, settings.n_members, rng)
    x, codes, weight, fold, _ = folded
    kinds = ORDERED_FAMILIES if is_ordered and n_classes > 2 else FAMILIES
    one_hot = np.eye(n_classes, dtype=np.float32).__getitem__
    views = [
        Rows.of(view(x), one_hot(codes), weight).of_parts(parts, view, one_hot)
        for view in (bounded, ramps.beside)
    ]
    jobs = _jobs(kinds, views, counts, fold, settings, rng)
    loop = Loop(
        advance_classes, _normals(seed, n_classes), f"{ensemble_outputs.__name__}:rehearse_classes"
    )
    training = progress.part(0.0, _TRAINING, time_share=_TRAINING)
    # The first member of every family, the second of every one, and so on.
    trained = train_all(
        sorted(jobs, key=lambda job: job.number % settings.n_members),
        seed=seed,
        log_floor=np.zeros(n_classes, np.float32),
        loop=loop,
        progress=training,
        n_least=len(kinds),
    )
    n = n_complete(trained, len(kinds), settings.n_steps, training) // len(kinds)
    of_families = [trained[f : n * len(kinds) : len(kinds)] for f in range(len(kinds))]
    families = tuple(tuple(one.member for one in each) for each in of_families)
    progress.report(_TRAINING, 1.0, "rows left out")
    equal = np.full(len(kinds) + 1, 1.0 / (len(kinds) + 1))
    n_rows = counts.sum()
    state = ClassState(
        families,
        ramps,
        constant=counts / n_rows,
        shares=equal,
        power=np.ones(1),
        points=points(n_classes),
        seed=seed,
        surprise=np.array([1.0 / (n_rows + 2.0)]),
    )
    asks_neighbours = settings.learns_processes and folded.group is not None
    if asks_neighbours and (progress.is_over or progress.seconds_left < _NEARBY_SECONDS):
        progress.cut("without rows nearby")
        asks_neighbours = False
    state, left_out_loss = _weighed(state, views, folded, rng if asks_neighbours else None)
    losses = losses_of([one for each in of_families for one in each])
    dead = [dead_units(job.mean, settings.priors.mean) for each in families for job in each]
    n_near = 0 if state.neighbours is None else len(state.neighbours.weight)
    guards = {"dead_units": sum(map(sum, dead)), "neighbour_rows": n_near}
    return state, FitInfo(losses, guards, left_out_loss=left_out_loss)


def _parted(
    x: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    groups: Int[np.ndarray, " n"] | None,
    n_folds: int,
    rng: np.random.Generator,
) -> stacking.Folded:
    """Deal rows out to folds; of a table of cells no input is left out whole, but some rows."""
    if groups is None:
        distinct = Distinct.of(Rows.of(x, codes[:, None], weight))
        if n_folds > 1 and distinct.has_cells:
            return stacking.dealt(x, codes, weight, n_folds)
        groups = distinct.gone
    groups = np.unique(groups, return_inverse=True)[1]
    fold = stacking.folds(groups, codes, n_folds, rng)
    return stacking.Folded(x, codes, weight, fold, groups)


def _jobs(
    kinds: Sequence[Family],
    views: Sequence[Rows],
    counts: Float[np.ndarray, " c"],
    fold: Int[np.ndarray, " n"],
    settings: EnsembleSettings,
    rng: np.random.Generator,
) -> list[Job]:
    """Lay out the training of all families, each member without its fold."""
    n, jobs = settings.n_members, []
    settings = replace(settings, n_members=len(kinds) * n)
    for family in kinds:
        rows = views[family.has_ramps]
        rows = rows._replace(n_total=family.likelihood_weight * rows.n_total)
        sizes = (rows.x.shape[1], *settings.hidden_layer_sizes)
        for k in range(n):
            if family.is_ordered:
                member = init_ordered(rng, sizes, 1.0 + counts)
            else:
                member = init_classes(rng, (*sizes, len(counts)))
            jobs.append(Job.of(len(jobs), member, rows, fold, k, settings))
    return jobs


def _weighed(
    state: ClassState,
    views: Sequence[Rows],
    folded: stacking.Folded,
    rng: np.random.Generator | None,
) -> tuple[ClassState, float]:
    """Set all that is not trained by rows that a network has not seen; and their mean loss.

    rng
        None: their neighbours are not asked.
    """
    _, codes, weight, fold, group = folded
    seen = np.flatnonzero((fold >= 0) & (fold < len(state.families[0])))
    if not len(seen):
        return state, float("nan")
    proba = np.empty((len(state.kinds) + 1, len(codes), len(state.constant)))
    proba[-1] = state.constant
    for f, (family, members) in enumerate(zip(state.kinds, state.families, strict=True)):
        for k, member in enumerate(members):
            out = fold == k
            (one,) = class_outputs([member], views[family.has_ramps].x[out], state.points)
            proba[f, out] = one.proba
    proba, codes, weight = proba[:, seen], codes[seen], weight[seen]
    likelihood = proba[:, np.arange(len(codes)), codes]
    shares = stacking.shares(np.maximum(likelihood, stacking.LEAST_PROBA), weight)
    mixture = np.tensordot(shares, proba, 1)
    group = None if group is None else group[seen]
    known = Labelled(views[False].x[seen], codes, mixture, weight, group)
    judged = neighbour_labels.judge(known, rng)
    state = state._replace(shares=shares, power=np.array([judged.power]), neighbours=judged.labels)
    return state, judged.loss


def predict(state: ClassState, x: Float[np.ndarray, "n d"]) -> Doubtful:
    """Predict the classes of standardised rows.

    The expected entropy is that of the mixture times what the power does to the whole entropy: the
    share of the doubt that data would remove is that before the power.
    """
    views = bounded(x), state.ramps.beside(x)
    proba = np.full((len(x), len(state.constant)), state.shares[-1] * state.constant)
    entropy = np.full(len(x), state.shares[-1] * special.entr(state.constant).sum())
    for family, members, share in zip(state.kinds, state.families, state.shares[:-1], strict=True):
        for one in class_outputs(members, views[family.has_ramps], state.points):
            proba += share / len(members) * one.proba
            entropy += share / len(members) * one.entropy
    moved = proba if state.neighbours is None else state.neighbours.moved(views[0], proba)
    raised, share = stacking.raised(moved, state.power[0]), state.surprise[0]
    before, after = (special.entr(p).sum(axis=1) for p in (proba, raised))
    entropy *= after / np.maximum(before, stacking.LEAST_PROBA)
    own = special.entr(state.constant).sum()
    return Doubtful(
        (1.0 - share) * raised + share * state.constant, (1.0 - share) * entropy + share * own
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
