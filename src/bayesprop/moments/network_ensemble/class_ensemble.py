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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int
from scipy import special

from bayesprop.model.method import Parts
from bayesprop.model.progress import SILENT, Progress
from bayesprop.moments.network_ensemble import neighbour_labels, stacking
from bayesprop.moments.network_ensemble.class_state import (
    FAMILIES,
    ORDERED_FAMILIES,
    ClassState,
    Family,
)
from bayesprop.moments.network_ensemble.distinct_rows import Distinct, Rows
from bayesprop.moments.network_ensemble.ensemble_settings import EnsembleSettings
from bayesprop.moments.network_ensemble.ensemble_training import (
    FitInfo,
    Job,
    Loop,
    losses_of,
    n_complete,
    train_all,
)
from bayesprop.moments.network_ensemble.input_views import Ramps, bounded
from bayesprop.moments.network_ensemble.kernel_classes import advance_classes, evaluate_classes
from bayesprop.moments.network_ensemble.kernel_layout import layout
from bayesprop.moments.network_ensemble.kernel_network import BLOCK
from bayesprop.moments.network_ensemble.kernel_softmax import N_PAIRS
from bayesprop.moments.network_ensemble.member import (
    Member,
    flat,
    init_classes,
    init_ordered,
)
from bayesprop.moments.network_ensemble.neighbour_labels import Labelled
from bayesprop.moments.network_ensemble.weight_priors import Priors, dead_units
from bayesprop.simd.lanes import aligned_zeros, round_up

_N_NORMALS, _STEPS_OF_NORMALS, _N_PAIRS = 2**13, 16, 64
_ROWS_AT_A_TIME = 128
_NEARBY_SECONDS = 5.0  # what classes of rows nearby may take to learn, on a slow machine
_TRAINING = 0.9
"""Share of the time, and of the bar, that training takes."""


class Doubtful(NamedTuple):
    """Expected probabilities (n, c) and expected entropies (n,), nats, over a posterior."""

    proba: Float[np.ndarray, "n c"]
    entropy: Float[np.ndarray, " n"]


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
    weight
        How often each row counts, positive; None: once.
    groups
        Numbers of what is left out together; None: rows of the same inputs.
    progress
        Where its time is over the families have fewer members: those that are complete.
    parts
        A table that networks learn, of which the rows are a sample: it chooses all the rest.
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
    loop = Loop(advance_classes, _normals(seed, n_classes), f"{__name__}:rehearse")
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
    """Set all that is not trained by what every network says of the rows that it has not seen.

    And return the mean loss of these rows.

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
            (one,) = evaluate([member], views[family.has_ramps].x[out], state.points)
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
        for one in evaluate(members, views[family.has_ramps], state.points):
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


def evaluate(
    members: Sequence[Member], x: Float[np.ndarray, "n e"], points: Float32[np.ndarray, "p c"]
) -> Iterator[Doubtful]:
    """Predict by each of some networks of the same sizes; rows are given as they are given them."""
    n_pairs, n_classes = points.shape
    size = min(_ROWS_AT_A_TIME, round_up(max(len(x), 1), BLOCK))
    plan = layout(members[0], size, Priors())  # of which outputs do not depend
    work = plan.work(flat(members[0]), np.zeros(n_classes, np.float32), _aligned(points))
    x = np.ascontiguousarray(x, np.float32)
    for member in members:
        work.theta[plan.leaves] = flat(member)
        proba, entropy = np.empty((len(x), n_classes)), np.empty((len(x), 1))
        evaluate_classes(work, x, size, n_pairs, proba, entropy)
        yield Doubtful(proba, entropy[:, 0])


def rehearse() -> None:
    """Evaluate a network, of no account, so that what does is compiled: see `simd.beside`."""
    network = init_classes(np.random.default_rng(0), (1, 4, 2))
    list(evaluate([network], np.zeros((1, 1)), np.zeros((1, 2), np.float32)))


def points(n_classes: int) -> Float32[np.ndarray, "p c"]:
    """Draw all logits so that they cover the normal distribution evenly (Owen 1995)."""
    from scipy.stats import qmc

    uniform = qmc.Sobol(n_classes, rng=0).random(_N_PAIRS)
    return special.ndtri(uniform).astype(np.float32)


def _normals(seed: int, n_classes: int) -> Float32[np.ndarray, " z"]:
    """Draw what the steps of training draw from, many times what one takes."""
    size = max(_N_NORMALS, _STEPS_OF_NORMALS * N_PAIRS * n_classes)
    return _aligned(np.random.default_rng([seed, 1]).standard_normal(size))


def _aligned(values: np.ndarray) -> Float32[np.ndarray, " z"]:
    """Put numbers side by side where the compiled loops can read them."""
    aligned = aligned_zeros(values.size, np.float32)
    aligned[:] = np.ravel(values)
    return aligned
