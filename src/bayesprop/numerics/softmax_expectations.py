"""Expectations of the softmax of independent Gaussians a ~ N(m, v): log, probabilities, entropy.

The quadrature rests on one identity: log sum_k exp(a_k) is the mean, less Euler's constant, of
max_k (a_k + G_k) with standard Gumbel variables G_k, and softmax_k(a) the probability that k
attains that maximum (Gumbel & Lieblein 1954). The a_k being independent, the maximum has the
distribution function prod_k F_k(t), F_k(t) = P(a_k + G_k <= t): one integral over t remains,
whatever the number of classes and the variances.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc
from jaxtyping import Array, Float, Int

from bayesprop.numerics.graphs import (
    ClassNodes,
    Node,
    applied,
    bell,
    larger,
    smaller,
    taken,
    where_less,
)

_N_LEVELS, _SHARP_STEP = 32, 0.8  # of t
_N_NODES = 8
_WIDE = 1.12  # from this std on the Gaussian is the smoother of a and G, and G gets the nodes
_REACH = 5.0  # standard deviations to either side of a mean
_GUMBEL_LOWER, _GUMBEL_UPPER = 2.8, 12.0
_LEAST = 1e-30
_SQRT_2PI, _SQRT_HALF = 2.5066282746310002, 0.7071067811865476


class SoftmaxMoments(NamedTuple):
    """Expectations over a ~ N(m, v), one row.

    log_sum_exp
        E[log sum_k exp(a_k)], nats.
    proba
        E[softmax_k(a)].
    slope
        E[softmax_k (1 - softmax_k)], which is the derivative of `proba` k by m_k.
    """

    log_sum_exp: Float[Array, ""]
    proba: Float[Array, " c"]
    slope: Float[Array, " c"]


class _Levels(NamedTuple):
    """Values of t, the width each stands for, and half the growth of the width."""

    t: Float[Array, " t"]
    step: Float[Array, " t"]
    growth: Float[Array, ""]


class _Cdf(NamedTuple):
    """Distribution function of a_k + G_k, and its first two derivatives."""

    value: Array
    density: Array
    density_slope: Array


def taylor(m: Float[Array, " c"], v: Float[Array, " c"], y: Int[Array, ""]) -> Float[Array, ""]:
    """E[log softmax_y(a)] to second order around m (Roth & Pernkopf 2016, eq. 13).

    No bound, and beyond variances of about one far too low: at v = 20 by 3 nats for ten classes.
    """
    log_p = jax.nn.log_softmax(m)
    p = jnp.exp(log_p)
    return _at(log_p, y) - 0.5 * jnp.sum(v * p * (1.0 - p))


def exact(m: Float[Array, " c"], v: Float[Array, " c"], y: Int[Array, ""]) -> Float[Array, ""]:
    """E[log softmax_y(a)] by quadrature, within 5e-4 nats for variances from 0 to 400."""
    return _at(m, y) - log_sum_exp(m, v)


def _at(values: Float[Array, " c"], y: Int[Array, ""]) -> Float[Array, ""]:
    """values[y], by a sum: the gradient of an index is a scatter, slow on CPUs."""
    return jnp.sum(jnp.where(jnp.arange(values.shape[0]) == y, values, 0.0))


@jax.custom_jvp
def log_sum_exp(m: Float[Array, " c"], v: Float[Array, " c"]) -> Float[Array, ""]:
    """E[log sum_k exp(a_k)]; its derivatives are `proba` by m and half of `slope` by v."""
    levels = _levels(m, v)
    return _mean_of_maximum(levels, jnp.log(_cdf(levels.t, m, v).value).sum(axis=1))


@log_sum_exp.defjvp
def _log_sum_exp_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    expected = moments(*primals)
    dm, dv = tangents
    return expected.log_sum_exp, jnp.sum(expected.proba * dm) + 0.5 * jnp.sum(expected.slope * dv)


def moments(m: Float[Array, " c"], v: Float[Array, " c"]) -> SoftmaxMoments:
    """Integrate over t: 1 - F for the mean, f_k prod_{j != k} F_j for class k.

    The trapezoidal rule, which converges exponentially here: the characteristic function of the
    Gumbel distribution decays as exp(-pi omega / 2).
    """
    levels = _levels(m, v)
    cdf = _cdf(levels.t, m, v)
    log_cdf = jnp.log(cdf.value)
    log_joint = log_cdf.sum(axis=1)
    others = jnp.exp(log_joint[:, None] - log_cdf)
    return SoftmaxMoments(
        _mean_of_maximum(levels, log_joint),
        levels.step @ (cdf.density * others),
        -levels.step @ (cdf.density_slope * others),
    )


def expected_entropy(
    m: Float[Array, " c"], v: Float[Array, " c"], expected: SoftmaxMoments
) -> Float[Array, ""]:
    """E[entropy of softmax(a)], nats, from `moments`.

    E[lse(a)] - sum_k E[p_k a_k], and E[p_k a_k] = m_k E[p_k] + v_k E[p_k (1 - p_k)] by Stein's
    identity. The largest m is subtracted first: the probabilities add up to 1 only up to the error
    of the quadrature, which a large common part of m would multiply.
    """
    top = jnp.max(m)
    mean_chosen = jnp.sum((m - top) * expected.proba) + jnp.sum(v * expected.slope)
    return jnp.maximum(expected.log_sum_exp - top - mean_chosen, 0.0)


def graph(m: Node, v: Node, n_classes: int) -> ClassNodes:
    """Write `moments` and `expected_entropy` as a graph of ONNX; (n, c)."""
    std, last, i = applied("sqrt", v), _N_LEVELS - 1, np.arange(float(_N_LEVELS))
    low = (m - std * _REACH).max() - _GUMBEL_LOWER
    high = (m + std * _REACH).max() + (_GUMBEL_UPPER + np.log(n_classes))
    first_step = smaller((high - low) / last, _SHARP_STEP)
    growth = (high - low - first_step * last) / last**2
    at = (low + first_step * i + growth * i**2).reshape(-1, _N_LEVELS, 1)
    at = at - m.reshape(-1, 1, n_classes)
    value, density, slope = _cdf_graph(at, std.reshape(-1, 1, n_classes), n_classes)
    log_cdf = applied("log", larger(value, _LEAST))
    others = applied("exp", log_cdf.sum() - log_cdf)
    step = (first_step + growth * (2.0 * i)).reshape(-1, 1, _N_LEVELS)
    proba, slope = ((step @ (each * others)).reshape(-1, n_classes) for each in (density, -slope))
    joint = applied("exp", log_cdf.sum())
    at_end = (taken(step, last, 2) * 0.5 + growth / 6.0) * taken(joint, last, 1)
    mean = high - (step @ joint).reshape(-1, 1) + at_end - np.euler_gamma
    entropy = mean - m.max() - ((m - m.max()) * proba + v * slope).sum()
    return ClassNodes(larger(proba, 0.0), larger(entropy, 0.0))


def _cdf_graph(at: Node, std: Node, n_classes: int) -> list[Node]:
    """Write `_cdf` as a graph; (n, t, c)."""
    at = at.reshape(-1, _N_LEVELS, n_classes, 1)
    each_std = std.reshape(-1, 1, n_classes, 1)
    nodes, weights = _hermite()
    rate = applied("exp", smaller(smaller(each_std, _WIDE) * nodes - at, 60.0))
    low = applied("exp", -rate)
    narrow = [one @ weights for one in (low, rate * low, (rate - 1.0) * rate * low)]
    nodes, weights = _gumbel()
    wide_std = larger(each_std, _WIDE)
    z = (at - nodes) / wide_std
    own = bell(z)
    density = own.density / wide_std
    wide = [one @ weights for one in (own.lower, density, -(z * density / wide_std))]
    return [where_less(_WIDE, std, a, b) for a, b in zip(wide, narrow, strict=True)]


def _levels(m: Array, v: Array) -> _Levels:
    """Values of t that hold all but 1e-6 of the maximum's distribution, closest at the low end.

    A certain logit among uncertain ones leaves its sharp mark there: below it the maximum cannot
    lie. The spacing grows linearly, so that the levels are a quadratic function of their number.
    """
    std = jnp.sqrt(v)
    low = jnp.max(m - _REACH * std) - _GUMBEL_LOWER
    high = jnp.max(m + _REACH * std) + _GUMBEL_UPPER + np.log(m.shape[0])
    last = _N_LEVELS - 1
    first_step = jnp.minimum((high - low) / last, _SHARP_STEP)
    growth = (high - low - first_step * last) / last**2
    i = jnp.arange(_N_LEVELS, dtype=m.dtype)
    return _Levels(low + first_step * i + growth * i * i, first_step + 2.0 * growth * i, growth)


def _mean_of_maximum(levels: _Levels, log_joint: Array) -> Float[Array, ""]:
    joint = jnp.exp(log_joint)
    area = jnp.sum(joint * levels.step) - 0.5 * joint[-1] * levels.step[-1]
    # The integrand ends with a slope of its own, 2 growth: the first Euler-Maclaurin term.
    area = area - levels.growth / 6.0 * joint[-1]
    return levels.t[-1] - area - np.euler_gamma


def _cdf(levels: Float[Array, " t"], m: Float[Array, " c"], v: Float[Array, " c"]) -> _Cdf:
    """F_k at every level, and its derivatives; (t, c)."""
    at = levels[:, None] - m[None, :]
    std = jnp.sqrt(v)[None, :]
    is_wide = std > _WIDE
    narrow = _over_gaussian(at, jnp.minimum(std, _WIDE))
    wide = _over_gumbel(at, jnp.maximum(std, _WIDE))
    value, density, slope = (jnp.where(is_wide, a, b) for a, b in zip(wide, narrow, strict=True))
    return _Cdf(jnp.maximum(value, _LEAST), density, slope)


def _over_gaussian(at: Float[Array, "t c"], std: Float[Array, "1 c"]) -> _Cdf:
    """E over a of the Gumbel distribution function exp(-exp(-(t - a))); std up to _WIDE."""

    def term(node: Array, weight: Array) -> _Cdf:
        rate = jnp.exp(jnp.minimum(std * node - at, 60.0))
        value = weight * jnp.exp(-rate)
        return _Cdf(value, rate * value, (rate * rate - rate) * value)

    return _summed(term, _hermite(), at)


def _over_gumbel(at: Float[Array, "t c"], std: Float[Array, "1 c"]) -> _Cdf:
    """E over G of the Gaussian distribution function Phi((t - G - m) / std); std from _WIDE on."""

    def term(node: Array, weight: Array) -> _Cdf:
        z = (at - node) / std
        phi = weight * jnp.exp(-0.5 * z * z) / _SQRT_2PI
        return _Cdf(0.5 * weight * erfc(-z * _SQRT_HALF), phi, -z * phi)

    value, density, slope = _summed(term, _gumbel(), at)
    return _Cdf(value, density / std, slope / (std * std))


def _summed(
    term: Callable[[Array, Array], _Cdf], rule: Float[np.ndarray, "2 r"], at: Array
) -> _Cdf:
    """Sum over the nodes one at a time: a scan compiles in half the time of a written-out sum."""

    def add(total: _Cdf, node_and_weight: Array) -> tuple[_Cdf, None]:
        return jax.tree.map(jnp.add, total, term(*node_and_weight)), None

    zero = jnp.zeros_like(at)
    return jax.lax.scan(add, _Cdf(zero, zero, zero), jnp.asarray(rule.T, at.dtype))[0]


@lru_cache
def _hermite() -> Float[np.ndarray, "2 r"]:
    """Nodes and weights of Gauss quadrature for the standard Gaussian."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_N_NODES)
    return np.stack([nodes, weights / weights.sum()])


@lru_cache
def _gumbel() -> Float[np.ndarray, "2 r"]:
    """Nodes and weights of Gauss quadrature for the standard Gumbel (Stieltjes procedure)."""
    g = np.linspace(-4.0, 45.0, 20_001)
    mass = np.exp(-g - np.exp(-g))
    mass /= mass.sum()
    before, now = np.zeros_like(g), np.ones_like(g)
    diagonal, beside = np.zeros(_N_NODES), np.zeros(_N_NODES)
    for k in range(_N_NODES):
        diagonal[k] = np.sum(mass * g * now * now)
        ahead = (g - diagonal[k]) * now - (beside[k - 1] * before if k else 0.0)
        beside[k] = np.sqrt(np.sum(mass * ahead * ahead))
        before, now = now, ahead / beside[k]
    jacobi = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    nodes, vectors = np.linalg.eigh(jacobi)
    return np.stack([nodes, vectors[0] ** 2])
