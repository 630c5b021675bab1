"""`python -m benchmarks.kernel`: the compiled engine beside the floor of this core."""

from __future__ import annotations

import time
from typing import NamedTuple

from bayesprop.moments.pbp.engine import Run
from bayesprop.moments.pbp.state import Inference
from benchmarks.floor import floor_us, flop_rate
from benchmarks.problems import SHAPES, Shape, problem, trained

_SECONDS_A_SHAPE = 3.0
_POINTS_A_RUN = 5_000


class Measured(NamedTuple):
    """Microseconds a datum of one epoch, prior refresh included, on one core."""

    shape: Shape
    best: float
    median: float
    floor: float

    @property
    def ratio(self) -> float:
        """How many times the floor."""
        return self.best / self.floor


def measure(shape: Shape, inference: Inference = "adf") -> Measured:
    """Time short runs from a settled state until the time is up.

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
    return Measured(shape, times[0], times[len(times) // 2], floor)


def main() -> None:
    """Print a line a size: the paper's filtering first, then stochastic EP."""
    print(f"multiply-adds on one core: {flop_rate() / 1e9:.1f} GFlop/s")
    print(f"{'microseconds a datum':34s} {'best':>7s} {'median':>7s} {'floor':>7s} {'ratio':>6s}")
    for inference in ("adf", "sep"):
        for shape in SHAPES:
            got = measure(shape, inference)
            name = f"{inference} {shape.name}, {shape.text}"
            print(f"{name:34s} {got.best:7.3f} {got.median:7.3f} {got.floor:7.3f} {got.ratio:6.2f}")


if __name__ == "__main__":
    main()
