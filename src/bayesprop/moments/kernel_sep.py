"""One pass of stochastic expectation propagation over the data, compiled.

Li, Hernández-Lobato & Turner (2015), algorithm 1: q is the prior times one average factor for every
datum. A datum meets the cavity, which is q without one average factor, and what it adds to the
cavity moves the average by a share of 1/n. Until then the workspace holds the cavity in place of q.
"""

from __future__ import annotations

from bayesprop.moments.kernel_adf import meet_targets
from bayesprop.moments.kernel_gamma import is_valid
from bayesprop.moments.kernel_lanes import (
    compiled,
    everywhere,
    inlined,
    load8,
    select,
    spread8,
    store,
    total,
)
from bayesprop.moments.kernel_layers import absorb_hidden, absorb_outputs, propagate
from bayesprop.moments.kernel_normal import reciprocal
from bayesprop.moments.kernel_workspace import BLOCK, FROZEN_VAR, PAIR

_FROZEN_PREC = 0.1 / FROZEN_VAR
"""Above this a weight only fills a block, and 1/v and back would not leave it as it is."""


@inlined
def _remove(prec_mean, prec, mean, average, n_removed):  # noqa: ANN001, ANN202
    """Return m/v and 1/v of eight cavities, those of q where one is improper, and where not."""
    rest_mean, rest = prec_mean - n_removed * mean, prec - n_removed * average
    proper = rest > 0.0
    return select(proper, rest_mean, prec_mean), select(proper, rest, prec), proper


@inlined
def _write(work, at, prec_mean, prec):  # noqa: ANN001, ANN202
    v = reciprocal(prec)
    free = prec < _FROZEN_PREC
    store(work.weights, at, select(free, v * prec_mean, load8(work.weights, at)))
    store(work.weights, at + BLOCK, select(free, v, load8(work.weights, at + BLOCK)))


@inlined
def _write_noise(work, factor, n_removed):  # noqa: ANN001, ANN202
    for k in range(work.f_m.size):
        shape = factor.noise_q[0, k] - n_removed * factor.noise_average[0, k]
        rate = factor.noise_q[1, k] - n_removed * factor.noise_average[1, k]
        if not is_valid(shape, rate):
            shape, rate = factor.noise_q[0, k], factor.noise_q[1, k]
        work.noise_shape[k], work.noise_rate[k] = shape, rate
        factor.noise_cavity[0, k], factor.noise_cavity[1, k] = shape, rate


@inlined
def _begin(work, factor, n_removed):  # noqa: ANN001, ANN202
    """Replace q in the workspace by the cavity; return how many weights have none."""
    improper = 0.0
    for at in range(0, work.weights.size, PAIR):
        prec = reciprocal(load8(work.weights, at + BLOCK))
        prec_mean = prec * load8(work.weights, at)
        store(factor.q, at, prec_mean)
        store(factor.q, at + BLOCK, prec)
        mean, average = load8(factor.average, at), load8(factor.average, at + BLOCK)
        cavity_mean, cavity, proper = _remove(prec_mean, prec, mean, average, n_removed)
        improper += _count_improper(proper)
        _write(work, at, cavity_mean, cavity)
    for k in range(work.f_m.size):
        factor.noise_q[0, k], factor.noise_q[1, k] = work.noise_shape[k], work.noise_rate[k]
    _write_noise(work, factor, n_removed)
    return improper


@inlined
def _learn(work, factor, n_removed, share):  # noqa: ANN001, ANN202
    """Take the workspace for q, move the average, and put the next cavity into the workspace.

    The average moves by `share` of what the datum has added to its cavity. Returns how many weights
    have no cavity.
    """
    improper = 0.0
    for at in range(0, work.weights.size, PAIR):
        mean, average = load8(factor.average, at), load8(factor.average, at + BLOCK)
        q_mean, q = load8(factor.q, at), load8(factor.q, at + BLOCK)
        cavity_mean, cavity, _ = _remove(q_mean, q, mean, average, n_removed)
        prec = reciprocal(load8(work.weights, at + BLOCK))
        prec_mean = prec * load8(work.weights, at)
        mean = mean + ((prec_mean - cavity_mean) - n_removed * mean) * share
        average = average + ((prec - cavity) - n_removed * average) * share
        store(factor.average, at, mean)
        store(factor.average, at + BLOCK, average)
        store(factor.q, at, prec_mean)
        store(factor.q, at + BLOCK, prec)
        cavity_mean, cavity, proper = _remove(prec_mean, prec, mean, average, n_removed)
        improper += _count_improper(proper)
        _write(work, at, cavity_mean, cavity)
    for k in range(work.f_m.size):
        for j, new in enumerate((work.noise_shape[k], work.noise_rate[k])):
            old = factor.noise_average[j, k]
            added = new - factor.noise_cavity[j, k]
            factor.noise_average[j, k] = old + (added - n_removed * old) * share
            factor.noise_q[j, k] = new
    _write_noise(work, factor, n_removed)
    return improper


@inlined
def _count_improper(proper):  # noqa: ANN001, ANN202
    if everywhere(proper):
        return 0.0
    return total(select(proper, spread8(0.0), spread8(1.0)))


@compiled
def sep_pass(work, factor, x, y, weights, order, n, n_removed, reference):  # noqa: ANN001, ANN201
    """Absorb the rows named by `order`; return log Z, weights undone and noise updates kept.

    n is how many of the rows have a weight; n_removed is 1, or 0 while the average factor is empty.
    """
    last = work.layers.shape[0] - 1
    log_z, undone, kept = 0.0, 0.0, 0
    improper = _begin(work, factor, n_removed)
    for t in range(order.size):
        row = order[t]
        if weights[row] == 0.0:
            continue
        propagate(work, x, row)
        row_log_z, row_kept = meet_targets(work, y, row, weights[row], reference)
        log_z += row_log_z
        kept += row_kept
        undone += improper + absorb_outputs(work, last)
        for depth in range(last - 1, -1, -1):
            undone += absorb_hidden(work, depth)
        improper = _learn(work, factor, n_removed, 1.0 / n)
    for at in range(0, work.weights.size, PAIR):
        _write(work, at, load8(factor.q, at), load8(factor.q, at + BLOCK))
    _write_noise(work, factor, 0.0)
    return log_z, undone, kept
