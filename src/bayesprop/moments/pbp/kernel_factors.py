"""Factors of the compiled engine: Gammas, the prior's, and the average one of stochastic EP.

Stochastic EP (Li, Hernández-Lobato & Turner 2015, algorithm 1): q is the prior times one average
factor for every datum. A datum meets the cavity, which is q without one average factor, and what it
adds to the cavity moves the average by a share of 1/n. The workspace holds the cavity where assumed
density filtering has q.
"""

from __future__ import annotations

import math

import numpy as np

from bayesprop.moments.pbp.kernel_workspace import (
    BLOCK,
    FROZEN_VAR,
    NEXT_REMOVED,
    PAIR,
    REMOVED,
    SHARE,
)
from bayesprop.moments.pbp.state import LARGEST_CAVITY_VAR, MOST_FROM_ONE_WEIGHT
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


@inlined
def refresh_prior_factors(weights, sites, variational, start_counts, least_information, guarded):
    """Refresh every prior factor in turn by expectation propagation (supplement section 6).

    Returns how many could not be refreshed or were too large, and how many the data say next to
    nothing about. The factor is a Gaussian in the weight, so its refreshed self is
    N(0, rate / (shape - 1)) of the cavity exactly, and needs no division of the new marginal by the
    cavity.

    variational
        Whether q(lambda) hears what variational Bayes says of every weight, a half for the shape
        and half of E[w²] for the rate, instead of eq. 9-10. Guarded, it hears that anyway of a
        weight that would multiply E[1 / lambda] by more than `MOST_FROM_ONE_WEIGHT`.
    start_counts
        Whether the random start is in q as pseudo-data: a factor exp(h w), h the first prior
        precision times a mean from N(0, 1 / inputs). In a cavity of variance v it is a mean of
        h v, which without data grows beyond all bounds. Guarded, q(lambda) hears what variational
        Bayes says where the expected square of that is beyond the variance v + 1 / lambda.
    least_information
        Share of its prior that the data must say about a weight for its factor to be refreshed.
    guarded
        False: the authors' code.
    """
    shape, rate = sites.prior[0], sites.prior[1]
    start_prec = (shape - np.sum(sites.shape) - 1.0) / (rate - np.sum(sites.rate))
    start_pull = start_prec * start_prec if guarded and start_counts else 0.0
    kept = uninformed = 0
    for t in range(sites.places.size):
        at = sites.places[t]
        inverse = 1.0 / weights[at + BLOCK]
        prec = inverse - sites.prec[t]
        v = 1.0 / prec
        m = v * (weights[at] * inverse - sites.prec_mean[t])
        cavity_shape, cavity_rate = shape - sites.shape[t], rate - sites.rate[t]
        is_proper = cavity_rate > 0.0 and cavity_shape > 1.0
        site_prec = (cavity_shape - 1.0) / cavity_rate
        if guarded and is_proper and abs(prec) < least_information * site_prec:
            uninformed += 1
            continue
        if not (is_proper and 0.0 < v < LARGEST_CAVITY_VAR):
            kept += 1
            continue
        share = 1.0 / (1.0 + v * site_prec)
        new_m, new_v = m * share, v * share
        pull = start_pull * sites.start_var[t] * site_prec
        is_start = prec * (prec + site_prec) < pull
        is_large, by_square = False, guarded and (variational or is_start)
        new_shape, new_rate = shape, rate
        if not by_square:
            new_shape, new_rate = absorb_gamma(cavity_shape, cavity_rate, v, m * m)
            is_small = new_rate * site_prec < MOST_FROM_ONE_WEIGHT * (new_shape - 1.0)
            is_large = guarded and not (is_small and is_valid(new_shape, new_rate))
        if by_square or is_large:
            new_shape, new_rate = cavity_shape + 0.5, cavity_rate + 0.5 * (new_m * new_m + new_v)
        is_sound = is_valid(new_shape, new_rate) and math.isfinite(new_m) and new_v > 0.0
        if guarded and not is_sound:
            kept += 1
            continue
        uninformed += is_start
        kept += is_large
        weights[at], weights[at + BLOCK] = new_m, new_v
        shape, rate = new_shape, new_rate
        sites.shape[t], sites.rate[t] = shape - cavity_shape, rate - cavity_rate
        sites.prec[t], sites.prec_mean[t] = site_prec, 0.0
    sites.prior[0], sites.prior[1] = shape, rate
    return kept, uninformed
