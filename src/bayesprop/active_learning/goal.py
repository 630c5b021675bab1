"""What a measurement is worth where the largest or smallest value of the function is sought.

Jones, Schonlau & Welch (1998), expected improvement; Ament et al. (2023), "Unexpected improvements
to expected improvement for Bayesian optimization", its logarithm; Srinivas et al. (2010), the
confidence bound. An improvement is one of the function: noise is left out, both of what would be
measured and of the best so far, the largest mean that the model predicts at measured rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.distributions.pooled import PooledPredictive
from bayesprop.distributions.predictive import Predictive
from bayesprop.distributions.transformed import TransformedPredictive
from bayesprop.estimators.any_estimator import Estimator, Inputs, predictives_of
from bayesprop.numerics import LOG_2PI
from bayesprop.targets.bijectors import AS_THEY_ARE, TargetMap

Direction = Literal["max", "min"]
DIRECTIONS = get_args(Direction)
BOUND_STDS = 2.0
"""Standard deviations between the mean and the confidence bound."""
_LEAST_STD = 1e-150
_SERIES_FROM = -100.0  # below, log_h is its asymptotic series: the next term is 1e-13
_LOG_ROOT_HALF_PI = 0.5 * np.log(0.5 * np.pi)
_nodes, _weights = np.polynomial.legendre.leggauss(32)
_V = 0.5 * (_nodes + 1.0)
# Cubed, so that the nodes are dense where little probability lies far out.
_LOG_TAIL, _TAIL_WEIGHTS = 3.0 * np.log(_V), 1.5 * _V**2 * _weights


class Goal(NamedTuple):
    """What is sought: the largest ("max") or smallest ("min") value of the function.

    best
        Value to beat, y. None: the best mean at the rows that were measured.
    """

    direction: Direction = "max"
    best: float | None = None

    @property
    def sign(self) -> float:
        """1 where more is better, -1 where less is."""
        return 1.0 if self.direction == "max" else -1.0

    def check(self) -> None:
        """Raise ValueError unless the direction is one of two, and the value to beat a number."""
        if self.direction not in DIRECTIONS:
            raise ValueError(f"a goal must be one of max, min; got {self.direction!r}")
        if self.best is not None and not np.isfinite(self.best):
            raise ValueError(f"the value to beat must be a finite number, got {self.best!r}")


class Belief(NamedTuple):
    """A mixture of k Gaussians of z at n places, where the function is map.inverse(z), in y.

    share, mean, std
        In 1, z and z; share sums to 1 over its first axis, which may be 1 for draws.
    """

    share: Float[np.ndarray, "k n"]
    mean: Float[np.ndarray, "k n"]
    std: Float[np.ndarray, "k n"]
    map: TargetMap

    @property
    def moments(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean and standard deviation of the mixture, z."""
        mean = np.sum(self.share * self.mean, axis=0)
        var = np.sum(self.share * (self.std**2 + (self.mean - mean) ** 2), axis=0)
        return mean, np.sqrt(var)


Seek = Callable[[Belief, Goal, np.ndarray], Float[np.ndarray, " n"]]
"""A score of every place, higher is better, from the belief and the values to beat, z."""


def belief_of(predictive: Predictive) -> Belief:
    """Return the belief about the function: Gaussian, or of a mixture its components.

    Mean and variance are those that the predictive calls epistemic.
    """
    if np.ndim(predictive.mean) != 1:
        raise ValueError("a goal needs an estimator of one target; fit one model for each")
    if isinstance(predictive, TransformedPredictive):
        return belief_of(predictive.latent)._replace(map=predictive.map)
    mean, var = predictive.mean[None], predictive.epistemic_var[None]
    if not isinstance(predictive, MixturePredictive):
        return Belief(np.ones_like(mean), mean, np.sqrt(var), AS_THEY_ARE)
    share, means, variances = _components(predictive)
    centre = np.sum(share * means, axis=0)
    total = np.sum(share * (variances + (means - centre) ** 2), axis=0)
    # Draws are points: shrunk and widened, they keep their variance (West 1993).
    width = 0.0 if variances.any() else (1.06 * len(means) ** -0.2) ** 2
    kept = np.minimum((1.0 - width) * var / np.maximum(total, _LEAST_STD**2), 1.0)
    means = mean + np.sqrt(kept) * (means - centre)
    variances = kept * variances + np.maximum(var - kept * total, 0.0)
    return Belief(share, means, np.sqrt(variances), AS_THEY_ARE)


