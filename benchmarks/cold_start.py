"""The first fit in a new process, imports included."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

_ENGINE = """
from benchmarks.problems import BOSTON, problem, trained
from bayesprop.moments.pbp.engine import Run
data = problem(BOSTON, n_epochs=40)
trained(Run(data.state, data.x, data.y), data.orders)
"""
_ESTIMATOR = """
from benchmarks.problems import BOSTON, problem
from bayesprop import PBPRegressor
data = problem(BOSTON, n_epochs=1)
PBPRegressor((50,), 40).fit(data.x, data.y[:, 0]).predict(data.x)
"""


class ColdStart(NamedTuple):
    """Seconds from the start of the interpreter to its end, a fit of boston's size in between."""

    engine: float
    estimator: float
    interpreter: float
    compiling: float


def measure() -> ColdStart:
    """Run each script once to fill the cache of compiled code, then time it; best of three."""
    with tempfile.TemporaryDirectory() as empty:
        compiling = _seconds(_ENGINE, NUMBA_CACHE_DIR=empty)
    for script in (_ENGINE, _ESTIMATOR):
        _seconds(script)
    best = [min(_seconds(script) for _ in range(3)) for script in (_ENGINE, _ESTIMATOR, "")]
    return ColdStart(*best, compiling)


def _seconds(script: str, **environment: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], check=True, env=os.environ | environment)
    return time.perf_counter() - started
