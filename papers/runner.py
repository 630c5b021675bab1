"""The runner: cells that the file of rows does not hold are run, here or on a Dask cluster.

Finished cells are kept in a file and never run twice, so that a killed run goes on where it
stopped. This process alone writes rows.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from bayesprop import __version__
from bayesprop.scale.cluster import connected
from papers import outputs
from papers import rows as row_files
from papers.protocol import (
    Cell,
    Experiment,
    Key,
    NothingToRun,
    Progress,
    Scratch,
    Work,
    described,
    silent,
)
from papers.rows import Row


class CellsFailed(RuntimeError):
    """Some cells raised an error; their rows say which."""


def run(
    experiment: Experiment,
    *,
    out: Path,
    quick: bool = False,
    only: Sequence[str] | None = None,
    seed: int = 1,
    jobs: int = 1,
    cluster: str | None = None,
    retry_failed: bool = False,
    tell: Progress = silent,
) -> list[Row]:
    """Run what `<out>/<name>.jsonl` does not hold, write what sums it up, return the rows asked.

    only
        Parts; all by default.
    jobs
        Cells at a time; -1 for one a core.
    cluster
        Address of a Dask scheduler whose workers run the cells instead, but for those that are to
        run alone.
    retry_failed
        Whether cells that have failed before are tried again.
    tell
        Called with a line of text after every cell.

    Raises NothingToRun, and CellsFailed at the end where a cell has no result.
    """
    config = experiment.settings(seed=seed, quick=quick)
    asked = experiment.select(config, only, quick=quick)
    cells = experiment.cells(config, asked)
    if not cells:
        form = " in the quick form" if quick else ""
        raise NothingToRun(f"there is nothing to run of {', '.join(asked.parts)}{form}")
    how: dict[str, Any] = {"jobs": jobs, "cluster": cluster, "retry_failed": retry_failed}
    rows = run_cells(experiment, config, cells, out=out, tell=tell, **how)
    outputs.write(experiment, out, config)
    check_all_done(rows)
    return rows


def run_cells(
    experiment: Experiment,
    config: Any,
    cells: Sequence[Cell],
    *,
    out: Path,
    jobs: int = 1,
    cluster: str | None = None,
    retry_failed: bool = False,
    tell: Progress = silent,
) -> list[Row]:
    """Run those of the cells that the file of rows does not hold; return the rows of all."""
    name = experiment.name
    path = out / f"{name}.jsonl"
    settings = row_files.settings(config)
    by_identity = {row_files.identity(cell.key, settings): cell for cell in cells}
    with row_files.opened(
        path, waiting=lambda: tell(f"{name}: waiting for another run that writes {path}")
    ) as log:
        rows = _kept(experiment, by_identity, log, out, retry_failed=retry_failed)
        todo = {i: cell for i, cell in by_identity.items() if i not in rows}
        n_done, n_failed = len(by_identity) - len(todo), sum(not r.is_done for r in rows.values())
        failed = f", {n_failed} failed before (--retry-failed tries them again)" if n_failed else ""
        tell(f"{name}: {n_done - n_failed} of {len(by_identity)} cells done before{failed}")
        folder = out.resolve() if experiment.scratch else None
        attempt = Attempt(name, experiment.work, config, folder)
        left = _time_left(todo)
        with closing(_arriving(attempt, [*todo.values()], jobs, cluster, tell)) as arriving:
            for row in arriving:
                log.append(row)
                rows[row.identity] = row
                how = described(row.cell) + ("" if row.is_done else " FAILED")
                n = f"{len(rows)} of {len(by_identity)} cells"
                tell(f"{name}: {n}, about {left(row)} left ({how})")
    return [rows[i] for i in by_identity]


def _kept(
    experiment: Experiment,
    wanted: Collection[str],
    log: row_files.RowLog,
    out: Path,
    *,
    retry_failed: bool,
) -> dict[str, Row]:
    """Return the rows that need no run, by identity; those of another experiment are taken over."""
    known = row_files.read(log.path)
    rows = {} if retry_failed else row_files.failed(known)
    rows |= row_files.done(known)
    if experiment.reuses is not None:
        theirs = row_files.done(row_files.read(out / f"{experiment.reuses}.jsonl"))
        for name in wanted:
            if name in theirs and not (name in rows and rows[name].is_done):
                rows[name] = replace(theirs[name], experiment=experiment.name)
                log.append(rows[name])
    return {name: row for name, row in rows.items() if name in wanted}


def _time_left(cells: Mapping[str, Cell]) -> Callable[[Row], str]:
    """Return what says, after every row, how long the others may take: by their costs."""
    started, left = time.monotonic(), {name: cell.cost for name, cell in cells.items()}
    whole = sum(left.values())

    def after(row: Row) -> str:
        left.pop(row.identity)
        rest = sum(left.values())
        return _duration((time.monotonic() - started) * rest / (whole - rest))

    return after


def check_all_done(rows: Sequence[Row]) -> None:
    """Raise CellsFailed if a cell has no result."""
    failed = [row for row in rows if not row.is_done]
    if failed:
        first = failed[0]
        raise CellsFailed(
            f"{len(failed)} of {len(rows)} cells of {first.experiment} failed; first "
            f"{described(first.cell)}: {first.error}; the same command with --retry-failed tries "
            "them again"
        )


@dataclass(frozen=True)
class Attempt:
    """What turns the key of a cell into its row, here or on another machine, whatever happens.

    folder
        Of the rows, if the work keeps files; a machine that does not have it uses a folder of its
        own, which all experiments share.
    """

    name: str
    work: Work
    config: Any
    folder: Path | None

    def __call__(self, key: Key, tell: Progress = silent) -> Row:
        """Do the work of one cell; an error becomes the row's."""
        result, error = None, None
        started = time.perf_counter()
        try:
            result = row_files.plain(self._work(dict(key), tell))
            row_files.text(result)
        except (Exception, SystemExit) as failure:
            result, error = None, row_files.one_line(failure)
        return self.row(key, result, error, seconds=time.perf_counter() - started)

    def _work(self, key: Key, tell: Progress) -> dict[str, Any]:
        if self.folder is None:
            return self.work(self.config, key)
        folder = self.folder
        if not folder.is_dir():
            folder = Path(tempfile.gettempdir()) / f"bayesprop-{os.getuid()}"
            folder.mkdir(mode=0o700, exist_ok=True)
        return self.work(self.config, key, Scratch(folder, tell))

    def row(
        self, key: Key, result: dict[str, Any] | None, error: str | None, *, seconds: float
    ) -> Row:
        """Return a row of this process and this moment."""
        unit = 2.0**20 if sys.platform == "darwin" else 2.0**10
        return Row(
            experiment=self.name,
            cell=row_files.plain(key),
            config=row_files.settings(self.config),
            result=result,
            error=error,
            seconds=round(seconds, 4),
            peak_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1),
            finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
            version=__version__,
            commit=_commit(),
            python=platform.python_version(),
            numpy=np.__version__,
            jax=metadata.version("jax"),
        )


