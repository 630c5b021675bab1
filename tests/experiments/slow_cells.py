"""An experiment of slow cells: `python slow_cells.py FOLDER SECONDS` runs it, to be killed."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesprop.experiments import protocol
from bayesprop.experiments.protocol import Cell, Experiment, Progress
from bayesprop.experiments.rows import Row

NAME = "slow"
CELLS = [Cell({"number": number}, cost=1.0 + number) for number in range(12)]


@dataclass(frozen=True)
class Config:
    seed: int = 1
    seconds: float = 0.0
    broken: str | None = None


def square(config: Config, key: dict[str, Any]) -> dict[str, Any]:
    time.sleep(config.seconds)
    if config.broken is not None and Path(config.broken).exists() and key["number"] % 5 == 0:
        raise ArithmeticError("a cell\nthat fails")
    thread = threading.current_thread().name
    return {"square": key["number"] ** 2, "undefined": float("nan"), "thread": thread}


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=("slow",),
    cells=lambda _config, _asked: CELLS,
    work=square,
    section=lambda rows: f"{len(rows)} rows",
)


def run(out: Path, config: Config, tell: Progress = lambda _text: None, **options) -> list[Row]:
    return protocol.run_cells(EXPERIMENT, config, CELLS, out=out, jobs=2, tell=tell, **options)


if __name__ == "__main__":
    run(Path(sys.argv[1]), Config(seconds=float(sys.argv[2])), lambda text: print(text, flush=True))
