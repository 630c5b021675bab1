"""What stochastic expectation propagation adds to a pass over the data.

Li, Hernández-Lobato & Turner (2015), algorithm 1: q is the prior times one average factor for every
datum. A datum meets the cavity, which is q without one average factor, and what it adds to the
cavity moves the average by a share of 1/n. The workspace holds the cavity where assumed density
filtering has q.
"""

from __future__ import annotations

from bayesprop.moments.pbp.kernel_gamma import is_valid
from bayesprop.moments.pbp.kernel_workspace import (
    BLOCK,
    FROZEN_VAR,
    NEXT_REMOVED,
    PAIR,
    REMOVED,
    SHARE,
)
from bayesprop.simd.lanes import (
    count_false,
    everywhere,
    inlined,
    load8,
    select,
    store,
)

_FROZEN = 10.0 * FROZEN_VAR
"""A weight of lower variance only fills a block; 1/v and back would not leave it as it is."""


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
