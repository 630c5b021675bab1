"""How things are timed: the best of several runs, because other programs only ever add time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def best_seconds(run: Callable[[], Any], *, n_runs: int) -> float:
    """Call `run` n_runs times; return the shortest time."""
    times = []
    for _ in range(n_runs):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)
