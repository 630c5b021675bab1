"""One pass of assumed density filtering over the data, compiled (section 3 of the paper)."""

from __future__ import annotations

import math

from bayesprop.moments.kernel_gamma import absorb_gamma, is_valid
from bayesprop.moments.kernel_lanes import compiled, inlined
from bayesprop.moments.kernel_layers import (
    absorb_and_propagate,
    absorb_hidden,
    absorb_outputs,
    begin_pass,
    next_row,
    propagate,
    propagate_hidden,
    propagate_outputs,
)

LOG_2PI = math.log(2.0 * math.pi)


@inlined
def absorb_noise(work, k, square, weight, reference):  # noqa: ANN001, ANN201
    """Update q(gamma) of output k by eq. 9-10; return 1 if it had to stay as it was."""
    shape, rate = work.noise_shape[k], work.noise_rate[k]
    new_shape, new_rate = absorb_gamma(shape, rate, work.f_v[k], square)
    new_shape = shape + weight * (new_shape - shape)
    new_rate = rate + weight * (new_rate - rate)
    if not reference and not is_valid(new_shape, new_rate):
        return 1
    work.noise_shape[k], work.noise_rate[k] = new_shape, new_rate
    return 0


@inlined
def meet_targets(work, y, row, weight, reference):  # noqa: ANN001, ANN201
    """Compare the outputs with a row of y: the gradients of log Z, then the noise.

    Returns log Z times the weight, and how many q(gamma) stayed as they were.
    """
    log_z, kept = 0.0, 0
    for k in range(y.shape[1]):
        noise_var = work.noise_rate[k] / (work.noise_shape[k] - 1.0)
        residual, f_v = y[row, k] - work.f_m[k], work.f_v[k]
        inverse = 1.0 / (f_v + noise_var / weight)
        slope = residual * inverse
        work.grad_f_m[k], work.grad_f_v[k] = slope, 0.5 * (slope * slope - inverse)
        square = residual * residual
        log_z -= 0.5 * (LOG_2PI + math.log(f_v + noise_var) + square / (f_v + noise_var))
        kept += absorb_noise(work, k, square, weight, reference)
    return weight * log_z, kept


@compiled
def adf_pass(work, x, y, weights, order, reference):  # noqa: ANN001, ANN201
    """Absorb the rows named by `order`; return log Z, weights undone and noise updates kept.

    A hidden layer on the inputs absorbs a datum only when the next one comes, or the end.
    """
    last = work.layers.shape[0] - 1
    log_z, undone, kept = 0.0, 0.0, 0
    pending, reach = False, 0.0
    if last > 0:
        begin_pass(work)
    for t in range(order.size):
        row = order[t]
        weight = weights[row]
        if weight == 0.0:
            continue
        if last == 0:
            propagate(work, x, row)
        else:
            next_reach = next_row(work, x, row)
            spared = absorb_and_propagate(work, reach)
            undone += spared if pending else 0.0
            pending, reach = True, next_reach
            for depth in range(1, last):
                propagate_hidden(work, depth)
            propagate_outputs(work, last)
        row_log_z, row_kept = meet_targets(work, y, row, weight, reference)
        log_z += row_log_z
        kept += row_kept
        undone += absorb_outputs(work, last)
        for depth in range(last - 1, 0, -1):
            undone += absorb_hidden(work, depth)
    if pending:
        next_row(work, x, 0)
        undone += absorb_and_propagate(work, reach)
    return log_z, undone, kept
