"""One pass of assumed density filtering over the data, compiled (section 3 of the paper)."""

from __future__ import annotations

import math

from bayesprop.moments.kernel_gamma import absorb_gamma, is_valid
from bayesprop.moments.kernel_lanes import compiled, inlined
from bayesprop.moments.kernel_layers import (
    absorb_and_propagate,
    absorb_hidden,
    absorb_outputs,
    activate,
    chain_activation,
    propagate_hidden,
    propagate_outputs,
)
from bayesprop.moments.kernel_workspace import INPUTS, N_OUT, N_ROWS, UNIT_STEP

LOG_2PI = math.log(2.0 * math.pi)


@inlined
def absorb_noise(work, k, f_v, square, weight, reference):  # noqa: ANN001, ANN201
    """Update q(gamma) of output k by eq. 9-10; return 1 if it had to stay as it was."""
    shape, rate = work.noise_shape[k], work.noise_rate[k]
    new_shape, new_rate = absorb_gamma(shape, rate, f_v, square)
    new_shape = shape + weight * (new_shape - shape)
    new_rate = rate + weight * (new_rate - rate)
    if not reference and not is_valid(new_shape, new_rate):
        return 1
    work.noise_shape[k], work.noise_rate[k] = new_shape, new_rate
    return 0


@inlined
def meet_targets(work, y, row, weight, reference):  # noqa: ANN001, ANN201
    """Compare the outputs with a row of y: log Z, its gradients, and the noise.

    Returns log Z times the weight, and how many q(gamma) stayed as they were.
    """
    log_z, kept = 0.0, 0
    for k in range(y.shape[1]):
        noise_var = work.noise_rate[k] / (work.noise_shape[k] - 1.0)
        f_v = work.f_v[k]
        residual = y[row, k] - work.f_m[k]
        inverse = 1.0 / (f_v + noise_var / weight)
        slope = residual * inverse
        work.grad_f_m[k] = slope
        work.grad_f_v[k] = 0.5 * (slope * slope - inverse)
        square = residual * residual
        log_z -= 0.5 * (LOG_2PI + math.log(f_v + noise_var) + square / (f_v + noise_var))
        kept += absorb_noise(work, k, f_v, square, weight, reference)
    return weight * log_z, kept


@compiled
def adf_pass(work, x, y, weights, order, reference):  # noqa: ANN001, ANN201
    """Absorb the rows named by `order`; return log Z, weights undone and noise updates kept."""
    n_layers, d = work.layers.shape[0], x.shape[1]
    stride = work.rows.size // 3
    old, new, square = 0, stride, 2 * stride
    log_z, undone, kept = 0.0, 0.0, 0
    pending = False
    for i in range(work.grad_m.size):
        work.grad_m[i], work.grad_v[i] = 0.0, 0.0
    for t in range(order.size):
        row = order[t]
        weight = weights[row]
        if weight == 0.0:
            continue
        if n_layers == 1:
            for i in range(d):
                work.z_m[i] = x[row, i]
            work.z_m[d] = 1.0
        else:
            for i in range(d):
                work.rows[new + i] = x[row, i]
                work.rows[square + i] = x[row, i] * x[row, i]
            work.rows[new + d], work.rows[square + d] = 1.0, 1.0
            spared = absorb_and_propagate(work, old, new, square)
            undone += spared if pending else 0.0
            pending = True
            old, new = new, old
            activate(work, 0)
            for depth in range(1, n_layers - 1):
                propagate_hidden(work, depth)
                activate(work, depth)
        propagate_outputs(work, n_layers - 1)
        z, k = meet_targets(work, y, row, weight, reference)
        log_z += z
        kept += k
        undone += absorb_outputs(work, n_layers - 1)
        for depth in range(n_layers - 2, 0, -1):
            chain_activation(work, depth + 1)
            undone += absorb_hidden(work, depth)
        if n_layers > 1:
            chain_activation(work, 1)
    if pending:
        undone += absorb_and_propagate(work, old, new, square)
    return log_z, undone, kept
