"""Targets that are classes, for the compiled engine: log Z of a probit and its gradient.

An output f ~ N(m, v) is seen through unit noise, u = f + e. Two classes have one output, and the
target t = 1 or -1 is the sign of u; so has each of several labels of a row. More classes have one
output each, and the target is the number of the largest u (the multinomial probit, Girolami &
Rogers 2006). With s² = 1 + v,

    log Z = sum over labels of log Phi(t m / s)
    log Z = log integral N(u; m_t, s_t²) prod_{j != t} Phi((u - m_j) / s_j) du

The integral is a sum over equal steps, which for a smooth integrand that dies out at both ends
converges faster than any power of the step. Everything is relative to a point near the mode, so
that improbable classes cost no accuracy.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from bayesprop.moments.pbp.loops import F_M, F_V, set_output_gradient
from bayesprop.numerics.compiled import called, compiled, inlined, summing
from bayesprop.numerics.fast_math import LARGEST_ALPHA, exp, normal_pdf, tail_integrals

_REACH = 8.0
_STEP, _STEP_A_CLASS = 0.48, 0.05
_MOST_STEPS = 1024.0
_SPARE = 8
_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
_PER_ROOT_2PI = 1.0 / math.sqrt(2.0 * math.pi)


_POINTS = 64  # of the sum that are computed at a time
_INVERSE, _REFERENCE, _RATIO, _BENT = range(4)
"""Rows of `sums`: 1 / s_j; what makes the integrand 1 at its mode; the means of phi/Phi and of
z phi/Phi at z = (u - m_j) / s_j under the integrand, for the target that of (u - m)² / s²."""


def room_for(n_outputs: int) -> tuple[Float[np.ndarray, "4 o"], Float[np.ndarray, " p"]]:
    """Return memory for targets of so many outputs: `sums`, and numbers at points."""
    return np.empty((4, n_outputs)), np.empty((2 + n_outputs) * _POINTS)


@inlined
def _far_mills(u):
    """(1 - Phi(u)) / phi(u) for u >= 26, by its continued fraction."""
    s = 1.0 / (u * u)
    return (1.0 + s * (9.0 + 8.0 * s)) / (u * (1.0 + s * (10.0 + 15.0 * s)))


@inlined
def log_cdf_and_ratio(z):
    """Log Phi(z) and phi(z) / Phi(z) of one number, to full relative accuracy."""
    u = abs(z)
    mills = tail_integrals(u).j0 if u < LARGEST_ALPHA else _far_mills(u)
    if z < 0.0:
        return math.log(mills) - _LOG_ROOT_2PI - 0.5 * z * z, 1.0 / mills
    pdf = normal_pdf(min(u, LARGEST_ALPHA))
    return math.log1p(-pdf * mills), pdf / (1.0 - pdf * mills)


@inlined
def _cdf_in_parts(z):
    """Phi(z) as exp(exponent) times factor, and phi(z) / Phi(z), without branches."""
    u = abs(z)
    near = u < LARGEST_ALPHA
    clamped = u if near else LARGEST_ALPHA
    mills, far = tail_integrals(clamped).j0, _far_mills(u)
    mills = mills if near else far
    pdf = normal_pdf(clamped)
    above = 1.0 - pdf * mills
    is_below = z < 0.0
    square, below = -0.5 * (z * z), _PER_ROOT_2PI * mills
    by_mills, by_cdf = 1.0 / mills, pdf / above
    exponent, factor = square if is_below else 0.0, below if is_below else above
    return exponent, factor, by_mills if is_below else by_cdf


@called
def _near_mode(m, label, sums):
    """Find a point near the largest value of the integrand, where its logarithm has slope 0.

    The slope is convex and falls: Newton's method from the left never overshoots.
    """
    inverse, at = sums[_INVERSE, label], m[label]
    for _ in range(100):
        slope = -(at - m[label]) * inverse * inverse
        curve = inverse * inverse
        for j in range(m.size):
            if j != label:
                per_std = sums[_INVERSE, j]
                z = (at - m[j]) * per_std
                _, ratio = log_cdf_and_ratio(z)
                slope += ratio * per_std
                curve += max(ratio * (ratio + z), 0.0) * per_std * per_std
        step = slope / curve
        at += step
        if not step * step * curve > 0.01:
            break
    return at


@called
def _set_points(points, n, start, step, m, inverse):
    """Write the exponent at n points of N(u; m, 1 / inverse²), and a factor of 1."""
    for p in range(n):
        from_centre = ((start + p * step) - m) * inverse
        points[p], points[p + _POINTS] = -0.5 * (from_centre * from_centre), 1.0


@called
def _times_cdf(points, n, start, step, m, inverse, reference, j):
    """Multiply what is at the points by a reference times Phi; keep phi/Phi of output j."""
    ratios = (2 + j) * _POINTS
    for p in range(n):
        part, factor, ratio = _cdf_in_parts(((start + p * step) - m) * inverse)
        points[p] += part
        points[p + _POINTS] *= factor * reference
        points[p + ratios] = ratio


@summing
def _mass(points, n, exponent):
    """Write the integrand at the points, relative to that at its mode; return its sum."""
    mass = 0.0
    for p in range(n):
        points[p + _POINTS] *= exp(points[p] - exponent)
        mass += points[p + _POINTS]
    return mass


@summing
def _pulls(points, n, start, step, m, inverse, j):
    """Sum phi/Phi and z phi/Phi of output j over the points, or, for a negative j, z²."""
    first, second = 0.0, 0.0
    ratios = (2 + j) * _POINTS
    for p in range(n):
        z = ((start + p * step) - m) * inverse
        pull = points[p + _POINTS] * (z if j < 0 else points[p + ratios])
        first += pull
        second += pull * z
    return first, second


@called
def _win(m, v, label, sums, points, with_gradient):
    """Log Z of the multinomial probit, target `label`; leave in `sums` what its gradient needs."""
    n_outputs = m.size
    narrowest = math.inf
    for j in range(n_outputs):
        std = math.sqrt(1.0 + v[j])
        narrowest = min(narrowest, std)
        sums[_INVERSE, j], sums[_RATIO, j], sums[_BENT, j] = 1.0 / std, 0.0, 0.0
    inverse = sums[_INVERSE, label]
    at = _near_mode(m, label, sums)
    offset = (at - m[label]) * inverse
    exponent = -0.5 * offset * offset
    log_at = exponent
    for j in range(n_outputs):
        if j != label:
            z = (at - m[j]) * sums[_INVERSE, j]
            log_cdf, _ = log_cdf_and_ratio(z)
            part = -0.5 * z * z if z < 0.0 else 0.0
            log_at += log_cdf
            exponent += part
            sums[_REFERENCE, j] = math.exp(part - log_cdf)
    reach = _REACH / inverse
    step = max(narrowest * (_STEP - _STEP_A_CLASS * math.log(n_outputs)), 2.0 * reach / _MOST_STEPS)
    n_points, mass = int(2.0 * reach / step) + _SPARE, 0.0
    for first in range(0, n_points, _POINTS):
        n, start = min(_POINTS, n_points - first), (at - reach) + first * step
        _set_points(points, n, start, step, m[label], inverse)
        for j in range(n_outputs):
            if j != label:
                per_std, reference = sums[_INVERSE, j], sums[_REFERENCE, j]
                _times_cdf(points, n, start, step, m[j], per_std, reference, j)
        mass += _mass(points, n, exponent)
        if with_gradient:
            for j in range(n_outputs):
                which = -1 if j == label else j
                got = _pulls(points, n, start, step, m[j], sums[_INVERSE, j], which)
                sums[_RATIO, j] += got[0]
                sums[_BENT, j] += got[1]
    for j in range(n_outputs):
        sums[_RATIO, j] /= mass
        sums[_BENT, j] /= mass
    return log_at + math.log(mass * step * inverse) - _LOG_ROOT_2PI


@inlined
def _set_gradient(outputs, k, slope, curve, weight):
    """Hand the gradient by output k back to the layers, as the power `weight` of the factor asks.

    Returns the share of the output's variance that the factor removes, v times `curve`. That is
    (d log Z / dm)² - 2 d log Z / dv, between 0 and 1 / (1 + v). The Gaussian factor that moves
    N(m, v) by slope and curve, raised to a power w, multiplies both by w / (1 + (w - 1) v curve).
    """
    f_v = outputs[F_V, k]
    curve = min(max(curve, 0.0), 1.0 / (1.0 + f_v))
    removed = f_v * curve
    tempered = weight / (1.0 + (weight - 1.0) * removed)
    set_output_gradient(outputs, k, tempered * slope, tempered * curve)
    return removed


@called
def meet_class(outputs, sums, points, y, row, weight):
    """Compare the outputs with a sign each, or the number of the largest: the gradients of log Z.

    Returns log Z times the weight, and the share of the outputs' variance that the row removes.
    """
    n = outputs.shape[1]
    log_z, share = 0.0, 0.0
    if y.shape[1] == n:
        for k in range(n):
            per_std = 1.0 / math.sqrt(1.0 + outputs[F_V, k])
            z = y[row, k] * outputs[F_M, k] * per_std
            log_p, ratio = log_cdf_and_ratio(z)
            curve = ratio * (ratio + z) * per_std * per_std
            log_z += log_p
            share += _set_gradient(outputs, k, y[row, k] * ratio * per_std, curve, weight)
        return weight * log_z, share / n
    label = int(y[row, 0])
    log_z = _win(outputs[F_M], outputs[F_V], label, sums, points, True)
    by_label = 0.0
    for j in range(n):
        if j != label:
            per_std = sums[_INVERSE, j]
            slope = -per_std * sums[_RATIO, j]
            by_label -= slope
            curve = slope * slope + per_std * per_std * sums[_BENT, j]
            share += _set_gradient(outputs, j, slope, curve, weight)
    per_std = sums[_INVERSE, label]
    curve = by_label * by_label - per_std * per_std * (sums[_BENT, label] - 1.0)
    share += _set_gradient(outputs, label, by_label, curve, weight)
    return weight * log_z, share / n


@compiled
def log_class_probabilities(m, v, sums, points, out):
    """Write log Z of every class at every row of outputs (m, v)."""
    for row in range(m.shape[0]):
        if m.shape[1] == 1:
            z = m[row, 0] / math.sqrt(1.0 + v[row, 0])
            out[row, 0], _ = log_cdf_and_ratio(-z)
            out[row, 1], _ = log_cdf_and_ratio(z)
        else:
            for label in range(m.shape[1]):
                out[row, label] = _win(m[row], v[row], label, sums, points, False)


@compiled
def expected_entropies(m, v, nodes, sums, points, out):
    """Write the entropy of the classes, averaged over outputs f = m + sqrt(v) nodes, nats.

    All classes of one f come from one sum over u: the density of the largest u_k at u is
    prod_j Phi(u - f_j) times sum_k phi/Phi(u - f_k).
    """
    n_outputs = m.shape[1]
    step = _STEP - _STEP_A_CLASS * math.log(n_outputs)
    n_points = int(2.0 * _REACH / step) + _SPARE
    for row in range(m.shape[0]):
        entropy = 0.0
        for r in range(nodes.shape[0]):
            top = -math.inf
            for j in range(n_outputs):
                sums[_REFERENCE, j] = m[row, j] + math.sqrt(v[row, j]) * nodes[r, j]
                sums[_RATIO, j] = 0.0
                top = max(top, sums[_REFERENCE, j])
            for first in range(0, n_points, _POINTS):
                n, start = min(_POINTS, n_points - first), (top - _REACH) + first * step
                _set_points(points, n, start, step, 0.0, 0.0)
                for j in range(n_outputs):
                    _times_cdf(points, n, start, step, sums[_REFERENCE, j], 1.0, 1.0, j)
                _mass(points, n, 0.0)
                for j in range(n_outputs):
                    got = _pulls(points, n, start, step, sums[_REFERENCE, j], 1.0, j)
                    sums[_RATIO, j] += got[0]
            for j in range(n_outputs):
                p = step * sums[_RATIO, j]
                if p > 0.0:
                    entropy -= p * math.log(p)
        out[row] = entropy / nodes.shape[0]
