"""What an experiment is: settings, cells named by keys, and a function from one cell to a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from papers.rows import Row

Progress = Callable[[str], None]
Key = dict[str, Any]
Work = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Cell:
    """One unit of work.

    key
        What tells it from the others, as JSON values, most telling first.
    cost
        Expected time, in any unit that all cells share; for the estimate of the time left.
    alone
        Whether nothing may run beside it, because it is timed.
    """

    key: Key
    cost: float = 1.0
    alone: bool = False


class Scratch(NamedTuple):
    """What a long cell needs besides its key.

    folder
        For files that outlive a killed cell, so that it goes on where it stopped; shared with the
        rows and with other experiments.
    tell
        Says how far the cell is.
    """

    folder: Path
    tell: Progress


def silent(_text: str) -> None:
    """Say nothing."""


def draws(full: int, *, quick: int) -> Callable[[Any, Selection], list[Cell]]:
    """Return what lists fits of every method, the parts, to that many draws of the data."""

    def cells(_config: Any, asked: Selection) -> list[Cell]:
        return [
            Cell({"method": method, "draw": draw})
            for draw in range(quick if asked.quick else full)
            for method in asked.parts
        ]

    return cells


def described(key: Key) -> str:
    """Say a cell's key in words: {"dataset": "yacht", "split": 3} is "yacht, split 3"."""
    first, *others = key.items()
    return ", ".join([str(first[1]), *(f"{name} {value}" for name, value in others)])


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
