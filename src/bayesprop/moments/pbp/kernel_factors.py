"""Factors of the compiled engine: Gamma posteriors, and the average factor of stochastic EP.

Stochastic EP (Li, Hernández-Lobato & Turner 2015, algorithm 1): q is the prior times one average
factor for every datum. A datum meets the cavity, which is q without one average factor, and what it
adds to the cavity moves the average by a share of 1/n. The workspace holds the cavity where assumed
density filtering has q.
"""

from __future__ import annotations

import math

from bayesprop.moments.pbp.kernel_workspace import (
    BLOCK,
    FROZEN_VAR,
    NEXT_REMOVED,
    PAIR,
    REMOVED,
    SHARE,
)
from bayesprop.simd.lanes import count_false, everywhere, inlined, load8, select, store
from bayesprop.simd.normals import exp2

_LOG2_E = 1.0 / math.log(2.0)
_LARGEST_EXPONENT = 1000.0
_SMALL = 1.0 / 64.0
_FROZEN = 10.0 * FROZEN_VAR
"""A weight of lower variance only fills a block; 1/v and back would not leave it as it is."""


@inlined
def _expm1(x):
    """exp(x) - 1 for x >= 0, the exponent clamped at 2^1000; nearly always x is small."""
    if x < _SMALL:
        square = x * x
        tail = (1.0 / 120.0 + x / 720.0) + square / 5040.0
        return x * ((1.0 + x / 2.0) + square * ((1.0 / 6.0 + x / 24.0) + square * tail))
    return exp2(min(_LOG2_E * x, _LARGEST_EXPONENT)) - 1.0


@inlined
def absorb_gamma(shape, rate, v, square):
    """Match the mean and variance of a precision that has met N(r; 0, v + 1/precision), eq. 9-10.

    The 1/precision of Z, Z1 and Z2 is rate / (shape - 1), rate / shape and rate / (shape + 1). With
    the variances v0, v1, v2 of the three, all multiplied by p = shape (shape^2 - 1),

        v0 v2 - v1^2 = gap = rate (p v + v1)
        Z Z2 / Z1^2 = v1 / sqrt(v0 v2) exp(t)        t = rate p^2 v r^2 / (v0 v1 v2)

    so that Z Z2 / Z1^2 - 1 needs no difference of nearly equal numbers, however large the shape.
    The order of the operations keeps the way from shape and rate to their new values short: the
    refresh of the next factor waits for them.
    """
    below = shape * shape - 1.0
    p = shape * below
    v1 = below * (shape * v + rate)
    gap = rate * (p * v + v1)
    v0, v2 = v1 + rate * (shape + 1.0), v1 - rate * (shape - 1.0)
    inverse = 1.0 / (v0 * v1 * v2)
    pull = square * rate * p
    t = _expm1(inverse * (pull * (p * v)))
    closer = _expm1(inverse * (pull * (0.5 * (shape + 1.0) * v2)))
    root = math.sqrt(v0 * v2)
    width = root * (root + v1)
    shrink = 1.0 / ((width - (shape + 1.0) * gap) + t * ((shape + 1.0) * (width - gap)))
    ratio = math.sqrt(v1 * v1 * v2 * inverse) * (rate * width)
    return shape * width * shrink, (ratio + ratio * closer) * shrink


@inlined
def is_valid(shape, rate):
    """Whether 1/precision has a mean: both finite, shape > 1, rate > 0."""
    return shape > 1.0 and rate > 0.0 and shape < math.inf and rate < math.inf


@inlined
def first_cavity(work, factor):
    """Replace q in the workspace by the cavity; return how many weights have none."""
    improper = 0.0
    for at in range(0, work.weights.size, PAIR):
        m, v = load8(work.weights, at), load8(work.weights, at + BLOCK)
        prec = 1.0 / v
        m, v, spared = _cavity(factor, at, m, v, prec * m, prec)
        improper += spared
        store(work.weights, at, m)
        store(work.weights, at + BLOCK, v)
    for k in range(work.noise_shape.size):
        shape, rate = work.noise_shape[k], work.noise_rate[k]
        work.noise_shape[k], work.noise_rate[k] = _noise_cavity(factor, k, shape, rate)
    return improper


@inlined
def next_cavity(factor, at, m, v, m_new, v_new):
    """Move the average factor by what a datum has added to the cavity (m, v) to make it q.

    Returns the cavity for the next datum, and how many of the eight weights have none.
    """
    both = 1.0 / (v * v_new)
    prec, prec_new = both * v_new, both * v
    mean_new = m_new * prec_new
    removed, share = factor.rule[REMOVED], factor.rule[SHARE]
    mean, average = load8(factor.average, at), load8(factor.average, at + BLOCK)
    mean = mean + share * ((mean_new - m * prec) - removed * mean)
    average = average + share * ((prec_new - prec) - removed * average)
    store(factor.average, at, mean)
    store(factor.average, at + BLOCK, average)
    return _cavity(factor, at, m_new, v_new, mean_new, prec_new)


@inlined
def _cavity(factor, at, m, v, prec_mean, prec):
    """Return q without an average factor, or as it is where that is improper, and the count."""
    removed = factor.rule[NEXT_REMOVED]
    rest = prec - removed * load8(factor.average, at + BLOCK)
    rest_mean = prec_mean - removed * load8(factor.average, at)
    proper = rest > 0.0
    improper = 0.0
    if not everywhere(proper):
        improper = count_false(proper)
        rest, rest_mean = select(proper, rest, prec), select(proper, rest_mean, prec_mean)
    v_rest = 1.0 / rest
    moves = v > _FROZEN
    return select(moves, v_rest * rest_mean, m), select(moves, v_rest, v), improper


@inlined
def next_noise(factor, k, shape, rate, new_shape, new_rate):
    """Do for q(gamma) of output k what `next_cavity` does for a weight."""
    removed, share = factor.rule[REMOVED], factor.rule[SHARE]
    for j, added in enumerate((new_shape - shape, new_rate - rate)):
        average = factor.noise_average[j, k]
        factor.noise_average[j, k] = average + share * (added - removed * average)
    return _noise_cavity(factor, k, new_shape, new_rate)


@inlined
def _noise_cavity(factor, k, shape, rate):
    removed = factor.rule[NEXT_REMOVED]
    rest_shape = shape - removed * factor.noise_average[0, k]
    rest_rate = rate - removed * factor.noise_average[1, k]
    if is_valid(rest_shape, rest_rate):
        return rest_shape, rest_rate
    return shape, rate
