"""The least time that a row of PBP could take on this core: its arithmetic at the core's speed.

The floor is the number of floating-point operations that one datum costs, divided by the rate of
multiply-adds that a product of matrices gets out of one core, measured in the same run. A
fused multiply-add counts as two operations, every other addition, multiplication, division or root
as one; moves, comparisons and selections are free. Memory, latency and single operations in place
of fused ones are what keeps any program above it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from bayesprop.numerics.machine import one_blas_thread
from benchmarks.problems import Shape, best_seconds

# Operations a datum, by what needs them. Inputs have no variance, so a first layer is cheap:
# shift = v x, m + shift step, v - shift^2 curve; then m_a + m x and v_a + v x^2.
_FIRST_LAYER_WEIGHT = 10
# m_a, v_a: 7; the two gradients, new moments: 12; sums for the units below: 6.
_OTHER_WEIGHT = 25
# Roots 23, standardising 2, tail integrals 50, density 25, moments and slopes 16; gradients 13.
_HIDDEN_UNIT = 129
# log Z and its gradients, and the Gamma update, which a refreshed prior factor needs as well.
_OUTPUT = 90
_PRIOR_FACTOR = 90

_SIZE = 512  # of matrices that stay in the cache


def flops(shape: Shape) -> float:
    """Operations a datum of one epoch with one output, the prior refresh shared by all rows."""
    sizes = (shape.d, *shape.hidden, 1)
    weights = [(a + 1) * b for a, b in pairwise(sizes)]
    first = _FIRST_LAYER_WEIGHT if shape.hidden else _OTHER_WEIGHT
    return (
        first * weights[0]
        + _OTHER_WEIGHT * sum(weights[1:])
        + _HIDDEN_UNIT * sum(shape.hidden)
        + _OUTPUT
        + _PRIOR_FACTOR * sum(weights) / shape.n
    )


def flop_rate() -> float:
    """Floating-point operations a second of a product of matrices, float64, one core."""
    a = np.ones((_SIZE, _SIZE))
    out = np.empty_like(a)
    with one_blas_thread():
        seconds = best_seconds(lambda: np.dot(a, a, out), n_runs=50)
    return 2.0 * _SIZE**3 / seconds


def floor_us(shape: Shape, rate: float) -> float:
    """Microseconds a datum at that rate."""
    return 1e6 * flops(shape) / rate
