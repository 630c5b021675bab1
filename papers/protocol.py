"""The runner: an experiment is settings, cells, and a function from one cell to a row.

Finished cells are kept in a file and never run twice, so that a killed run goes on where it
stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from papers import outputs
from papers import rows as row_files
from papers.attempts import Attempt
from papers.cells import Cell, Key, Progress, Scratch, Work, described, silent
from papers.rows import Row
from papers.time_left import Clock
from papers.workers import Threads, Workers

__all__ = [
    "Cell",
    "CellsFailed",
    "Experiment",
    "Key",
    "NothingToRun",
    "Progress",
    "Scratch",
    "Selection",
    "Work",
    "check_all_done",
    "run",
    "run_cells",
]


class CellsFailed(RuntimeError):
    """Some cells raised an error; their rows say which."""


class NothingToRun(ValueError):
    """The request leaves no cell; the message is one line."""


@dataclass(frozen=True)
class Selection:
    """What the user wants of an experiment.

    parts
        Those named, or all; in the experiment's order.
    named
        Whether the user named any.
    """

    parts: list[str]
    named: bool = False
    quick: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Experiment:
    """A table or figure that can be run again.

    config
        A frozen dataclass with a `seed`: the settings on which every cell depends.
    parts
        What the user may name to run less, or a function of the settings that lists it.
    cells
        Lists the cells that settings and a selection ask for.
    work
        A top-level function of the settings and a cell's key, so that other machines can import
        it. What it returns becomes the row's `result`; an error that it raises is recorded.
    section
        Sums up all rows of the file in Markdown.
    draw
        Writes `<stem>.svg` and `<stem>.png` from the finished rows of the latest settings.
    quick
        Settings that the small version replaces.
    scratch
        Whether `work` keeps files, and takes a `Scratch` as its third argument.
    reuses
        Another experiment whose finished rows, of the same key and settings, are taken over.
    """

    name: str
    config: type
    parts: Iterable[str] | Callable[[Any], Iterable[str]]
    cells: Callable[[Any, Selection], list[Cell]]
    work: Work
    section: Callable[[Sequence[Row]], str]
    draw: Callable[[Sequence[Row], Path], None] | None = None
    quick: Mapping[str, Any] = field(default_factory=dict)
    scratch: bool = False
    reuses: str | None = None

    def settings(self, *, seed: int = 1, quick: bool = False) -> Any:
        """Return the settings of a run."""
        config = self.config(seed=seed)
        return replace(config, **self.quick) if quick else config

    def parts_of(self, config: Any) -> list[str]:
        """List the parts there are."""
        return list(self.parts(config) if callable(self.parts) else self.parts)

    def select(
        self, config: Any, only: Sequence[str] | None = None, *, quick: bool = False
    ) -> Selection:
        """Choose the parts that the user named, all by default."""
        known = self.parts_of(config)
        unknown = [part for part in only or () if part not in known]
        if unknown:
            raise NothingToRun(
                f"no part {unknown[0]!r} in this experiment; there are {', '.join(known)}"
            )
        parts = [part for part in known if part in (only or known)]
        return Selection(parts, bool(only), quick)


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
        known = row_files.read(path)
        finished, failed = row_files.done(known), {}
        if not retry_failed:
            failed = {i: row for i, row in row_files.failed(known).items() if i in by_identity}
        for row in _taken_over(experiment, [i for i in by_identity if i not in finished], out):
            log.append(row)
            finished[row.identity] = row
            failed.pop(row.identity, None)
        todo = [i for i in by_identity if i not in finished and i not in failed]
        folder = out.resolve() if experiment.scratch else None
        attempt = Attempt(name, experiment.work, config, folder)
        fresh: dict[str, Row] = {}
        with _workers(cluster if todo else None, jobs, tell) as workers:
            clock = Clock(
                name, by_identity, left=todo, earlier=finished, n_workers=workers.count, tell=tell
            )
            clock.start(len(failed))
            for crew, is_alone in ((workers, False), (Threads(1, tell), True)):
                batch = [by_identity[i] for i in todo if by_identity[i].alone == is_alone]
                with closing(crew.rows(attempt, batch)) as arriving:
                    for row in arriving:
                        log.append(row)
                        fresh[row.identity] = row
                        clock.tick(row)
    return [(failed | finished | fresh)[i] for i in by_identity]


def _workers(cluster: str | None, jobs: int, tell: Progress) -> AbstractContextManager[Workers]:
    if cluster is None:
        return nullcontext(Threads(jobs, tell))
    from papers.cluster import connected

    return connected(cluster, tell)


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


def _taken_over(experiment: Experiment, wanted: Iterable[str], out: Path) -> list[Row]:
    """Take finished rows of the experiment whose cells these are too."""
    if experiment.reuses is None:
        return []
    theirs = row_files.done(row_files.read(out / f"{experiment.reuses}.jsonl"))
    return [replace(theirs[i], experiment=experiment.name) for i in wanted if i in theirs]
