"""One model from rows that lie in shards, each learnt where it lies: only posteriors travel.

All shards of a round begin from the same posterior, and what they return is joined in the order of
the shards: results depend on the shards and the seed alone, not on who works when.

Methods that condition on rows at once, as Laplace's does, take expectation propagation with one
site a shard: a worker gets the cavity, all that the other shards say, and what its posterior says
beyond that is its new site (Vehtari et al. 2020, "Expectation propagation as a way of life",
algorithm 1; as partitioned VI, Bui et al. 2018). At its fixed point Laplace's posterior is that of
all rows.

Of networks learnt in passes the product of sites from far apart is no good: each shard's hidden
units go their own way. There the sites are tied, each a share
1 / K of one average factor, as in stochastic EP (Li, Hernández-Lobato & Turner 2015; Dehaene &
Barthelmé 2018, "averaged EP"): a worker meets each of its rows as K, as if its shard were the whole
table, and the new posterior is the geometric mean of the workers'. Shards of other sizes have other
weights, in proportion to what they hold.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from bayesprop.estimators import fitting
from bayesprop.estimators.params import check_int
from bayesprop.model.method import Learned, Merges, Resumes, TrainingRows
from bayesprop.model.progress import Progress
from bayesprop.scale.merging import ReExpressed, is_linear_in_inputs, merge, with_learned

START_ROWS = 1000
"""Of all shards together: they set the scaling, and break the symmetry of hidden units."""


class Shard(NamedTuple):
    """Rows of one machine in the user's units; `weight` of the rows, None: one each."""

    X: Any
    y: Any
    weight: Any = None

    @property
    def weight_or_ones(self) -> np.ndarray:
        """Weight of every row."""
        return np.ones(len(self.y)) if self.weight is None else np.asarray(self.weight)

    def part(self, rows: slice) -> Shard:
        """Return some of its rows."""
        return Shard(*(None if column is None else column[rows] for column in self))


def fit_shards(
    estimator: Any,
    shards: Sequence[Any],
    *,
    rounds: int = 10,
    executor: Any = None,
    start: Any = None,
) -> Any:
    """Fit to rows in shards; return a fitted copy.

    Linear regression on its inputs takes one round, and is what one `fit` to all rows is, to
    rounding. Others begin with a fit to some rows of every shard (`START_ROWS` in all, which then
    leave their shards), and learn in rounds; `n_epochs` passes of pbp are divided among these.

    Parameters
    ----------
    estimator : estimator
        Unfitted; linear, logistic or pbp. It is left as it is.
    shards : sequence of (X, y) or (X, y, sample_weight)
        Arrays; a shard may be empty, or hold one class.
    rounds : int
        Times that every shard is learnt.
    executor : object with `submit`, or None
        Of `concurrent.futures`, or a client of `dask.distributed`; None: one shard after another.
        Rows travel to the workers in every round.
    start : fitted estimator or None
        Scaling and first posterior, from rows that are in no shard. None: from the shards.

    Raises
    ------
    ValueError
        For an estimator whose posteriors do not multiply, or no shards.
    """
    check_int("rounds", rounds)
    if not issubclass(getattr(estimator, "method_class", object), Merges):
        raise ValueError(
            "estimator must be linear, logistic or pbp, whose posteriors multiply, got "
            f"{type(estimator).__name__}"
        )
    parts = [Shard(*shard) for shard in shards]
    if not any(len(part.y) for part in parts):
        raise ValueError("shards must hold rows, got none")
    widths = [np.shape(part.X)[-1] for part in parts]
    if len(set(widths)) > 1:
        number = next(k for k, width in enumerate(widths) if width != widths[0])
        raise ValueError(
            f"shards must have the same columns, got {widths[0]} in shard 0 and {widths[number]} "
            f"in shard {number}"
        )
    submit = _at_once if executor is None else executor.submit
    if start is None and issubclass(estimator.method_class, ReExpressed):
        full = [part for part in parts if len(part.y)]
        jobs = [submit(_fitted_alone, estimator, part) for part in full]
        alone = [job.result() for job in jobs]
        if all(map(is_linear_in_inputs, alone)):
            return merge(alone)
    if start is None:
        start, parts = _started(estimator, parts)
    return _in_rounds(start, parts, submit, rounds)


def _fitted_alone(estimator: Any, shard: Shard) -> Any:
    return copy.deepcopy(estimator).fit(shard.X, shard.y, shard.weight)


