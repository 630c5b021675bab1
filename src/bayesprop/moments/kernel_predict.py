"""Moments of the network's outputs at many rows, compiled (eq. 13-17)."""

from __future__ import annotations

from bayesprop.moments.kernel_lanes import compiled
from bayesprop.moments.kernel_layers import propagate_hidden, propagate_outputs


@compiled
def predict_rows(work, x, m, v):  # noqa: ANN001, ANN201
    """Write the mean and variance of every output at every row of x."""
    n_layers, d = work.layers.shape[0], x.shape[1]
    work.z_m[d] = 1.0
    for row in range(x.shape[0]):
        for i in range(d):
            work.z_m[i] = x[row, i]
        for depth in range(n_layers - 1):
            propagate_hidden(work, depth)
        propagate_outputs(work, n_layers - 1)
        for k in range(m.shape[1]):
            m[row, k], v[row, k] = work.f_m[k], work.f_v[k]
