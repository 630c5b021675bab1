"""Gamma posteriors of the compiled engine: one moment-matched update, and the prior refresh."""

from __future__ import annotations

import math

from bayesprop.moments.kernel_lanes import compiled, inlined, polynomial
from bayesprop.moments.kernel_normal import exp2

LARGEST_CAVITY_VAR = 1e6
_LOG2_E = 1.0 / math.log(2.0)
_LARGEST_EXPONENT = 1000.0
_expm1_ratio = polynomial(tuple(1.0 / math.factorial(k + 1) for k in range(12)))


@inlined
def _exp(x):  # noqa: ANN001, ANN202
    return exp2(min(_LOG2_E * x, _LARGEST_EXPONENT))


@inlined
def _expm1(x):  # noqa: ANN001, ANN202
    """exp(x) - 1 for x >= 0."""
    return x * _expm1_ratio(x) if x < 0.25 else _exp(x) - 1.0


@inlined
def absorb_gamma(shape, rate, v, square):  # noqa: ANN001, ANN201
    """Match the mean and variance of a precision that has met N(r; 0, v + 1/precision), eq. 9-10.

    The 1 / precision of Z, Z1 and Z2 is rate / (shape - 1), rate / shape and rate / (shape + 1).
    Their differences are closed forms, and Z Z2 / Z1^2 - 1 comes from square roots and expm1, so
    that nothing cancels however large the shape: with Z = N(r; 0, v0) and so on,

        Z Z2 / Z1^2 = (1 + w)^(-1/2) exp(t)      w = v0 v2 / v1^2 - 1
    """
    k = rate / (shape * (shape * shape - 1.0))
    v1 = v + k * (shape * shape - 1.0)
    v0, v2 = v1 + k * (shape + 1.0), v1 - k * (shape - 1.0)
    inverse = 1.0 / (v0 * v1 * v2)
    w = k * (v + v1) * (v0 * v2 * inverse) * (v0 * v2 * inverse)
    root = math.sqrt(1.0 + w)
    by_width = -w / (1.0 + w + root)
    by_distance = _expm1(square * k * v * inverse)
    growth = by_width + by_distance + by_width * by_distance
    shrink = 1.0 / (1.0 + (shape + 1.0) * growth)
    closeness = math.sqrt(v1 / v0) * _exp(0.5 * square * k * (shape + 1.0) * v2 * inverse)
    return shape * shrink, rate * shrink * closeness


@inlined
def is_valid(shape, rate):  # noqa: ANN001, ANN201
    """Whether 1 / precision has a mean: finite, shape > 1, rate > 0."""
    return shape > 1.0 and rate > 0.0 and shape < math.inf and rate < math.inf


@compiled
def refresh(work, sites, reference):  # noqa: ANN001, ANN201
    """Refresh every prior factor in turn (supplement section 6); return how many were left.

    A Gaussian factor is its own approximation: the refreshed one is N(0, rate / (shape - 1)) of
    the cavity, exactly, whatever the weight's cavity is.
    """
    shape, rate = sites.prior[0], sites.prior[1]
    kept = 0
    for t in range(work.order.size):
        p = work.order[t]
        prec = 1.0 / work.v[p] - sites.prec[t]
        v = 1.0 / prec
        m = v * (work.m[p] / work.v[p] - sites.prec_mean[t])
        cavity_shape, cavity_rate = shape - sites.shape[t], rate - sites.rate[t]
        if not (
            v > 0.0 and cavity_rate > 0.0 and cavity_shape > 1.0 and v < LARGEST_CAVITY_VAR
        ):
            kept += 1
            continue
        new_shape, new_rate = absorb_gamma(cavity_shape, cavity_rate, v, m * m)
        site_var = cavity_rate / (cavity_shape - 1.0)
        share = site_var / (v + site_var)
        if not reference and not (
            is_valid(new_shape, new_rate) and math.isfinite(m * share) and v * share > 0.0
        ):
            kept += 1
            continue
        work.m[p], work.v[p] = m * share, v * share
        shape, rate = new_shape, new_rate
        sites.shape[t], sites.rate[t] = shape - cavity_shape, rate - cavity_rate
        sites.prec[t], sites.prec_mean[t] = 1.0 / site_var, 0.0
    sites.prior[0], sites.prior[1] = shape, rate
    return kept