def _started(estimator: Any, shards: list[Shard]) -> tuple[Any, list[Shard]]:
    """Fit to the first rows of every shard, and take them out."""
    n = -(-START_ROWS // len(shards))
    first = [shard.part(slice(n)) for shard in shards if len(shard.y)]
    X, y = (np.concatenate([np.asarray(one[k]) for one in first]) for k in (0, 1))
    weight = None
    if any(one.weight is not None for one in first):
        weight = np.concatenate([one.weight_or_ones for one in first])
    begun = copy.deepcopy(estimator)
    if hasattr(estimator, "predict_proba"):
        labels = np.unique(np.concatenate([np.unique(one.y) for one in shards if len(one.y)]))
        if len(np.unique(y)) < len(labels):
            raise ValueError(
                f"the first {n} rows of the shards must hold all {len(labels)} classes: shuffle "
                "every shard's rows, or give a start"
            )
    return begun.fit(X, y, weight), [shard.part(slice(n, None)) for shard in shards]


def _in_rounds(start: Any, shards: list[Shard], submit: Any, rounds: int) -> Any:
    """Learn all shards in every round, from a start, whose rows count once."""
    numbers = [k for k, one in enumerate(shards) if len(one.y)]
    rows = [_encoded(start, shards[k]) for k in numbers]
    going = copy.copy(start)
    if passes := getattr(start, "n_epochs", 0):
        going.n_epochs = -(-passes // rounds)
    method, posterior = going.fitted_.method, start.learned_
    n_rows = posterior.report.n_rows + sum(len(one.x) for one in rows)
    join = (
        _Averaged(method, rows) if isinstance(method, Resumes) else _Sites(method, rows, posterior)
    )
    seed = int(check_random_state(start.random_state).randint(2**31))
    guards: Counter[str] = Counter()
    for turn in range(rounds if rows else 0):
        seeds = [(seed, turn, k) for k in numbers]
        begun = join.cavities(posterior)
        jobs = [submit(learnt, method, *job) for job in zip(join.rows, begun, seeds, strict=True)]
        results = [job.result() for job in jobs]
        posterior = join.joined(posterior, begun, results)
        for one in (posterior, *results):
            guards.update(one.report.guards)
    report = replace(posterior.report, guards=dict(guards), n_rows=n_rows, n_epochs=rounds)
    return with_learned(start, Learned(posterior.state, report, rounds))


class _Sites:
    """Expectation propagation, one site a shard; each is kept times the start, as a posterior."""

    def __init__(self, method: Any, rows: list[TrainingRows], origin: Learned) -> None:
        self.method, self.rows, self.origin = method, rows, origin
        self.sites = [origin] * len(rows)

    def cavities(self, posterior: Learned) -> list[Learned]:
        """Return what all but each shard say."""
        powers = [1.0, -1.0, 1.0]
        return [self.method.combined([posterior, one, self.origin], powers) for one in self.sites]

    def joined(
        self, posterior: Learned, cavities: list[Learned], results: list[Learned]
    ) -> Learned:
        """Return the product of the new sites; where it is none, the posterior before."""
        pairs = zip(results, cavities, strict=True)
        self.sites = [
            self.method.combined([self.origin, *pair], [1.0, 1.0, -1.0]) for pair in pairs
        ]
        powers = [0.0, 1.0 - len(self.sites), *[1.0] * len(self.sites)]
        return self.method.combined([posterior, self.origin, *self.sites], powers)


class _Averaged:
    """Tied sites: each worker's rows stand for those of all, and posteriors are averaged."""

    def __init__(self, method: Any, rows: list[TrainingRows]) -> None:
        mass = np.array([np.sum(one.weights) for one in rows])
        self.method, self.shares = method, mass / np.sum(mass)
        self.rows = [
            one._replace(weight=one.weights / max(share, np.finfo(float).tiny))
            for one, share in zip(rows, self.shares, strict=True)
        ]

    def cavities(self, posterior: Learned) -> list[Learned]:
        """Return where each shard begins: all that is learnt, every pass being new data."""
        return [posterior] * len(self.rows)

    def joined(
        self, posterior: Learned, cavities: list[Learned], results: list[Learned]
    ) -> Learned:
        """Return the geometric mean of the posteriors."""
        del cavities
        return self.method.combined([posterior, *results], [0.0, *self.shares])


def learnt(method: Any, rows: TrainingRows, cavity: Learned, seed: tuple[int, ...]) -> Learned:
    """Learn a shard's rows from a cavity: what a worker does."""
    rng = np.random.RandomState(np.random.SeedSequence(seed).generate_state(4))
    learn = method.resume if isinstance(method, Resumes) else method.absorb
    return learn(rows, cavity, rng, Progress())


def _encoded(start: Any, shard: Shard) -> TrainingRows:
    """Return a shard's rows as the method sees them."""
    X, y, weight, _ = start.checked_rows(shard.X, shard.y, shard.weight, reset=False)
    task = start.task_.of_rows(X)
    method = start.build_method(task, X.shape[1])
    x = fitting.encoding_of(start).encode(X, method.furthest_input)
    return TrainingRows(x, task.encode(y, check_random_state(start.random_state), x), weight)


def _at_once(job: Any, *arguments: Any) -> Future:
    """Do a job when it is handed in."""
    done = Future()
    done.set_result(job(*arguments))
    return done
