"""The least time that a row of PBP could take on this core: its arithmetic at the core's speed.

The floor is the number of floating-point operations that one datum costs, divided by the rate of
independent multiply-adds that the same compiler gets out of one core, measured in the same run. A
fused multiply-add counts as two operations, every other addition, multiplication, division or root
as one; moves, comparisons and selections are free. Memory, latency and single operations in place
of fused ones are what keeps any program above it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numba import njit

from bayesprop.simd.lanes import spread8, store
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

_ROUNDS = 20_000
_CHAINS = 12
_FLOPS_A_ROUND = 2 * 8 * _CHAINS


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


@njit(nogil=True, fastmath={"contract"})
def _multiply_adds(n: int, factor: float, out: np.ndarray) -> None:
    """Run twelve chains side by side, more than the latency of a multiply-add can hide."""
    c, d = spread8(factor), spread8(1e-9)
    x0, x1, x2, x3, x4, x5 = d, d + 0.1, d + 0.2, d + 0.3, d + 0.4, d + 0.5
    x6, x7, x8, x9, xa, xb = d + 0.6, d + 0.7, d + 0.8, d + 0.9, d + 1.0, d + 1.1
    for _ in range(n):
        x0, x1, x2, x3 = x0 * c + d, x1 * c + d, x2 * c + d, x3 * c + d
        x4, x5, x6, x7 = x4 * c + d, x5 * c + d, x6 * c + d, x7 * c + d
        x8, x9, xa, xb = x8 * c + d, x9 * c + d, xa * c + d, xb * c + d
    store(out, 0, x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7 + x8 + x9 + xa + xb)


def flop_rate() -> float:
    """Floating-point operations a second of independent multiply-adds, float64, one core."""
    out = np.zeros(8)
    _multiply_adds(1, 0.5, out)
    seconds = best_seconds(lambda: _multiply_adds(_ROUNDS, 0.5, out), n_runs=50)
    return _FLOPS_A_ROUND * _ROUNDS / seconds


def floor_us(shape: Shape, rate: float) -> float:
    """Microseconds a datum at that rate."""
    return 1e6 * flops(shape) / rate