@lru_cache(maxsize=1)
def _commit() -> str | None:
    """Name the commit of this file's checkout; None where git does not keep this file."""
    here = Path(__file__)
    git = ["git", "--no-optional-locks", "-C", str(here.parent)]
    quiet: dict[str, Any] = {"check": True, "capture_output": True, "text": True, "timeout": 20}
    try:
        subprocess.run([*git, "ls-files", "--error-unmatch", here.name], **quiet)
        named = subprocess.run([*git, "describe", "--always", "--dirty", "--abbrev=12"], **quiet)
    except (OSError, subprocess.SubprocessError):
        return None
    return named.stdout.strip() or None


def _arriving(
    attempt: Attempt, cells: Sequence[Cell], jobs: int, cluster: str | None, tell: Progress
) -> Generator[Row]:
    """Give rows as they end; closing the generator cancels the rest. Cells alone come last."""
    together = [cell.key for cell in cells if not cell.alone]
    if together and cluster is not None:
        yield from _on_cluster(attempt, together, cluster)
    elif together:
        yield from _here(attempt, together, jobs, tell)
    yield from (attempt(cell.key, tell) for cell in cells if cell.alone)


def _here(attempt: Attempt, keys: Sequence[Key], jobs: int, tell: Progress) -> Generator[Row]:
    """Run cells in threads of this process: the numerical libraries release the lock."""
    workers = Parallel(n_jobs=jobs, backend="threading", return_as="generator_unordered")
    arriving: Any = workers(delayed(attempt)(key, tell) for key in keys)
    try:
        # `yield from` would close it before the warning is silenced.
        for row in arriving:  # noqa: UP028
            yield row
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "[0-9]+ tasks")  # cancelled: they run later
            arriving.close()


def _on_cluster(attempt: Attempt, keys: Sequence[Key], address: str) -> Generator[Row]:
    """Run cells on Dask's workers; one that dies is survived, and its cells run elsewhere.

    A cell whose workers have died four times (the scheduler's `allowed-failures` and one) fails.
    Dask counts a death against all that waits on a worker, too: a thread has one cell at a time.
    Not through joblib's Dask backend, which never hears of such an error and would wait for ever.
    """
    with connected(address, "the same command goes on where it stopped") as client:
        yield from _done_by(client, attempt, keys)


def _done_by(client: Any, attempt: Attempt, keys: Sequence[Key]) -> Generator[Row]:
    """Give rows as workers return them."""
    from distributed import as_completed

    waiting, futures, running = iter(keys), {}, as_completed(loop=client.loop)
    while True:
        for key in islice(waiting, max(0, _n_threads(client) - running.count())):
            future = client.submit(attempt, key, pure=False)
            futures[future] = key
            running.add(future)
        if running.is_empty():
            return
        future = next(running)
        if future.status == "error":
            error = row_files.one_line(future.exception())
            yield attempt.row(futures[future], None, error, seconds=0.0)
        else:
            yield future.result()


def _n_threads(client: Any) -> int:
    """Count the threads of all workers; one where the last has just died, as another may come."""
    return max(1, sum(client.nthreads().values()))


def _duration(seconds: float) -> str:
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5970.0 else f"{seconds / 3600.0:.1f} h"
