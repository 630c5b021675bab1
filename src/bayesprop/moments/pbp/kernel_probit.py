"""Targets that are classes, for the compiled engine: log Z of a probit and its gradient.

An output f ~ N(m, v) is seen through unit noise, u = f + e. Two classes have one output, and the
target t = 1 or -1 is the sign of u; more have one output each, and the target is the number of the
largest u (the multinomial probit, Girolami & Rogers 2006). With s² = 1 + v,

    log Z = log Phi(t m / s)
    log Z = log integral N(u; m_t, s_t²) prod_{j != t} Phi((u - m_j) / s_j) du

The integral is a sum over equal steps, which for a smooth integrand that dies out at both ends
converges faster than any power of the step. Everything is relative to a point near the mode, so
that improbable classes cost no accuracy.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from bayesprop.moments.pbp.kernel_layers import set_output_gradient
from bayesprop.moments.pbp.kernel_workspace import BLOCK
from bayesprop.simd.lanes import (
    absolute,
    compiled,
    everywhere,
    inlined,
    load8,
    select,
    spread8,
    store,
    total,
)
from bayesprop.simd.normals import LARGEST_ALPHA, exp, normal_pdf, tail_integrals

_REACH = 8.0
_STEP, _STEP_A_CLASS = 0.48, 0.05
_MOST_STEPS = 1024.0
_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
_PER_ROOT_2PI = 1.0 / math.sqrt(2.0 * math.pi)


def scratch_for(n_outputs: int) -> Float[np.ndarray, " s"]:
    """Return working memory for targets of so many outputs: lane numbers, then five parts."""
    scratch = np.zeros(BLOCK + (2 + 3 * BLOCK) * n_outputs)
    scratch[:BLOCK] = np.arange(BLOCK)
    return scratch


@inlined
def _far_mills(u):
    """(1 - Phi(u)) / phi(u) for u >= 26, by its continued fraction."""
    return 1.0 / (u + 1.0 / (u + 2.0 / (u + 3.0 / (u + 4.0 / u))))


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
    """Eight Phi(z) as exp(exponent) times factor, and phi(z) / Phi(z)."""
    u = absolute(z)
    near = u < LARGEST_ALPHA
    clamped = select(near, u, LARGEST_ALPHA)
    mills = tail_integrals(clamped).j0
    if not everywhere(near):
        mills = select(near, mills, _far_mills(u))
    pdf = normal_pdf(clamped)
    above = 1.0 - pdf * mills
    below = z < 0.0
    exponent = select(below, -0.5 * (z * z), spread8(0.0))
    factor = select(below, _PER_ROOT_2PI * mills, above)
    return exponent, factor, select(below, 1.0 / mills, pdf / above)


@inlined
def _near_mode(m, label, scratch):
    """Find a point near the largest value of the integrand, where its logarithm has slope 0.

    The slope is convex and falls: Newton's method from the left never overshoots.
    """
    inverse, at = scratch[BLOCK + label], m[label]
    for _ in range(100):
        slope = -(at - m[label]) * inverse * inverse
        curve = inverse * inverse
        for j in range(m.size):
            if j != label:
                per_std = scratch[BLOCK + j]
                z = (at - m[j]) * per_std
                _, ratio = log_cdf_and_ratio(z)
                slope += ratio * per_std
                curve += max(ratio * (ratio + z), 0.0) * per_std * per_std
        step = slope / curve
        at += step
        if not step * step * curve > 0.01:
            break
    return at


@inlined
def win(m, v, label, scratch, with_gradient):
    """Log Z of the multinomial probit, target `label`; leave the sums for its gradient in scratch.

    For every other output j, the means of phi/Phi and of z phi/Phi at z = (u - m_j) / s_j under the
    integrand, the second in the last part of the memory; for the target, the mean square of
    (u - m) / s in its place of the last part.
    """
    n = m.size
    references, sums, squares = BLOCK + n, BLOCK + 2 * n, BLOCK + 2 * n + BLOCK * n
    ratios = squares + BLOCK * n
    narrowest = math.inf
    for j in range(n):
        std = math.sqrt(1.0 + v[j])
        narrowest = min(narrowest, std)
        scratch[BLOCK + j] = 1.0 / std
    inverse, centre = scratch[BLOCK + label], m[label]
    at = _near_mode(m, label, scratch)
    offset = (at - centre) * inverse
    exponent = -0.5 * offset * offset
    log_at = exponent
    for j in range(n):
        if j != label:
            z = (at - m[j]) * scratch[BLOCK + j]
            log_cdf, _ = log_cdf_and_ratio(z)
            part = -0.5 * z * z if z < 0.0 else 0.0
            log_at += log_cdf
            exponent += part
            scratch[references + j] = math.exp(part - log_cdf)
    if with_gradient:
        for j in range(n):
            store(scratch, sums + BLOCK * j, spread8(0.0))
            store(scratch, squares + BLOCK * j, spread8(0.0))
    reach = _REACH / inverse
    step = max(narrowest * (_STEP - _STEP_A_CLASS * math.log(n)), 2.0 * reach / _MOST_STEPS)
    mass, square = spread8(0.0), spread8(0.0)
    start = at - reach
    lanes = load8(scratch, 0)
    for block in range(int(2.0 * reach / (BLOCK * step)) + 1):
        u = (start + (BLOCK * block) * step) + step * lanes
        from_centre = (u - centre) * inverse
        log_w = -0.5 * (from_centre * from_centre) - exponent
        w = spread8(1.0)
        for j in range(n):
            if j != label:
                z = (u - m[j]) * scratch[BLOCK + j]
                part, factor, ratio = _cdf_in_parts(z)
                log_w = log_w + part
                w = w * (factor * scratch[references + j])
                store(scratch, ratios + BLOCK * j, ratio)
        w = w * exp(log_w)
        mass = mass + w
        if with_gradient:
            square = square + w * (from_centre * from_centre)
            for j in range(n):
                if j != label:
                    z = (u - m[j]) * scratch[BLOCK + j]
                    pull = w * load8(scratch, ratios + BLOCK * j)
                    store(scratch, sums + BLOCK * j, load8(scratch, sums + BLOCK * j) + pull)
                    bent = load8(scratch, squares + BLOCK * j) + pull * z
                    store(scratch, squares + BLOCK * j, bent)
    area = total(mass)
    if with_gradient:
        for j in range(n):
            scratch[sums + j] = total(load8(scratch, sums + BLOCK * j)) / area
        for j in range(n):
            scratch[squares + j] = total(load8(scratch, squares + BLOCK * j)) / area
        scratch[squares + label] = total(square) / area
    return log_at + math.log(area * step * inverse) - _LOG_ROOT_2PI


@inlined
def _set_gradient(work, k, slope, curve, weight):
    """Hand the gradient by output k back to the layers, as the power `weight` of the factor asks.

    Returns the share of the output's variance that the factor removes, v times `curve`. That is
    (d log Z / dm)² - 2 d log Z / dv, between 0 and 1 / (1 + v). The Gaussian factor that moves
    N(m, v) by slope and curve, raised to a power w, multiplies both by w / (1 + (w - 1) v curve).
    """
    curve = min(max(curve, 0.0), 1.0 / (1.0 + work.f_v[k]))
    removed = work.f_v[k] * curve
    tempered = weight / (1.0 + (weight - 1.0) * removed)
    set_output_gradient(work, k, tempered * slope, tempered * curve)
    return removed


@inlined
def meet_class(work, scratch, y, row, weight):
    """Compare the outputs with a label: the gradients of log Z.

    Returns log Z times the weight, and the share of the outputs' variance that the label removes.
    """
    n = work.f_m.size
    if n == 1:
        per_std = 1.0 / math.sqrt(1.0 + work.f_v[0])
        z = y[row, 0] * work.f_m[0] * per_std
        log_z, ratio = log_cdf_and_ratio(z)
        curve = ratio * (ratio + z) * per_std * per_std
        share = _set_gradient(work, 0, y[row, 0] * ratio * per_std, curve, weight)
        return weight * log_z, share
    label = int(y[row, 0])
    log_z = win(work.f_m, work.f_v, label, scratch, True)
    sums, squares = BLOCK + 2 * n, BLOCK + (2 + BLOCK) * n
    by_label, share = 0.0, 0.0
    for j in range(n):
        if j != label:
            per_std = scratch[BLOCK + j]
            slope = -per_std * scratch[sums + j]
            by_label -= slope
            curve = slope * slope + per_std * per_std * scratch[squares + j]
            share += _set_gradient(work, j, slope, curve, weight)
    per_std = scratch[BLOCK + label]
    curve = by_label * by_label - per_std * per_std * (scratch[squares + label] - 1.0)
    share += _set_gradient(work, label, by_label, curve, weight)
    return weight * log_z, share / n


@compiled
def log_class_probabilities(m, v, scratch, out):
    """Write log Z of every class at every row of outputs (m, v)."""
    for row in range(m.shape[0]):
        if m.shape[1] == 1:
            z = m[row, 0] / math.sqrt(1.0 + v[row, 0])
            out[row, 0], _ = log_cdf_and_ratio(-z)
            out[row, 1], _ = log_cdf_and_ratio(z)
        else:
            for label in range(m.shape[1]):
                out[row, label] = win(m[row], v[row], label, scratch, False)


@compiled
def expected_entropies(m, v, nodes, scratch, out):
    """Write the entropy of the classes, averaged over outputs f = m + sqrt(v) nodes, nats.

    All classes of one f come from one sum over u: the density of the largest u_k at u is
    prod_j Phi(u - f_j) times sum_k phi/Phi(u - f_k).
    """
    n = m.shape[1]
    f, sums = BLOCK, BLOCK + 2 * n
    step = _STEP - _STEP_A_CLASS * math.log(n)
    lanes = load8(scratch, 0)
    for row in range(m.shape[0]):
        entropy = 0.0
        for r in range(nodes.shape[0]):
            top = -math.inf
            for j in range(n):
                scratch[f + j] = m[row, j] + math.sqrt(v[row, j]) * nodes[r, j]
                top = max(top, scratch[f + j])
                store(scratch, sums + BLOCK * j, spread8(0.0))
            for block in range(int(2.0 * _REACH / (BLOCK * step)) + 1):
                u = ((top - _REACH) + (BLOCK * block) * step) + step * lanes
                below = spread8(1.0)
                for j in range(n):
                    exponent, factor, ratio = _cdf_in_parts(u - scratch[f + j])
                    below = below * (factor * exp(exponent))
                    store(scratch, sums + BLOCK * (n + j), ratio)
                for j in range(n):
                    at = sums + BLOCK * j
                    ratio = load8(scratch, at + BLOCK * n)
                    store(scratch, at, load8(scratch, at) + below * ratio)
            for j in range(n):
                p = step * total(load8(scratch, sums + BLOCK * j))
                if p > 0.0:
                    entropy -= p * math.log(p)
        out[row] = entropy / nodes.shape[0]
