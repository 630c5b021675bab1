"""Several candidates at once, without measuring the same thing twice.

The best n candidates are often neighbours, and after the first the others have little left to
tell. "fantasy" chooses one at a time and goes on as if it had been measured; "k-means++" (Arthur &
Vassilvitskii 2007, as Ash et al. 2020 use it) draws candidates that are worth much and unlike each
other; "top" takes the n best. None chooses a row that equals one it has chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from sklearn.preprocessing import StandardScaler

from bayesprop.active_learning.acquisition import (
    CONFIDENCE_BOUND,
    EXPECTED_ENTROPY_REDUCTION,
    LOG_EXPECTED_IMPROVEMENT,
    PROBABILITY,
    RANDOM,
    THOMPSON,
    Acquisition,
    Score,
    expected_entropy_reduction,
)
from bayesprop.active_learning.doubt import Doubt, Functions, can_be_drawn, doubt_of, functions_of
from bayesprop.active_learning.goal import Belief, Goal, Seek, belief_of, score, to_beat
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.estimators.any_estimator import (
    CHUNK_ROWS,
    Estimator,
    Inputs,
    predictive_of,
    predictives_of,
    unwrapped,
)
from bayesprop.estimators.params import finite

if TYPE_CHECKING:
    from bayesprop.distributions.predictive import Predictive
    from bayesprop.estimators.shell import RegressorBase


_LEAST_LOG = -1e300  # added to a score, it is still a number
Allowed = Bool[np.ndarray, " n"] | Callable[[Inputs], ArrayLike] | None
Batch = Literal["auto", "fantasy", "k-means++", "top"]
BATCHES = ("fantasy", "k-means++", "top")
SHORTLIST, SHORTLIST_OF_DRAWS = 16_384, 4096
_TRIALS, _TINY = 16, 1e-150

Learn = Callable[[Inputs, np.ndarray], Estimator]
"""From rows and their values to a copy of the estimator that has learnt them too."""


def take(X: Inputs, rows: Int[np.ndarray, " m"]) -> Inputs:
    """Select rows by number."""
    return getattr(X, "iloc", X)[rows]


def checked_rows(name: str, X: Inputs | ArrayLike) -> Inputs:
    """Return a frame or an array of rows; ValueError where there are not two dimensions."""
    rows = cast(Inputs, X) if hasattr(X, "shape") else np.asarray(X, np.float64)
    if len(rows.shape) != 2:
        raise ValueError(
            f"{name} must be 2-d, one row a candidate, got shape {tuple(rows.shape)}: "
            "reshape(1, -1) makes one row of a single candidate"
        )
    return rows


def stacked(first: Inputs, second: Inputs) -> Inputs:
    """Put rows of one kind, arrays or frames, one after another."""
    if isinstance(first, np.ndarray):
        return np.concatenate([first, np.asarray(second)])
    import narwhals as nw

    return nw.concat([nw.from_native(first), nw.from_native(second)]).to_native()


def named(X: Float[np.ndarray, "n d"], columns: list[str] | None) -> Inputs:
    """Return rows as a frame with these columns, or as they are."""
    if columns is None:
        return X
    import polars as pl

    return pl.DataFrame(X, schema=columns)


def checked_costs(costs: ArrayLike | None, n: int) -> Float[np.ndarray, " n"]:
    """Return the cost of every candidate, 1 where none are given."""
    if costs is None:
        return np.ones(n)
    costs = finite("costs", costs, (n,))
    if costs.min() <= 0.0:
        raise ValueError(f"costs must be > 0, got {costs.min():g} at {np.argmin(costs)}")
    return costs


def checked_log_met(log_met: ArrayLike | None, n: int) -> Float[np.ndarray, " n"] | None:
    """Return log probabilities, minus infinity as a finite number; None where none are given."""
    if log_met is None:
        return None
    values = np.asarray(log_met, np.float64)
    if values.shape != (n,) or not (values <= 0.0).all():
        raise ValueError(f"log_met must hold ({n},) logarithms of probabilities, numbers <= 0")
    return np.maximum(values, _LEAST_LOG)


def checked_allowed(allowed: Allowed, X: Inputs) -> Bool[np.ndarray, " n"]:
    """Return whether each candidate may be chosen; a function gets all candidates at once."""
    if allowed is None:
        return np.ones(len(X), dtype=bool)
    mask = np.asarray(allowed(X) if callable(allowed) else allowed)
    if mask.shape != (len(X),) or mask.dtype != np.bool_:
        raise ValueError(
            f"allowed must say True or False of each candidate, ({len(X)},), got an array of "
            f"{mask.dtype} of shape {mask.shape}"
        )
    return mask


def equals(X: Inputs, place: int) -> Bool[np.ndarray, " n"]:
    """Return which candidates repeat another one, including its missing values."""
    rows = np.asarray(X)
    row = rows[place]
    return ((rows == row) | ((rows != rows) & (row != row))).all(axis=1)


def distinct(X: Inputs, order: Iterable[int]) -> Iterator[int]:
    """Go through candidates in an order, leaving out those that repeat an earlier one."""
    rows, seen = np.asarray(X), set()
    for place in order:
        # one value for all gaps: no NaN equals another
        key = tuple(None if value != value else value for value in rows[place].tolist())
        if key not in seen:
            seen.add(key)
            yield int(place)


class Chosen(NamedTuple):
    """Rows of the pool in the order of query, best first.

    indices
        Their numbers.
    scores
        Of each when it was chosen, in the unit of the acquisition, costs left out: with "fantasy"
        once those before it are measured.
    pool_scores
        Of every candidate on its own.
    """

    indices: Int[np.ndarray, " n"]
    scores: Float[np.ndarray, " n"]
    pool_scores: Float[np.ndarray, " N"]


@dataclass(frozen=True)
class Query:
    """All that a choice of rows depends on; `cost` and `allowed` are those of every row of X.

    reference
        Rows that "expected-entropy-reduction" wants to know about.
    seed
        Of random choices, draws and ties.
    learn
        Teaches a copy of the estimator rows that are imagined.
    goal
        What is sought, its value to beat known where the acquisition needs one; None: information.
    log_met
        Of every row of X the log probability that it meets what is required.
    pending
        Rows whose results are awaited: for a goal, others are chosen as if these were measured.
    """

    estimator: Estimator
    X: Inputs
    acquisition: Acquisition | Score
    cost: Float[np.ndarray, " n"]
    allowed: Bool[np.ndarray, " n"]
    reference: Inputs | None
    seed: int
    n_draws: int
    learn: Learn
    goal: Goal | None = None
    log_met: Float[np.ndarray, " n"] | None = None
    pending: Inputs | None = None

    @property
    def name(self) -> str:
        """Of the acquisition."""
        return getattr(self.acquisition, "name", "")

    @property
    def is_logarithm(self) -> bool:
        """Whether scores are logarithms, from which that of the cost is taken."""
        return self.name == LOG_EXPECTED_IMPROVEMENT

    def if_met(self, scores: np.ndarray, places: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return scores times the probability that a row meets what is required."""
        if self.log_met is None:
            return scores
        log_met = self.log_met[places]
        return scores + log_met if self.is_logarithm else scores * np.exp(log_met)

    def worth(self, scores: np.ndarray, places: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return scores per cost, times the probability that a row meets what is required."""
        scores, cost = self.if_met(scores, places), self.cost[places]
        return scores - np.log(cost) if self.is_logarithm else scores / cost

    def scores(self, estimator: Estimator, X: Inputs) -> Float[np.ndarray, " n"]:
        """Score rows on their own by what an estimator predicts of them."""
        if self.goal is None:
            return self.score(doubt_of(estimator, X))
        seek = cast(Seek, cast(Acquisition, self.acquisition).seek)
        parts = predictives_of(estimator, X)
        return np.concatenate([score(seek, cast("Predictive", part), self.goal) for part in parts])

    def score(self, doubt: Doubt) -> Float[np.ndarray, " n"]:
        """Score candidates by the doubt about them."""
        score = cast("Score", getattr(self.acquisition, "score", self.acquisition))
        return np.asarray(score(doubt), np.float64)


def scores_of(query: Query) -> Float[np.ndarray, " n"]:
    """Score every candidate on its own, in the unit of the acquisition."""
    if query.name == RANDOM:
        return np.random.default_rng(query.seed).random(len(query.X))
    if query.name == EXPECTED_ENTROPY_REDUCTION:
        n = len(query.X)
        parts = np.split(np.arange(n), range(CHUNK_ROWS, n, CHUNK_ROWS))
        return np.concatenate([expected_entropy_reduction(*_places(query, p)) for p in parts])
    if query.name == THOMPSON:
        return _draws(query, 1)[:, 0]
    return query.scores(query.estimator, query.X)


def choose(query: Query, scores: Float[np.ndarray, " n"], n: int, batch: str) -> Chosen:
    """Choose n candidates, given the score of each on its own.

    Raises ValueError where fewer different rows are allowed, a score is not a number, or the batch
    cannot be had from the estimator.
    """
    worth = _worth(query, scores)
    order = _order(query, worth)
    n_different = sum(1 for _ in islice(distinct(query.X, order), n))
    if n_different < n:
        raise ValueError(
            f"n must be at most {n_different}, the number of different rows allowed, got {n}: "
            "ask for fewer, or give or allow more candidates"
        )
    is_alone = n == 1 and query.pending is None
    if is_alone or batch == "top" or query.name == RANDOM:
        places = np.array(list(islice(distinct(query.X, order), n)))
        return Chosen(places, scores[places], scores)
    if batch == "k-means++":
        return _by_kmeans(query, scores, worth, order, n)
    if query.name == THOMPSON:
        return _by_thompson(query, scores, n)
    if query.goal is not None and can_be_drawn(query.estimator):
        return _by_draws(query, query.goal, scores, order, n)
    if can_be_drawn(query.estimator):
        return _by_conditioning(query, scores, order, n)
    return _by_learning(query, scores, n)


def _worth(query: Query, scores: np.ndarray) -> np.ndarray:
    """Score per cost; -inf where a candidate is not allowed."""
    if np.isnan(scores).any():
        row = int(np.argmax(np.isnan(scores)))
        raise ValueError(f"the score of row {row} is not a number; look at its values")
    has_costs = bool((query.cost != 1.0).any()) or query.log_met is not None
    if has_costs and query.name in (CONFIDENCE_BOUND, THOMPSON):
        raise ValueError(
            f"{query.name} has no score for each unit of cost: take {LOG_EXPECTED_IMPROVEMENT}, "
            "or leave costs out"
        )
    if has_costs and not query.is_logarithm and (scores < 0.0).any():
        raise ValueError(
            f"costs divide scores, which must not be negative then; got {scores.min():g}: take "
            "mutual-information, or leave costs out"
        )
    return np.where(query.allowed, query.worth(scores), -np.inf)


def _order(query: Query, worth: np.ndarray) -> np.ndarray:
    """Places of the allowed candidates, best first, equal ones in random order."""
    allowed = np.flatnonzero(query.allowed)
    shuffled = np.random.default_rng((query.seed, 1)).permutation(allowed)
    return shuffled[np.argsort(-worth[shuffled], kind="stable")]


def _places(query: Query, places: np.ndarray) -> tuple[Functions, Functions]:
    """Return the posterior at some candidates and, drawn together with it, at the reference."""
    rows, n = take(query.X, places), len(places)
    if query.reference is not None:
        rows = stacked(rows, query.reference)
    both = functions_of(query.estimator, rows, n_draws=query.n_draws, seed=query.seed)
    return both.some(slice(n)), both.some(slice(n, None))


def _shortlist(query: Query, order: np.ndarray, n: int, most: int = SHORTLIST) -> np.ndarray:
    """Places to choose among: all different ones, or the best half of so many and a random half.

    A random part of a large pool holds rows nearly as good as the best of each kind (stochastic
    greedy query, Mirzasoleiman et al. 2015).
    """
    half = max(most // 2, 8 * n)
    if len(order) <= 2 * half:
        return np.array(list(distinct(query.X, order)))
    rng = np.random.default_rng((query.seed, 2))
    others = half + np.sort(rng.choice(len(order) - half, half, replace=False))
    places = list(distinct(query.X, order[np.r_[:half, others]]))
    if len(places) < n:  # copies of a few rows fill it
        places = list(islice(distinct(query.X, order), n))
    return np.array(places)


def _by_conditioning(query: Query, scores: np.ndarray, order: np.ndarray, n: int) -> Chosen:
    """Choose greedily, conditioning the posterior after each query."""
    places = _shortlist(query, order, n)
    functions, reference = _places(query, places)
    doubt = doubt_of(query.estimator, take(query.X, places))
    cost, is_free = query.cost[places], np.ones(len(places), dtype=bool)
    picks, then = [], []
    for _ in range(n):
        if query.name == EXPECTED_ENTROPY_REDUCTION:
            score = expected_entropy_reduction(functions, reference)
        else:
            score = query.score(doubt.after(functions.epistemic_var) if picks else doubt)
        worth = np.where(is_free, score / cost, -np.inf)
        best = int(np.argmax(worth))  # places are in random order among equals
        picks.append(best)
        then.append(score[best])
        is_free[best] = False
        place = functions.some(np.array([best]))
        functions, reference = functions.seen_from(place), reference.seen_from(place)
    return Chosen(places[picks], np.array(then), scores)


def _by_learning(query: Query, scores: np.ndarray, n: int) -> Chosen:
    """Choose greedily, teaching a copy of the estimator its own prediction after each query."""
    estimator, free = query.estimator, query.allowed.copy()
    picks, then, values = [], [], []
    alone, pending = scores, query.pending
    if pending is not None:
        values = [_believed(estimator, pending)]
        estimator = query.learn(pending, values[0])
        scores = query.scores(estimator, query.X)
    while True:
        best = int(_order(query, np.where(free, query.worth(scores), -np.inf))[0])
        picks.append(best)
        then.append(float(scores[best]))
        if len(picks) == n:
            return Chosen(np.array(picks), np.array(then), alone)
        free &= ~equals(query.X, best)
        values.append(_believed(estimator, take(query.X, np.array([best]))))
        rows = take(query.X, np.array(picks))
        rows = rows if pending is None else stacked(pending, rows)
        estimator = query.learn(rows, np.concatenate(values))
        scores = query.scores(estimator, query.X)


def _believed(estimator: Estimator, X: Inputs) -> np.ndarray:
    """Return what an estimator expects of rows: their classes or means."""
    predicted = predictive_of(estimator, X)
    return predicted.label if isinstance(predicted, ClassPredictive) else predicted.mean


def _draws(query: Query, n: int) -> Float[np.ndarray, "m n"]:
    """Draw n functions jointly at all rows, y, the sign such that more is better."""
    model, inputs = unwrapped(query.estimator, query.X)
    drawn = cast("RegressorBase", model).sample_y(inputs, n, random_state=query.seed)
    return cast(Goal, query.goal).sign * np.asarray(drawn).reshape(len(query.X), n)


def _by_thompson(query: Query, scores: np.ndarray, n: int) -> Chosen:
    """Choose the best row of one joint draw after another, none twice (Thompson 1933)."""
    free, picks, then = query.allowed.copy(), [], []
    for drawn in _draws(query, n).T:
        best = int(_order(query, np.where(free, drawn, -np.inf))[0])
        picks.append(best)
        then.append(float(drawn[best]))
        free &= ~equals(query.X, best)
    return Chosen(np.array(picks), np.array(then), scores)


def _by_draws(query: Query, goal: Goal, scores: np.ndarray, order: np.ndarray, n: int) -> Chosen:
    """Choose greedily for a goal, over shared draws of the function at the rows chosen before.

    Pending rows come first, as if they had been chosen (Snoek, Larochelle & Adams 2012).

    The gain of a row is that over the best of these in each draw, its own value integrated in
    closed form given theirs (Wilson, Hutter & Deisenroth 2018; Rao-Blackwell): the function counts
    as Gaussian there. A confidence bound keeps its mean (Desautels et al. 2014).
    """
    seek = cast(Seek, cast(Acquisition, query.acquisition).seek)
    places = _shortlist(query, order, n, SHORTLIST_OF_DRAWS)
    X, rng, m = take(query.X, places), np.random.default_rng((query.seed, 3)), len(places)
    if query.pending is not None:
        X = stacked(X, query.pending)
    belief = belief_of(cast("Predictive", predictive_of(query.estimator, X)))
    mean, std = belief.moments
    features = functions_of(query.estimator, X, n_draws=query.n_draws, seed=query.seed).features
    length = np.maximum(np.linalg.norm(features[:, 0], axis=1), _TINY)
    features = features[:, 0] * (std / length)[:, None]  # of z, correlated as y is to first order
    first = best = to_beat(belief, goal)
    share = np.full((query.n_draws, 1), 1.0 / query.n_draws)
    drawn = np.broadcast_to(mean, (query.n_draws, len(mean)))
    waiting = [*range(m, len(X))]
    picks, then = ([], []) if waiting else ([0], [scores[places[0]]])
    waiting, is_free = waiting or [0], np.ones(m, dtype=bool)
    while len(picks) < n:
        last = waiting.pop(0)
        along = features[last] / max(float(np.linalg.norm(features[last])), _TINY)
        reach, normals = features @ along, rng.standard_normal(share.shape)
        drawn, features = drawn + normals * reach, features - reach[:, None] * along
        std = np.linalg.norm(features, axis=1)[None]
        best = goal.sign * np.maximum(goal.sign * best, goal.sign * drawn[:, [last]])
        if waiting:
            continue
        now = Belief(share, drawn, std, belief.map)
        if query.name == CONFIDENCE_BOUND:
            score = seek(Belief(np.ones((1, 1)), mean[None], std, belief.map), goal, first)
        elif query.name == PROBABILITY:  # that no row before has done it, and this one does
            score = seek(now._replace(share=share * (best == first)), goal, first)
        else:
            score = seek(now, goal, best)
        score = np.minimum(score[:m], scores[places])  # which of a mixture the Gaussian may exceed
        is_free[picks] = False
        waiting = [int(np.argmax(np.where(is_free, query.worth(score, places), -np.inf)))]
        picks += waiting
        then.append(score[picks[-1]])
    return Chosen(places[picks], np.array(then), scores)


def _by_kmeans(
    query: Query, scores: np.ndarray, worth: np.ndarray, order: np.ndarray, n: int
) -> Chosen:
    """Take the best candidate, then such as are far from those taken and from nothing.

    A candidate is a vector whose squared length is its worth. The angle between two is that of
    their posterior features, or of a Gaussian bump of one input standard deviation where the
    estimator has none. In proportion to the least squared distance some candidates are drawn, and
    the furthest of them is taken (the greedy form of Arthur & Vassilvitskii 2007).
    """
    places = _shortlist(query, order, n)
    worth = worth[places]
    if not np.isfinite(worth).all() or (worth < 0.0).any():
        raise ValueError(f"k-means++ needs finite scores >= 0, got {scores[places].min():g}")
    alike, rng = _likeness(query, places), np.random.default_rng(query.seed)
    distance, picks = worth.copy(), [0]  # places are the best first
    while len(picks) < n:
        last = picks[-1]
        shared = np.sqrt(worth * worth[last]) * alike(last)
        distance = np.minimum(distance, np.maximum(worth + worth[last] - 2.0 * shared, 0.0))
        distance[picks] = 0.0
        share = distance if distance.any() else np.ones(len(places))
        share[picks] = 0.0
        drawn = rng.choice(len(places), size=_TRIALS, p=share / share.sum())
        picks.append(int(drawn[np.argmax(share[drawn])]))
    return Chosen(places[picks], scores[places[picks]], scores)


def _likeness(query: Query, places: np.ndarray) -> Callable[[int], np.ndarray]:
    """Return what says how alike all places are to one of them, 0 to 1."""
    if can_be_drawn(query.estimator):
        features = _places(query, places)[0].features
        flat = features.reshape(len(places), -1)
        length = np.sqrt(np.einsum("nk,nk->n", flat, flat))
        unit = flat / np.where(length > 0.0, length, 1.0)[:, None]
        return lambda place: np.abs(unit @ unit[place])
    inputs = np.asarray(unwrapped(query.estimator, take(query.X, places))[1], np.float64)
    z = np.nan_to_num(StandardScaler().fit_transform(inputs))
    return lambda place: np.exp(-0.5 * np.square(z - z[place]).sum(axis=1) / z.shape[1])
