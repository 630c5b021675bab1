"""`python -m benchmarks.single_rows`: PBP row by row, beside the floor of this core and in JAX."""

from __future__ import annotations

import time
from typing import NamedTuple

from bayesprop.moments.pbp import updates
from bayesprop.moments.pbp.engine import Run, refresh_prior
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
    state = trained(Run(data.state, *rows, inference=inference), data.orders[:2])
    rate = flop_rate()
    times, until = [], time.perf_counter() + _SECONDS_A_SHAPE
    while time.perf_counter() < until or len(times) < 3:
        started = time.perf_counter()
        trained(Run(state, *rows, inference=inference), orders)
        times.append(1e6 * (time.perf_counter() - started) / (n_epochs * shape.n))
    times.sort()
    floor = floor_us(shape, max(rate, flop_rate()))
    return Kernel(shape, times[0], times[len(times) // 2], floor)


class SingleRows(NamedTuple):
    """Microseconds a point of one epoch, refresh of the prior included, on one core."""

    shape: Shape
    kernel: Kernel
    jax: float


def measure(shape: Shape) -> SingleRows:
    """Time both engines on the same rows, after epochs that bring the weights to their places."""
    data = problem(shape, n_epochs=4)
    rows = data.x, data.y
    settled = trained(Run(data.state, *rows), data.orders[:3])

    def jax_epoch() -> None:
        refresh_prior(updates.data_pass(settled, *rows, data.orders[3])[0])

    jax_epoch()
    jax = best_seconds(jax_epoch, n_runs=3)
    return SingleRows(shape, measure_kernel(shape), 1e6 * jax / shape.n)


def measure_all() -> list[SingleRows]:
    """Measure every size."""
    return [measure(shape) for shape in SHAPES]


def main() -> None:
    """Print a line a size: the paper's filtering first, then stochastic EP."""
    print(f"multiply-adds on one core: {flop_rate() / 1e9:.1f} GFlop/s")
    print(f"{'microseconds a datum':34s} {'best':>7s} {'median':>7s} {'floor':>7s} {'ratio':>6s}")
    for inference in ("adf", "sep"):
        for shape in SHAPES:
            got = measure_kernel(shape, inference)
            name = f"{inference} {shape.name}, {shape.text}"
            print(f"{name:34s} {got.best:7.3f} {got.median:7.3f} {got.floor:7.3f} {got.ratio:6.2f}")


if __name__ == "__main__":
    main()
