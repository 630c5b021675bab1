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
from bayesprop.moments.kernel_workspace import BLOCK, FROZEN_VAR, PAIR

_FROZEN_PREC = 0.1 / FROZEN_VAR
"""Above this a weight only fills a block, and 1/v and back would not leave it as it is."""


@inlined
def _read_q(work, factor):  # noqa: ANN001, ANN202
    """Take the workspace for q."""
    for at in range(0, work.weights.size, PAIR):
        prec = 1.0 / load8(work.weights, at + BLOCK)
        store(factor.q, at, prec * load8(work.weights, at))
        store(factor.q, at + BLOCK, prec)
    for k in range(work.f_m.size):
        factor.noise_q[0, k], factor.noise_q[1, k] = work.noise_shape[k], work.noise_rate[k]


@inlined
def _cavity(factor, at, n_removed):  # noqa: ANN001, ANN202
    """Return m/v and 1/v of eight cavities, q itself where one is improper, and where it is not."""
    prec_mean, prec = load8(factor.q, at), load8(factor.q, at + BLOCK)
    rest_mean = prec_mean - n_removed * load8(factor.average, at)
    rest = prec - n_removed * load8(factor.average, at + BLOCK)
    proper = rest > 0.0
    return select(proper, rest_mean, prec_mean), select(proper, rest, prec), proper


@inlined
def _write_cavity(work, factor, n_removed):  # noqa: ANN001, ANN202
    """Put the cavity into the workspace; return how many weights have none."""
    improper = 0.0
    for at in range(0, work.weights.size, PAIR):
        prec_mean, prec, proper = _cavity(factor, at, n_removed)
        if not everywhere(proper):
            improper += total(select(proper, spread8(0.0), spread8(1.0)))
        v = 1.0 / prec
        free = prec < _FROZEN_PREC
        store(work.weights, at, select(free, v * prec_mean, load8(work.weights, at)))
        store(work.weights, at + BLOCK, select(free, v, load8(work.weights, at + BLOCK)))
    for k in range(work.f_m.size):
        shape = factor.noise_q[0, k] - n_removed * factor.noise_average[0, k]
        rate = factor.noise_q[1, k] - n_removed * factor.noise_average[1, k]
        if not is_valid(shape, rate):
            shape, rate = factor.noise_q[0, k], factor.noise_q[1, k]
        work.noise_shape[k], work.noise_rate[k] = shape, rate
        factor.noise_cavity[0, k], factor.noise_cavity[1, k] = shape, rate
    return improper


@inlined
def _learn(work, factor, n_removed, n):  # noqa: ANN001, ANN202
    """Move the average by what the datum has added to the cavity, and take the result for q."""
    for at in range(0, work.weights.size, PAIR):
        cavity_mean, cavity_prec, _ = _cavity(factor, at, n_removed)
        prec = 1.0 / load8(work.weights, at + BLOCK)
        added_mean, added = prec * load8(work.weights, at) - cavity_mean, prec - cavity_prec
        mean, average = load8(factor.average, at), load8(factor.average, at + BLOCK)
        store(factor.average, at, mean + (added_mean - n_removed * mean) * (1.0 / n))
        store(factor.average, at + BLOCK, average + (added - n_removed * average) * (1.0 / n))
    for k in range(work.f_m.size):
        for j, new in enumerate((work.noise_shape[k], work.noise_rate[k])):
            average = factor.noise_average[j, k]
            added = new - factor.noise_cavity[j, k]
            factor.noise_average[j, k] = average + (added - n_removed * average) / n
    _read_q(work, factor)


@compiled
def sep_pass(work, factor, x, y, weights, order, n, n_removed, reference):  # noqa: ANN001, ANN201
    """Absorb the rows named by `order`; return log Z, weights undone and noise updates kept.

    n is how many of the rows have a weight; n_removed is 1, or 0 while the average factor is empty.
    """
    last = work.layers.shape[0] - 1
    log_z, undone, kept = 0.0, 0.0, 0
    _read_q(work, factor)
    for t in range(order.size):
        row = order[t]
        if weights[row] == 0.0:
            continue
        undone += _write_cavity(work, factor, n_removed)
        propagate(work, x, row)
        row_log_z, row_kept = meet_targets(work, y, row, weights[row], reference)
        log_z += row_log_z
        kept += row_kept
        undone += absorb_outputs(work, last)
        for depth in range(last - 1, -1, -1):
            undone += absorb_hidden(work, depth)
        _learn(work, factor, n_removed, n)
    _write_cavity(work, factor, 0.0)
    return log_z, undone, kept
