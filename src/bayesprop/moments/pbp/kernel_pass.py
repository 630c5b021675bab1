"""One pass over the data, compiled: section 3 of the paper, or stochastic EP; predictions."""

from __future__ import annotations

import math

from bayesprop.moments.pbp.kernel_gamma import absorb_gamma, is_valid
from bayesprop.moments.pbp.kernel_layers import (
    absorb_and_propagate,
    absorb_hidden,
    absorb_outputs,
    next_row,
    prefetch_row,
    propagate,
    propagate_hidden,
    propagate_outputs,
)
from bayesprop.moments.pbp.kernel_probit import meet_class
from bayesprop.moments.pbp.kernel_sep import first_cavity, next_noise
from bayesprop.moments.pbp.kernel_workspace import NEXT_REMOVED
from bayesprop.simd.lanes import compiled, inlined, prefetch

LOG_2PI = math.log(2.0 * math.pi)
_LARGEST_SLOPE_SQUARED = 1e200


@inlined
def absorb_noise(work, factor, k, square, weight, guarded):
    """Update q(gamma) of output k by eq. 9-10; return 1 if it had to stay as it was."""
    shape, rate = work.noise_shape[k], work.noise_rate[k]
    new_shape, new_rate = absorb_gamma(shape, rate, work.f_v[k], square)
    new_shape = shape + weight * (new_shape - shape)
    new_rate = rate + weight * (new_rate - rate)
    kept = guarded and not is_valid(new_shape, new_rate)
    if kept:
        new_shape, new_rate = shape, rate
    if factor is not None:
        new_shape, new_rate = next_noise(factor, k, shape, rate, new_shape, new_rate)
    work.noise_shape[k], work.noise_rate[k] = new_shape, new_rate
    return 1 if kept else 0


@inlined
def meet_targets(work, factor, y, row, weight, guarded, may_miss):
    """Compare the outputs with a row of y: the gradients of log Z, then the noise.

    With `may_miss`, NaN is a target that was not seen, and its output learns and teaches nothing.
    Returns log Z times the weight, the epistemic share of the outputs' variance, and how many
    q(gamma) stayed as they were.
    """
    log_z, share, kept = 0.0, 0.0, 0
    for k in range(y.shape[1]):
        if may_miss and math.isnan(y[row, k]):
            work.grad_f_m[k], work.grad_f_v[k] = 0.0, 0.0
            continue
        noise_var = work.noise_rate[k] / (work.noise_shape[k] - 1.0)
        residual, f_v = y[row, k] - work.f_m[k], work.f_v[k]
        inverse = 1.0 / (f_v + noise_var / weight)
        slope = residual * inverse
        if not slope * slope < _LARGEST_SLOPE_SQUARED:
            slope = math.nan  # so that every weight is undone: nothing overflows to infinity
        work.grad_f_m[k], work.grad_f_v[k] = slope, 0.5 * (slope * slope - inverse)
        square = residual * residual
        var = f_v + noise_var
        share += f_v / var
        log_z -= 0.5 * (LOG_2PI + math.log(var) + square / var)
        kept += absorb_noise(work, factor, k, square, weight, guarded)
    return weight * log_z, share / y.shape[1], kept


@compiled
def absorb_rows(work, factor, scratch, x, y, weights, order, guarded, may_miss):
    """Absorb the rows named by `order`; return log Z, epistemic shares, weights undone, noise kept.

    By assumed density filtering if `factor` is None, else by stochastic EP. The targets are numbers
    with Gaussian noise if `scratch` is None, NaN among them with `may_miss` where one was not seen,
    else classes seen through a probit. A hidden layer on
    the inputs absorbs a datum only when the next one comes, or the end.
    """
    last, n = work.layers.shape[0] - 1, order.size
    log_z, share, undone, kept, reach = 0.0, 0.0, 0.0, 0, 0.0
    if factor is not None:
        undone += first_cavity(work, factor)
    for i in range(work.v_bound.size):
        work.v_bound[i] = math.inf
    for t in range(n):
        row = order[t]
        next_reach = next_row(work, x, row)
        ahead = order[min(t + 1, n - 1)]
        prefetch_row(x, ahead)
        prefetch(y, ahead * y.shape[1])
        if t > 0 and last > 0:
            undone += absorb_and_propagate(work, factor, reach)
            for depth in range(1, last):
                propagate_hidden(work, depth)
            propagate_outputs(work, last)
        else:
            propagate(work, x, row)
        reach = next_reach
        if factor is not None and t == n - 1:
            factor.rule[NEXT_REMOVED] = 0.0
        weight = weights[row]
        if scratch is None:
            row_log_z, row_share, row_kept = meet_targets(
                work, factor, y, row, weight, guarded, may_miss
            )
            kept += row_kept
        else:
            row_log_z, row_share = meet_class(work, scratch, y, row, weight)
        log_z += row_log_z
        share += row_share
        undone += absorb_outputs(work, factor, last)
        for depth in range(last - 1, 0, -1):
            undone += absorb_hidden(work, factor, depth)
    if n > 0 and last > 0:
        next_row(work, x, order[n - 1])
        undone += absorb_and_propagate(work, factor, reach)
    return log_z, share, undone, kept


@compiled
def absorb_and_recall(work, x, y, weights, recall_weights, first, recalled, noise):
    """Absorb the row `first`, then others again, which change no noise; return as `absorb_rows`.

    y
        NaN for an output that was not seen.
    noise
        (2, o), to work with.
    """
    log_z, share, undone, kept = absorb_rows(work, None, None, x, y, weights, first, True, True)
    for k in range(noise.shape[1]):
        noise[0, k], noise[1, k] = work.noise_shape[k], work.noise_rate[k]
    _, _, more, _ = absorb_rows(work, None, None, x, y, recall_weights, recalled, True, True)
    for k in range(noise.shape[1]):
        work.noise_shape[k], work.noise_rate[k] = noise[0, k], noise[1, k]
    return log_z, share, undone + more, kept


@compiled
def predict_rows(work, x, m, v):
    """Write the mean and variance of every output at every row of x."""
    for row in range(x.shape[0]):
        propagate(work, x, row)
        for k in range(m.shape[1]):
            m[row, k], v[row, k] = work.f_m[k], work.f_v[k]
