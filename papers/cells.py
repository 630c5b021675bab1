"""What an experiment is made of: cells, each named by a key, and where their work keeps files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Progress = Callable[[str], None]
Key = dict[str, Any]
Work = Callable[..., dict[str, Any]]

_REPETITIONS = ("split", "repeat", "draw", "fold", "run", "member")
"""Names in a key that number repetitions of the same work."""


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


def described(key: Key) -> str:
    """Say a cell's key in words: {"dataset": "yacht", "split": 3} is "yacht, split 3"."""
    first, *others = key.items()
    return ", ".join([str(first[1]), *(f"{name} {value}" for name, value in others)])


def kind(key: Key) -> tuple[Any, ...]:
    """Name the work that a cell repeats: cells of a kind take about the same time."""
    return tuple(repr(item) for item in key.items() if item[0] not in _REPETITIONS)
