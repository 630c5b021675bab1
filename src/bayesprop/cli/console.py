"""What goes to stdout (results) and to stderr (warnings, progress)."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bayesprop.table.errors import one_line

_PIPE_WIDTH = 120


def print_json(value: Any) -> None:
    """Print one JSON object; a number that is not finite becomes null."""
    print(json.dumps(plain(value), ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Turn arrays, tuples and numpy scalars into what JSON knows, non-finite numbers into None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def warn(sentences: Iterable[str]) -> None:
    """Print each sentence as one "warning: ..." line on stderr."""
    for sentence in sentences:
        print(f"warning: {one_line(sentence)}", file=sys.stderr)


def note(text: str, *, quiet: bool = False) -> None:
    """Print a line for a person on stderr."""
    if not quiet:
        print(one_line(text), file=sys.stderr, flush=True)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Container[int] = (),
) -> None:
    """Print a small table on stdout; the numbers of the columns in `right` end flush."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if title:
        print(one_line(title))
    table = Table(box=None, pad_edge=False)
    for index, name in enumerate(columns):
        justify = "right" if index in right else "left"
        table.add_column(Text(one_line(name)), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    Console(markup=False, highlight=False, emoji=False, width=width).print(table)


@contextmanager
def progress(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Show a spinner on stderr while something runs, if stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(one_line(text))):
        yield


def figure(value: float | None) -> str:
    """Format a number for a person: four significant digits, a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:#.4g}".rstrip(".")
