"""`python -m benchmarks.single_rows`: PBP row by row, beside the floor of this core and in JAX."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayesprop.cli.console import print_table
from bayesprop.moments.pbp import updates
from bayesprop.moments.pbp.engine import refresh_prior
from bayesprop.moments.pbp.state import Inference
from benchmarks.floor import floor_us, flop_rate
from benchmarks.problems import SHAPES, Shape, best_seconds, problem, trained

_SECONDS_A_SHAPE = 3.0
_POINTS_A_RUN = 5_000


class Kernel(NamedTuple):
    """Microseconds a datum of one epoch, prior refresh included, on one core."""

    shape: Shape
    best: float
    median: float
    floor: float

    @property
    def ratio(self) -> float:
        """How many times the floor."""
        return self.best / self.floor


def measure_kernel(shape: Shape, inference: Inference = "adf") -> Kernel:
    """Time short runs from a settled state, in the compiled engine, until the time is up.

    Short, because on a machine that others use as well, only a short run is ever undisturbed; the
    rate of the floor is measured before and after.
    """
    n_epochs = max(1, round(_POINTS_A_RUN / shape.n))
    data = problem(shape, n_epochs=n_epochs + 2)
    rows, orders = (data.x, data.y), data.orders[2:]
    state = trained(data.state, *rows, data.orders[:2], inference=inference)
    rate = flop_rate()
    times, until = [], time.perf_counter() + _SECONDS_A_SHAPE
    while time.perf_counter() < until or len(times) < 3:
        started = time.thread_time()  # which stands still while other programs have the core
        trained(state, *rows, orders, inference=inference)
        times.append(1e6 * (time.thread_time() - started) / (n_epochs * shape.n))
    times.sort()
    floor = floor_us(shape, max(rate, flop_rate()))
    return Kernel(shape, times[0], times[len(times) // 2], floor)


def jax_us(shape: Shape) -> float:
    """Microseconds a point of one epoch in JAX, after three that settle the weights."""
    data = problem(shape, n_epochs=4)
    rows = data.x, data.y
    settled = trained(data.state, *rows, data.orders[:3])

    def epoch() -> None:
        refresh_prior(updates.data_pass(settled, *rows, data.orders[3])[0])

    epoch()
    return 1e6 * best_seconds(epoch, n_runs=3) / shape.n


def main(inferences: Sequence[Inference] = ("adf", "sep")) -> None:
    """Print a line a size: the paper's filtering first, also in JAX, then stochastic EP."""
    lines = []
    for inference in inferences:
        for shape in SHAPES:
            got = measure_kernel(shape, inference)
            jax = jax_us(shape) if inference == "adf" else np.nan
            figures = (got.best, got.median, got.floor, got.ratio, jax, jax / got.best)
            cells = (f"{figure:.3g}" if np.isfinite(figure) else "" for figure in figures)
            lines.append((inference, shape.name, shape.text, *cells))
    print_table(
        "PBP row by row, float64, one core, prior refresh included: microseconds a data point",
        ("", "size", "data and network", "kernel", "median", "floor", "x floor", "JAX", "/ kernel"),
        lines,
        right=range(3, 9),
    )
    print("kernel: best run; floor: the operations of a point at this core's multiply-add rate")


if __name__ == "__main__":
    main()
