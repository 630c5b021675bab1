"""Made-up data of the sizes that the speed tables speak of, and how things are timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from bayesprop.moments.pbp.engine import passes
from bayesprop.moments.pbp.state import Inference, PBPState, Targets, init


class Shape(NamedTuple):
    """A training set's size and a network's; `name` is the set that has this size."""

    name: str
    n: int
    d: int
    hidden: tuple[int, ...]

    @property
    def text(self) -> str:
        """The size in words."""
        return f"{self.n} x {self.d}, {'-'.join(map(str, self.hidden))}"


BOSTON = Shape("boston", 455, 13, (50,))
SHAPES = (
    BOSTON,
    Shape("kin8nm", 7373, 8, (50,)),
    Shape("protein", 41_157, 9, (100,)),
    Shape("year", 20_000, 90, (100,)),
    Shape("boston, 2 layers", 455, 13, (50, 50)),
)


class Problem(NamedTuple):
    """Standardised rows, a first state and an order of the rows for every epoch."""

    state: PBPState
    x: np.ndarray
    y: np.ndarray
    orders: np.ndarray


def problem(shape: Shape, *, n_epochs: int, seed: int = 0) -> Problem:
    """Make a smooth target with noise of variance 0.1, standardised."""
    rng = np.random.RandomState(seed)
    x = rng.standard_normal((shape.n, shape.d))
    signal = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.3 * x[:, 3:].sum(axis=1) / np.sqrt(shape.d)
    y = signal / signal.std() + np.sqrt(0.1) * rng.standard_normal(shape.n)
    y = ((y - y.mean()) / y.std())[:, None]
    state = init(rng, (shape.d, *shape.hidden, 1))
    orders = np.array([rng.permutation(shape.n) for _ in range(n_epochs)])
    return Problem(state, x, y, orders)


def trained(
    state: PBPState,
    x: np.ndarray,
    y: np.ndarray,
    orders: Iterable[np.ndarray],
    *,
    inference: Inference = "adf",
    targets: Targets = "numbers",
) -> PBPState:
    """Run an epoch for every order."""
    epochs = ([order] for order in orders)
    *_, (after, _) = passes(state, x, y, epochs, inference=inference, targets=targets)
    return after


def best_seconds(run: Callable[[], Any], *, n_runs: int) -> float:
    """Call `run` n_runs times; the shortest time, because other programs only ever add time."""
    times = []
    for _ in range(n_runs):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)
