"""Moments of the network's outputs at many rows, compiled."""

from __future__ import annotations

from bayesprop.moments.pbp.kernel_layers import propagate
from bayesprop.simd.lanes import compiled


@compiled
def predict_rows(work, x, m, v):
    """Write the mean and variance of every output at every row of x."""
    for row in range(x.shape[0]):
        propagate(work, x, row)
        for k in range(m.shape[1]):
            m[row, k], v[row, k] = work.f_m[k], work.f_v[k]
