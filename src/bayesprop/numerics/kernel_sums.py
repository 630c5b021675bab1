"""Mixtures of Gaussians for compiled code.

Arrays are flat: the components of an element stand side by side, a multiple of eight of them, so
that loops need no remainder, and so many that `share` holds those of all elements. `precision` is
1 / std; shares that fill up are 0.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math

from bayesprop.numerics.compiled import called, compiled, inlined, summing_apart
from bayesprop.numerics.fast_math import LARGEST_ALPHA, exp, normal_pdf, tail_integrals

_N_NEWTON, _TOLERANCE = 60, 1e-9
_MOST = 2**40 - 1
_EIGHTS = _MOST - 7


@summing_apart
def _sums(share, m, precision, first, n, y):
    """Distribution and density at y of the n components from `first` on; NaN of what is none."""
    below, density, first = 0.0, 0.0, first & _MOST
    for k in range(first, first + (n & _EIGHTS)):
        of, scale = share[k], precision[k]
        z = (y - m[k]) * scale
        u = abs(z)
        u = LARGEST_ALPHA if u > LARGEST_ALPHA else u
        height = of * normal_pdf(u)
        far = height * tail_integrals(u).j0
        below += of - far if z > 0.0 else far
        density += height * scale
    return below, density


@called
def _quantile(share, m, precision, first, n, level, z):
    """Newton steps on the distribution between bounds that close in; halves where one leaves them.

    z
        The quantile of a standard normal.
    """
    low, high, y = math.inf, -math.inf, 0.0
    for k in range(first, first + n):
        if not share[k] <= 0.0:
            edge = m[k] + z / precision[k]
            low, high, y = min(low, edge), max(high, edge), y + share[k] * edge
    tolerance = _TOLERANCE * min(level, 1.0 - level)
    for _ in range(_N_NEWTON):
        below, density = _sums(share, m, precision, first, n, y)
        excess = below - level
        if not (high > low and abs(excess) > tolerance):
            break
        if excess < 0.0:
            low = y
        else:
            high = y
        y -= excess / density
        if not low < y < high:
            y = 0.5 * (low + high)
    return y


@compiled
def distribution(share, m, precision, y, out):
    """Write the probability of no more than y, (q, n), of n elements."""
    n = share.shape[0] // y.shape[1]
    for q in range(y.shape[0]):
        for i in range(y.shape[1]):
            out[q, i], _ = _sums(share, m, precision, i * n, n, y[q, i])


@compiled
def quantiles(share, m, precision, levels, z, out):
    """Write the quantiles of all levels, (q, n).

    z
        Those of a standard normal.
    """
    n = share.shape[0] // out.shape[1]
    for q in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[q, i] = _quantile(share, m, precision, i * n, n, levels[q], z[q])


@compiled
def spread(share, m, precision, levels, z, n_nodes, ends, out):
    """Write the integral of F (1 - F) over all y, half the mean distance of two draws, (n,).

    The trapezoidal rule between extreme quantiles, on a grid that follows sinh, as the tails are
    much longer than the middle is wide.

    levels, z
        The lowest, the quartiles and the highest, and those of a standard normal.
    ends
        Room for the five.
    """
    n = share.shape[0] // out.shape[0]
    for i in range(out.shape[0]):
        for q in range(5):
            ends[q] = _quantile(share, m, precision, i * n, n, levels[q], z[q])
        middle, unit = ends[2], ends[3] - ends[1]
        first, last = math.asinh((ends[0] - middle) / unit), math.asinh((ends[4] - middle) / unit)
        step, area = (last - first) / (n_nodes - 1), 0.0
        for node in range(n_nodes):
            t = first + step * node
            below, _ = _sums(share, m, precision, i * n, n, middle + unit * math.sinh(t))
            is_end = node in (0, n_nodes - 1)
            area += below * (1.0 - below) * math.cosh(t) * (0.5 if is_end else 1.0)
        out[i] = area * step * unit


@inlined
def _heights(z, shape):
    """Density of a log Gamma of rate `shape` over that of 0, the highest."""
    return exp(shape * (1.0 + z - exp(z)))


@compiled
def scale_shares(at, l_v, shape, z_m, z_std, place, width, inner, inner_weight, heights, out):
    """Write the density of z - l, l ~ N(0, l_v), at nodes, (e, 16), up to a factor for each e.

    exp(z) ~ Gamma(shape, rate shape), of mean z_m and standard deviation z_std. Both sums over the
    narrower of the two: l by the inner nodes, z by those at `place`.

    heights
        Room for a number of every place.
    """
    for e in range(at.shape[0]):
        std, per_var = math.sqrt(l_v[e]), -0.5 / l_v[e]
        is_narrow = std < z_std[e]
        for k in range(0 if is_narrow else place.shape[0]):
            heights[k] = _heights(z_m[e] + z_std[e] * place[k], shape[e]) * width[k]
        for j in range(at.shape[1]):
            total = 0.0
            if is_narrow:
                for k in range(inner.shape[0]):
                    total += inner_weight[k] * _heights(at[e, j] + std * inner[k], shape[e])
            else:
                for k in range(place.shape[0]):
                    far = at[e, j] - z_m[e] - z_std[e] * place[k]
                    total += exp(far * far * per_var) * heights[k]
            out[e, j] = total * width[j]
