"""Microseconds a data point of online PBP: the compiled engine beside the JAX form."""

from __future__ import annotations

from typing import NamedTuple

from bayesprop.moments import pbp, pbp_kernel
from benchmarks.clock import best_seconds
from benchmarks.problems import SHAPES, Shape, problem

_POINTS_A_RUN = 60_000
_N_RUNS = 5


class Online(NamedTuple):
    """Microseconds a point of one epoch, refresh of the prior included, on one core."""

    shape: Shape
    kernel: float
    jax: float


def measure(shape: Shape) -> Online:
    """Time both engines on the same epochs, after some that bring the weights to their places."""
    n_epochs = max(1, round(_POINTS_A_RUN / shape.n))
    data = problem(shape, n_epochs=n_epochs + 3)
    rows = data.x, data.y
    settled, _ = pbp_kernel.train(data.state, *rows, data.orders[:3])
    orders = data.orders[3:]

    def jax_epoch() -> None:
        pbp.refresh_prior(pbp.data_pass(settled, *rows, orders[0])[0])

    jax_epoch()
    kernel = best_seconds(lambda: pbp_kernel.train(settled, *rows, orders), n_runs=_N_RUNS)
    jax = best_seconds(jax_epoch, n_runs=3)
    return Online(shape, 1e6 * kernel / (n_epochs * shape.n), 1e6 * jax / shape.n)


def measure_all() -> list[Online]:
    """Measure every size."""
    return [measure(shape) for shape in SHAPES]
