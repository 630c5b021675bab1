"""The runner: an experiment is settings, cells, and a function from one cell to a row.

Finished cells are kept in a file and never run twice, so that a killed run goes on where it
stopped. Cells run through joblib: `joblib.parallel_config` puts them on a Dask cluster instead.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from bayesprop import __version__
from bayesprop.experiments import rows as row_files
from bayesprop.experiments.rows import Row

Progress = Callable[[str], None]
Key = dict[str, Any]
Work = Callable[[Any, Key], dict[str, Any]]


class CellsFailed(RuntimeError):
    """Some cells raised an error; their rows say which."""


class NothingToRun(ValueError):
    """The request leaves no cell; the message is one line."""


@dataclass(frozen=True)
class Cell:
    """One unit of work.

    key
        What tells it from the others, as JSON values, most telling first.
    cost
        Expected time, in any unit that all cells share; for the estimate of the time left.
    """

    key: Key
    cost: float = 1.0


def run_cells(
    name: str,
    work: Work,
    config: Any,
    cells: Sequence[Cell],
    *,
    out: Path,
    jobs: int,
    progress: Progress,
) -> list[Row]:
    """Run those of the cells that `<out>/<name>.jsonl` does not hold; return the rows of all.

    name
        Of the experiment.
    work
        A top-level function of `config` and a cell's key. What it returns becomes the row's
        `result`; an error that it raises is recorded, and the cell is tried again the next time.
    config
        A dataclass instance: the settings on which every cell depends.
    jobs
        Cells at a time; -1 for one a core. A backend named by `joblib.parallel_config` may take
        its own number.
    progress
        Called with a line of text after every cell.
    """
    settings = row_files.plain(dataclasses.asdict(config))
    path = out / f"{name}.jsonl"
    with row_files.opened(
        path, waiting=lambda: progress(f"{name}: waiting for another run that writes {path}")
    ) as log:
        finished = row_files.done(row_files.read(path))
        costs = {row_files.identity(cell.key, settings): cell.cost for cell in cells}
        todo = [c for c in cells if row_files.identity(c.key, settings) not in finished]
        clock = _Clock(name, costs, costs.keys() - finished.keys(), progress)
        fresh: dict[str, Row] = {}
        with _rows(name, work, config, todo, jobs) as arriving:
            for row in arriving:
                log.append(row)
                fresh[row.identity] = row
                clock.tick(row)
    return [(finished | fresh)[name_of_cell] for name_of_cell in costs]


def chosen(only: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """Return the parts that the user named, all by default; NothingToRun names those there are."""
    known = tuple(known)
    unknown = [part for part in only or () if part not in known]
    if unknown:
        raise NothingToRun(
            f"no part {unknown[0]!r} in this experiment; there are {', '.join(known)}"
        )
    return [part for part in known if part in (only or known)]


def all_rows(out: Path, name: str) -> list[Row]:
    """Read every row that an experiment has left in a folder."""
    return row_files.read(out / f"{name}.jsonl")


def write_section(out: Path, name: str, text: str) -> Path:
    """Write the Markdown summary of an experiment beside its rows."""
    from bayesprop.data.atomic import write_atomically

    path = out / f"{name}.md"
    write_atomically(path, lambda file: file.write(text.encode()))
    return path


def check_all_done(rows: Sequence[Row]) -> None:
    """Raise CellsFailed if a cell has no result."""
    failed = [row for row in rows if not row.is_done]
    if failed:
        first = failed[0]
        raise CellsFailed(
            f"{len(failed)} of {len(rows)} cells of {first.experiment} failed; first "
            f"{described(first.cell)}: {first.error}; the same command tries them again"
        )


def described(key: Key) -> str:
    """Say a cell's key in words: {"dataset": "yacht", "split": 3} is "yacht, split 3"."""
    first, *others = key.items()
    return ", ".join([str(first[1]), *(f"{name} {value}" for name, value in others)])


@contextmanager
def _rows(
    name: str, work: Work, config: Any, todo: list[Cell], jobs: int
) -> Iterator[Iterable[Row]]:
    """Give the rows of the cells in the order in which they end; leaving it cancels the rest."""
    if not todo:
        yield ()
        return
    from joblib import Parallel, delayed

    commit = _commit()
    run = Parallel(n_jobs=jobs, prefer="threads", return_as="generator_unordered")
    attempts = (delayed(_attempt)(name, work, config, cell.key, commit) for cell in todo)
    arriving = cast(Generator[Row], run(attempts))
    try:
        yield arriving
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "[0-9]+ tasks")  # cancelled: they run the next time
            arriving.close()


def _attempt(name: str, work: Work, config: Any, key: Key, commit: str | None) -> Row:
    started = time.perf_counter()
    result, error = None, None
    try:
        result = row_files.plain(work(config, key))
    except Exception as failure:
        error = " ".join(f"{type(failure).__name__}: {failure}".split())
    return Row(
        experiment=name,
        cell=row_files.plain(key),
        config=row_files.plain(dataclasses.asdict(config)),
        result=result,
        error=error,
        seconds=round(time.perf_counter() - started, 4),
        peak_mib=_peak_mib(),
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        commit=commit,
        python=platform.python_version(),
        numpy=np.__version__,
    )


def _peak_mib() -> float:
    unit = 2.0**20 if sys.platform == "darwin" else 2.0**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def _commit() -> str | None:
    """Name the commit of this file's checkout; None where git does not keep this file."""
    here = Path(__file__)
    git = ["git", "-C", str(here.parent)]
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", here.name], **_QUIET)
        told = subprocess.run([*git, "describe", "--always", "--dirty", "--abbrev=12"], **_QUIET)
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip() or None


_QUIET: dict[str, Any] = {
    "check": True,
    "capture_output": True,
    "text": True,
    "timeout": 20,
    "env": os.environ | {"GIT_OPTIONAL_LOCKS": "0"},
}


class _Clock:
    """Says after every cell how far the run is and how long the rest may take."""

    def __init__(
        self, name: str, costs: dict[str, float], todo: Set[str], progress: Progress
    ) -> None:
        self._name, self._costs, self._progress = name, costs, progress
        self._left = sum(costs[cell] for cell in todo)
        self._spent = 0.0
        self._n, self._n_done = len(costs), len(costs) - len(todo)
        self._started = time.perf_counter()
        progress(f"{name}: {self._n_done} of {self._n} cells done before")

    def tick(self, row: Row) -> None:
        cost = self._costs[row.identity]
        self._left -= cost
        self._spent += cost
        self._n_done += 1
        seconds_left = (time.perf_counter() - self._started) * self._left / self._spent
        how = "" if row.is_done else " FAILED"
        self._progress(
            f"{self._name}: {self._n_done} of {self._n} cells, about {_duration(seconds_left)} "
            f"left ({described(row.cell)}{how})"
        )


def _duration(seconds: float) -> str:
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5970.0 else f"{seconds / 3600.0:.1f} h"
