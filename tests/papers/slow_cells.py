"""An experiment of slow cells: `python slow_cells.py FOLDER SECONDS` runs it, to be killed."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from papers import runner
from papers.protocol import Cell, Experiment, Progress
from papers.rows import Row

NAME = "slow"
PYTHONPATH = os.pathsep.join(filter(None, [*sys.path, os.environ.get("PYTHONPATH")]))
"""For other processes: where this file is, and what it imports."""
CELLS = [Cell({"number": number}, cost=1.0 + number) for number in range(12)]


@dataclass(frozen=True)
class Config:
    seed: int = 1
    seconds: float = 0.0
    broken: str | None = None
    deadly: int | None = None
    n: int = len(CELLS)


def square(config: Config, key: dict[str, Any]) -> dict[str, Any]:
    time.sleep(config.seconds)
    if config.broken is not None and Path(config.broken).exists() and key["number"] % 5 == 0:
        raise ArithmeticError("a cell\nthat fails")
    if config.deadly == key["number"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"square": key["number"] ** 2, "undefined": float("nan"), "process": os.getpid()}


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=("slow",),
    cells=lambda config, _asked: [Cell({"number": number}) for number in range(config.n)],
    work=square,
    section=lambda rows: f"## Squares\n\n{sum(row.result['square'] for row in rows)}",
)


def run(out: Path, config: Config, tell: Progress = lambda _text: None, **options) -> list[Row]:
    how = {"jobs": 2} | options
    return runner.run_cells(EXPERIMENT, config, CELLS, out=out, tell=tell, **how)


def reproduce(out: str, n: int, seconds: float) -> None:
    """Run n cells and sum them up, as the command line does."""
    experiment = replace(EXPERIMENT, quick={"n": n, "seconds": seconds})
    runner.run(experiment, out=Path(out), quick=True, jobs=2)


if __name__ == "__main__":
    run(Path(sys.argv[1]), Config(seconds=float(sys.argv[2])), lambda text: print(text, flush=True))
