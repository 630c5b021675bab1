"""Rows on disk: one JSON line a finished cell, whole after a kill, one writer at a time."""

from __future__ import annotations

import errno
import fcntl
import gzip
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


class RowsError(ValueError):
    """A file of rows that cannot be read; the message is one line."""


@dataclass(frozen=True)
class Row:
    """What came of one cell.

    cell, config
        What was run: the cell's key and the settings that all cells share.
    result
        What the cell's function returned; None if it failed. A number that was not finite is None.
    error
        Why it failed; None if it did not.
    seconds
        Wall time of the cell, reading of data included; of one that went on from files of its own,
        that of its last attempt.
    peak_mib
        Largest resident memory of the process until the cell ended, MiB.
    finished_at
        UTC, ISO 8601.
    version, commit
        Of this package; the commit where it runs from a git checkout.
    python, numpy, jax
        Their versions.
    """

    experiment: str
    cell: dict[str, Any]
    config: dict[str, Any]
    result: dict[str, Any] | None
    error: str | None
    seconds: float
    peak_mib: float
    finished_at: str
    version: str
    commit: str | None
    python: str
    numpy: str
    jax: str | None = None

    @property
    def identity(self) -> str:
        """Name of the cell under its settings: a finished row of this name is not run again."""
        return identity(self.cell, self.config)

    @property
    def is_done(self) -> bool:
        """Whether the cell has a result."""
        return self.result is not None


def identity(cell: dict[str, Any], config: dict[str, Any]) -> str:
    """Name of a cell under its settings, the same in every process."""
    return json.dumps([plain(cell), plain(config)], sort_keys=True, ensure_ascii=False)


def settings(config: Any) -> dict[str, Any]:
    """Return the settings of a dataclass as JSON values."""
    return plain(asdict(config))


def plain(value: Any) -> Any:
    """Turn tuples, arrays and NumPy scalars into JSON values, non-finite numbers into None."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def text(value: Any) -> str:
    """Return a plain value as JSON in one line."""
    return json.dumps(value, separators=(",", ":"))


def done(rows: Iterable[Row]) -> dict[str, Row]:
    """Keep the rows with a result, by the identity of their cells."""
    return {row.identity: row for row in rows if row.is_done}


def failed(rows: Iterable[Row]) -> dict[str, Row]:
    """Keep the last row of every cell that has failed and not succeeded, by identity."""
    rows = list(rows)
    finished = done(rows)
    return {row.identity: row for row in rows if row.identity not in finished}


def results(rows: Iterable[Row], **cell: Any) -> list[dict[str, Any]]:
    """Return the results of the cells whose keys hold these values."""
    found = (row for row in rows if all(row.cell.get(k) == v for k, v in cell.items()))
    return [row.result for row in found if row.result is not None]


def one_line(error: BaseException) -> str:
    """Say what an error is called and what it says."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def read(path: Path) -> list[Row]:
    """Read the rows of a file, none if it does not exist; a line cut short by a kill is left out.

    A whole row at the end is one even if an editor took its line's end. `.gz` is unpacked.

    Raises RowsError where a whole line is not a row.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    *lines, last = content.split(b"\n")
    lines += [last] if _is_row(last) else []
    return [_parsed(path, number, line) for number, line in enumerate(lines, 1)]


def _is_row(line: bytes) -> bool:
    try:
        Row(**json.loads(line))
    except (ValueError, TypeError):
        return False
    return True


def _parsed(path: Path, number: int, line: bytes) -> Row:
    try:
        return Row(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise RowsError(
            f"{path}, line {number}, is not a row of this version: delete the line to run its "
            "cell again, or name another folder"
        ) from error


class RowLog:
    """A file of rows that this process alone may extend."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle

    def append(self, row: Row) -> None:
        """Add one row for good; on a full disk, raise OSError and leave the file as it was."""
        line = text(plain(asdict(row))).encode() + b"\n"
        before = os.fstat(self._handle).st_size
        try:
            if os.write(self._handle, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, before)
            raise OSError(error.errno, error.strerror, os.fspath(self.path)) from error


@contextmanager
def opened(path: Path, *, waiting: Callable[[], None]) -> Iterator[RowLog]:
    """Hold a file of rows for writing; call `waiting` and wait while another process has it.

    The system gives the file free when a holder ends, however it ends. What a killed holder left
    of its last line is cut off.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        content = path.read_bytes()
        end = content.rfind(b"\n") + 1
        if _is_row(content[end:]):
            os.write(handle, b"\n")
        else:
            os.ftruncate(handle, end)
        yield RowLog(path, handle)
    finally:
        os.close(handle)
