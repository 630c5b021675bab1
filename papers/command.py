"""The command line of the experiments; light, because `--list` waits for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from bayesprop.cli import add_command, new_app, run_app
from bayesprop.cli.actions import WithJson, WithRemarks
from bayesprop.cli.console import note, print_json, print_table
from bayesprop.cli.options import argument, option, repeated, switch
from bayesprop.table.errors import InputError, did_you_mean, listing, one_line

if TYPE_CHECKING:
    from papers.registry import Entry

_SECONDS_BETWEEN_LINES = 60.0


@dataclass(frozen=True, kw_only=True)
class Papers(WithJson, WithRemarks):
    """Run an experiment of a paper again and set its figures beside ours."""

    summary: ClassVar = "Run an experiment of a paper again."
    examples: ClassVar = (
        "python -m papers --list",
        "python -m papers pbp-table1 --jobs 2",
        "python -m papers pbp-table1 --only boston --only yacht --quick",
    )

    name: str | None = argument("[NAME]", "A table or figure of a paper.", default=None)
    list_them: bool = switch("List experiments, or NAME's parts.", "--list")
    quick: bool = switch("A small version, in seconds.", "--quick")
    jobs: int = option("Parallel jobs; -1 for one a core.", default=1, metavar="N")
    out: Path | None = option("Folder. Default: results.", "--out", "-o", metavar="DIR")  # noqa: RUF009
    only: tuple[str, ...] = repeated("Only this part; repeatable.", metavar="PART")
    seed: int = option("Fixes every random draw.", default=1, min=0, max=2**32 - 1, metavar="N")
    retry_failed: bool = switch("Try cells again that have failed before.", "--retry-failed")
    cluster: str | None = option("A Dask scheduler, tcp://..., does it.", metavar="ADDRESS")


def run(options: Papers) -> None:
    """List the experiments, or run one of them."""
    from papers.registry import EXPERIMENTS

    out = options.out if options.out is not None else Path("results")
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder")
    if options.list_them and options.name is None:
        _list(EXPERIMENTS, out, as_json=options.as_json)
        return
    experiment = _find(EXPERIMENTS, options.name)
    if options.list_them:
        _describe(experiment, out, options)
        return
    if options.jobs == 0:
        raise InputError("--jobs must be 1 or more, or -1 for one a core; got 0")
    if options.cluster is not None and options.jobs != 1:
        raise InputError("--jobs is for this machine: a --cluster has its own; leave out one")
    from papers import runner

    with _line(quiet=options.quiet) as tell:
        runner.run(
            experiment.load(),
            out=out,
            quick=options.quick,
            only=list(options.only) or None,
            seed=options.seed,
            jobs=options.jobs,
            cluster=options.cluster,
            retry_failed=options.retry_failed,
            tell=tell,
        )
    _tell(experiment.name, out, options)


def _tell(name: str, out: Path, options: Papers) -> None:
    """Print the section that the experiment wrote, and say where the rest lies."""
    files = sorted(out.glob(f"{name}.*"))
    if options.as_json:
        print_json({"experiment": name, "out": str(out), "files": [str(file) for file in files]})
        return
    section = out / f"{name}.md"
    if section in files:
        print(section.read_text(encoding="utf-8"))
    note(f"results: {listing([str(file) for file in files]) or out}", quiet=options.quiet)


def _list(experiments: dict[str, Entry], out: Path, *, as_json: bool) -> None:
    """Print the experiments paper by paper, with the cells that a folder holds."""
    cells = {name: _cells(out / f"{name}.jsonl") for name in experiments}
    papers: dict[str, list[Entry]] = {}
    for entry in experiments.values():
        papers.setdefault(entry.paper, []).append(entry)
    if as_json:
        print_json(
            {
                "experiments": {e.name: e.summary for e in experiments.values()},
                "papers": {paper: [e.name for e in found] for paper, found in papers.items()},
                "out": str(out),
                "cells": {name: found._asdict() for name, found in cells.items() if sum(found)},
            }
        )
        return
    for paper, entries in papers.items():
        rows = [(e.name, e.summary, cells[e.name].words()) for e in entries]
        print()
        print_table(f"{paper[:1].upper()}{paper[1:]}", ("experiment", "what", f"in {out}"), rows)


def _describe(entry: Entry, out: Path, options: Papers) -> None:
    """Print what one experiment is, and the parts that --only may name."""
    experiment = entry.load()
    parts = experiment.parts_of(experiment.settings(quick=options.quick))
    cells = _cells(out / f"{entry.name}.jsonl")
    if options.as_json:
        about = {"experiment": entry.name, "summary": entry.summary, "paper": entry.paper}
        print_json(about | {"parts": parts, "out": str(out), "cells": cells._asdict()})
        return
    print(f"{entry.name}: {entry.summary}; {entry.paper}")
    print(f"parts: {', '.join(parts)}")
    print(f"in {out}: {cells.words() or 'nothing'}")


class _Cells(NamedTuple):
    """How many cells of a file have a result, and how many have failed."""

    done: int
    failed: int

    def words(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done} cells{failed}" if sum(self) else ""


def _cells(path: Path) -> _Cells:
    from papers import rows

    found = rows.read(path)
    return _Cells(len(rows.done(found)), len(rows.failed(found)))


def _find(experiments: dict[str, Entry], name: str | None) -> Entry:
    known = ", ".join(experiments)
    if name is None:
        raise InputError(f"name an experiment: {known}")
    if name not in experiments:
        hint = did_you_mean(name, experiments)
        raise InputError(f"no experiment {one_line(name)!r}{hint}; there are: {known}")
    return experiments[name]


@contextmanager
def _line(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield what shows progress: one changing line of a terminal, of a log a line a minute."""
    if quiet:
        yield lambda _text: None
        return
    if not sys.stderr.isatty():
        yield _now_and_then()
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(Text(one_line(text)))


def _now_and_then() -> Callable[[str], None]:
    """Return what prints a line if the last one, or the start, is a minute ago."""
    last = time.monotonic()

    def tell(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            note(text)

    return tell


app = new_app()
add_command(app, Papers, run)


def main(words: Sequence[str], *, name: str) -> int:
    """Do what the words ask for and return the exit code.

    name
        Of the program, as typed.
    """
    return run_app(app, words, name=name)