def _components(p: MixturePredictive) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares, means and variances of the function in the members of a mixture.

    Of networks, near rows are one member, and the last Gaussian, the broad one, is none.
    """
    if not len(p.dof):
        return p.share, p.means, np.zeros_like(p.means)
    near = np.sum(p.share[:-1], axis=0)
    near_mean = np.sum(p.share[:-1] * p.means[:-1], axis=0) / np.where(near > 0.0, near, 1.0)
    share = np.concatenate([p.t_share, near[None]])
    variances = np.concatenate([p.f_var, np.zeros_like(near)[None]])
    return share / share.sum(axis=0), np.concatenate([p.f_mean, near_mean[None]]), variances


def log_expected_improvement(
    belief: Belief, goal: Goal, best: np.ndarray
) -> Float[np.ndarray, " n"]:
    """Logarithm of E max(f - best, 0), of the smallest E max(best - f, 0), log y.

    log(std h(t)) with h(t) = density(t) + t distribution(t), t = (mean - best) / std, exact far in
    the tail (Ament et al. 2023, eq. 9). Where the function is mapped, by quadrature over the tail.
    """
    std = np.maximum(belief.std, _LEAST_STD)
    t = goal.sign * (belief.mean - best) / std
    if belief.map is AS_THEY_ARE:
        each = np.log(std) + log_h(t)
    else:
        log_beyond, best_y = special.log_ndtr(t), belief.map.inverse(best)
        mean_gain = np.zeros(np.shape(t))
        for log_tail, weight in zip(_LOG_TAIL, _TAIL_WEIGHTS, strict=True):
            x = -special.ndtri_exp(log_tail + log_beyond)
            y = belief.map.inverse(belief.mean + goal.sign * std * x)
            mean_gain += weight * np.maximum(goal.sign * (y - best_y), 0.0)
        with np.errstate(divide="ignore"):
            each = log_beyond + np.log(mean_gain)
    with np.errstate(divide="ignore"):  # all may be impossible
        return np.asarray(special.logsumexp(each, axis=0, b=belief.share))


def log_h(t: np.ndarray) -> np.ndarray:
    """Logarithm of density(t) + t distribution(t) of a standard normal, without cancellation."""
    high, low = np.maximum(t, -1.0), np.clip(t, _SERIES_FROM, -1.0)
    far = np.minimum(t, _SERIES_FROM)
    direct = np.log(np.exp(-0.5 * (LOG_2PI + high * high)) + high * special.ndtr(high))
    root = special.erfcx(-low / np.sqrt(2.0)) * -low
    scaled = np.log(-np.expm1(np.log(root) + _LOG_ROOT_HALF_PI))
    with np.errstate(over="ignore"):
        square = far * far
    inverse = 1.0 / square
    series = np.log1p(-inverse * (3.0 - inverse * (15.0 - 105.0 * inverse))) - 2.0 * np.log(-far)
    body = np.where(t > _SERIES_FROM, scaled, series)
    with np.errstate(over="ignore"):
        return np.where(t > -1.0, direct, body - 0.5 * (LOG_2PI + t * t))


def log_probability(belief: Belief, goal: Goal, best: np.ndarray) -> Float[np.ndarray, " n"]:
    """Logarithm of the probability that the function is above a value, of the smallest below.

    Exact far in the tail.
    """
    t = goal.sign * (belief.mean - best) / np.maximum(belief.std, _LEAST_STD)
    with np.errstate(divide="ignore"):  # all may be impossible
        log_p = np.asarray(special.logsumexp(special.log_ndtr(t), axis=0, b=belief.share))
    return np.minimum(log_p, 0.0)  # shares add up to 1 but for rounding


def probability_of_improvement(
    belief: Belief, goal: Goal, best: np.ndarray
) -> Float[np.ndarray, " n"]:
    """Probability that the function is above the value to beat, of the smallest below; 0 to 1."""
    return np.exp(log_probability(belief, goal, best))


def confidence_bound(belief: Belief, goal: Goal, best: np.ndarray) -> Float[np.ndarray, " n"]:  # noqa: ARG001
    """Mean plus BOUND_STDS standard deviations of the function, y; of the smallest -(mean - ...).

    Srinivas et al. (2010), eq. 6, with a constant width.
    """
    mean, std = belief.moments
    return goal.sign * belief.map.inverse(mean + goal.sign * BOUND_STDS * std)


def score(seek: Seek, predictive: Predictive, goal: Goal) -> Float[np.ndarray, " n"]:
    """Score every row of a prediction for a goal whose value to beat is known, if it needs one."""
    if isinstance(predictive, PooledPredictive):
        return np.concatenate([score(seek, part, goal) for part in predictive.parts])[predictive.at]
    belief = belief_of(predictive)
    return seek(belief, goal, to_beat(belief, goal))


def to_beat(belief: Belief, goal: Goal) -> np.ndarray:
    """Return the value to beat in z."""
    return belief.map.forward(np.asarray(0.0 if goal.best is None else goal.best))


def centre(predictive: Predictive) -> Float[np.ndarray, " n"]:
    """Mean of the function, y; where it is mapped, the value at the mean of z."""
    if isinstance(predictive, PooledPredictive):
        return np.concatenate([centre(part) for part in predictive.parts])[predictive.at]
    belief = belief_of(predictive)
    return belief.map.inverse(belief.moments[0])


def centres(estimator: Estimator, X: Inputs) -> Float[np.ndarray, " n"]:
    """Mean of the function at rows, y, as the estimator knows it."""
    values = [centre(part) for part in predictives_of(estimator, X) if isinstance(part, Predictive)]
    return np.concatenate(values)


def best_of(estimator: Estimator, X: Inputs, goal: Goal) -> float:
    """Best value of the function at measured rows, y, as the estimator knows it."""
    return float(goal.sign * np.max(goal.sign * centres(estimator, X)))
