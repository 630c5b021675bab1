"""One model from rows that lie in shards, each learnt where it lies: only posteriors travel.

Expectation propagation with one site a shard. A worker gets the cavity, all that the other shards
say, learns its rows from there, and returns the posterior; what that says beyond the cavity is its
new site (Vehtari et al. 2020, "Expectation propagation as a way of life", algorithm 1; Hasenclever
et al. 2017, "stochastic natural gradient EP and the posterior server"; as partitioned VI, Bui et
al. 2018). All shards of a round begin from the same posterior, and their sites are joined in the
order of the shards: results depend on the shards and the seed alone, not on who works when.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
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

    def part(self, rows: slice) -> Shard:
        """Return some of its rows."""
        return Shard(*(None if column is None else column[rows] for column in self))


def fit_shards(
    estimator: Any,
    shards: Sequence[Any],
    *,
    rounds: int = 5,
    damping: float = 1.0,
    executor: Any = None,
    start: Any = None,
) -> Any:
    """Fit to rows in shards; return a fitted copy.

    Linear regression on its inputs takes one round, and is what one `fit` to all rows is, to
    rounding. Others begin with some rows of every shard (`START_ROWS` in all, each counted once),
    and then learn in rounds; of pbp, `n_epochs` passes over its shard for each worker and round.

    Parameters
    ----------
    estimator : estimator
        Unfitted; linear, logistic or pbp. It is left as it is.
    shards : sequence of (X, y) or (X, y, sample_weight)
        Arrays; a shard may be empty, or hold one class.
    rounds : int
        Times that every shard is learnt.
    damping : float
        Share of the new site that replaces the old one, above 0 and at most 1.
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
    if not 0.0 < damping <= 1.0:
        raise ValueError(f"damping must be above 0 and at most 1, got {damping!r}")
    if not issubclass(getattr(estimator, "method_class", object), Merges):
        raise ValueError(
            "estimator must be linear, logistic or pbp, whose posteriors multiply, got "
            f"{type(estimator).__name__}"
        )
    parts = [Shard(*shard) for shard in shards]
    if not any(len(part.y) for part in parts):
        raise ValueError("shards must hold rows, got none")
    submit = _Serial().submit if executor is None else executor.submit
    if start is None and issubclass(estimator.method_class, ReExpressed):
        full = [part for part in parts if len(part.y)]
        jobs = [submit(_fitted_alone, estimator, part) for part in full]
        alone = [job.result() for job in jobs]
        if all(map(is_linear_in_inputs, alone)):
            return merge(alone)
    if start is None:
        start, parts = _started(estimator, parts)
    return _in_rounds(start, parts, submit, rounds, damping)


def _fitted_alone(estimator: Any, shard: Shard) -> Any:
    return copy.deepcopy(estimator).fit(shard.X, shard.y, shard.weight)


def _started(estimator: Any, shards: list[Shard]) -> tuple[Any, list[Shard]]:
    """Learn the first rows of every shard, and take them out."""
    n = -(-START_ROWS // len(shards))
    first = [shard.part(slice(n)) for shard in shards if len(shard.y)]
    X, y = (np.concatenate([np.asarray(one[k]) for one in first]) for k in (0, 1))
    given = [one.weight for one in first]
    weight = None if given[0] is None else np.concatenate([np.asarray(one) for one in given])
    labels = {}
    if hasattr(estimator, "predict_proba"):
        labels["classes"] = np.unique(np.concatenate([np.unique(one.y) for one in shards]))
    start = copy.deepcopy(estimator).partial_fit(X, y, sample_weight=weight, **labels)
    return start, [shard.part(slice(n, None)) for shard in shards]


def _in_rounds(
    start: Any, shards: list[Shard], submit: Any, rounds: int, damping: float
) -> Any:
    """Expectation propagation from a start, whose rows count once."""
    method, origin = start.fitted_.method, start.learned_
    seed = np.random.SeedSequence(_seed_of(start)).generate_state(1)[0]
    rows = {k: _encoded(start, one) for k, one in enumerate(shards) if len(one.y)}
    posterior, sites = origin, dict.fromkeys(rows, origin)
    guards: dict[str, int] = {}
    for turn in range(rounds):
        cavities = {
            k: method.combined([posterior, sites[k], origin], [1.0, -1.0, 1.0]) for k in rows
        }
        jobs = {k: submit(learnt, method, rows[k], cavities[k], (seed, turn, k)) for k in rows}
        for k, job in jobs.items():
            tilted = job.result()
            parts = [sites[k], origin, tilted, cavities[k]]
            sites[k] = method.combined(parts, [1.0 - damping, damping, damping, -damping])
            _count(guards, tilted, cavities[k], sites[k])
        parts = [posterior, origin, *sites.values()]
        posterior = method.combined(parts, [0.0, 1.0 - len(sites), *[1.0] * len(sites)])
        _count(guards, posterior)
    n_rows = origin.report.n_rows + sum(len(one.x) for one in rows.values())
    report = replace(posterior.report, guards=guards, n_rows=n_rows, n_epochs=rounds)
    return with_learned(start, Learned(posterior.state, report, rounds))


def learnt(method: Any, rows: TrainingRows, cavity: Learned, seed: tuple[int, ...]) -> Learned:
    """Learn a shard's rows from a cavity: what a worker does."""
    rng = np.random.RandomState(np.random.SeedSequence(seed).generate_state(4))
    learn = method.resume if isinstance(method, Resumes) else method.absorb
    return learn(rows, cavity, rng, Progress())


def _encoded(start: Any, shard: Shard) -> TrainingRows:
    """Return a shard's rows as the method sees them."""
    rows = start.checked_rows(shard.X, shard.y, shard.weight, reset=False)
    return fitting.training_rows(start, rows, check_random_state(start.random_state))[0]


def _count(guards: dict[str, int], *learned: Learned) -> None:
    for one in learned:
        for name, count in one.report.guards.items():
            guards[name] = guards.get(name, 0) + count


def _seed_of(estimator: Any) -> int:
    seed = estimator.random_state
    return seed if isinstance(seed, int) else 0


class _Done(NamedTuple):
    """What was computed at once."""

    value: Any

    def result(self) -> Any:
        """Return it."""
        return self.value


class _Serial:
    """Does each job when it is handed in."""

    def submit(self, job: Any, *arguments: Any) -> _Done:
        return _Done(job(*arguments))
