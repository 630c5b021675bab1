"""Microseconds a data point of PBP, row by row: the compiled engine, its floor, the JAX form."""

from __future__ import annotations

from typing import NamedTuple

from bayesprop.moments.pbp import updates
from bayesprop.moments.pbp.engine import Run
from benchmarks import kernel
from benchmarks.clock import best_seconds
from benchmarks.problems import SHAPES, Shape, problem, trained


class SingleRows(NamedTuple):
    """Microseconds a point of one epoch, refresh of the prior included, on one core."""

    shape: Shape
    kernel: kernel.Measured
    jax: float


def measure(shape: Shape) -> SingleRows:
    """Time both engines on the same rows, after epochs that bring the weights to their places."""
    data = problem(shape, n_epochs=4)
    rows = data.x, data.y
    settled = trained(Run(data.state, *rows), data.orders[:3])

    def jax_epoch() -> None:
        updates.refresh_prior(updates.data_pass(settled, *rows, data.orders[3])[0])

    jax_epoch()
    jax = best_seconds(jax_epoch, n_runs=3)
    return SingleRows(shape, kernel.measure(shape), 1e6 * jax / shape.n)


def measure_all() -> list[SingleRows]:
    """Measure every size."""
    return [measure(shape) for shape in SHAPES]
