"""A journal: records that are appended to files in a folder, and there again after any kill.

A record is a line of text, `LENGTH CHECK CHECK JSON`. LENGTH is that of the JSON and its newline in
bytes; the first check covers it and the number of the record, the second the JSON as well; all are
eight hexadecimal digits, the checks CRC-32. So a record that was cut off by a kill is told from one
that was damaged later. Records are numbered from 0 and lie in parts, `records-N.log`, the first of
which has the number N and which all begin with a line that names the journal.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bayesprop.atomic import write_atomically
from bayesprop.store import ModelFileError

SCHEMA = 1
LOCK = "lock"
_MAGIC = b"bayesprop-journal"
_HEAD = len("00000000 00000000 ")
_PREFIX = _HEAD + len("00000000 ")


class Lock:
    """The right to write in a folder, for one process; ModelFileError while another has it.

    The system takes it back when the process ends, in whatever way.
    """

    def __init__(self, folder: Path) -> None:
        try:
            import fcntl
        except ImportError:
            raise ModelFileError("a journal needs the file locks of Linux, macOS or BSD") from None
        try:
            handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise _unwritable(folder / LOCK, error) from error
        self.release = weakref.finalize(self, os.close, handle)
        self._owner = os.getpid()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            raise ModelFileError(
                f"folder {_shown(folder)} is in use: one process at a time may write a journal"
            ) from error

    def check(self) -> None:
        """Raise RuntimeError in a process that did not take the lock, such as a forked one."""
        if os.getpid() != self._owner:
            raise RuntimeError(
                f"this journal belongs to process {self._owner}, and this is {os.getpid()}: open it"
                " in the process that uses it"
            )


class Part(NamedTuple):
    """One file of a journal.

    records
        All that are whole.
    size
        Bytes up to the end of the last of them.
    """

    records: list[dict[str, Any]]
    size: int


class Journal:
    """The end of a journal, to append to; `Lock` must be held. `create` or `open` makes one.

    sync
        Whether every record is on the disk, not only with the system, before `append` returns.
    """

    def __init__(self, folder: Path, identity: str, n_records: int, *, sync: bool) -> None:
        self.folder, self.identity, self.n_records, self.sync = folder, identity, n_records, sync
        self._first = n_records
        self._close: Any = None

    @classmethod
    def create(cls, folder: Path, *, sync: bool) -> Journal:
        """Begin an empty journal; one that has records is refused."""
        for path in _paths(folder).values():
            if path.stat().st_size > len(_title(secrets.token_hex(16), 0)):
                raise ModelFileError(
                    f"folder {_shown(folder)} has records but lacks the snapshot that they follow:"
                    " bring it back, or take another folder"
                )
            path.unlink()
        journal = cls(folder, secrets.token_hex(16), 0, sync=sync)
        journal._start_part()
        return journal

    @classmethod
    def open(
        cls, folder: Path, identity: str, first: int, *, sync: bool
    ) -> tuple[Journal, list[dict[str, Any]]]:
        """Return a journal at its end, and its records from number `first` on.

        A last record that was cut off is dropped: the call that wrote it never returned. Anything
        else that is wrong is a ModelFileError.
        """
        records: list[dict[str, Any]] = []
        journal, size = cls(folder, identity, first, sync=sync), 0
        for part in parts(folder, first, identity):
            journal._first = first + len(records)
            records += part.records
            size = part.size
        journal.n_records = first + len(records)
        journal._append_to(_path(folder, journal._first), size)
        return journal, records

    def append(self, record: dict[str, Any]) -> None:
        """Add a record. If it cannot be written, ModelFileError: none was added."""
        line = _line(self.n_records, record)
        try:
            _write(self._handle, line)
            if self.sync:
                os.fsync(self._handle)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.truncate(self._handle, self._size)
            raise _unwritable(_path(self.folder, self._first), error) from error
        self._size += len(line)
        self.n_records += 1

    def start_part(self) -> None:
        """Let the next record begin a new file; all before it are on the disk then."""
        if self._first != self.n_records:
            os.fsync(self._handle)
            self._start_part()

    def forget_parts(self) -> None:
        """Delete all files but the last."""
        for first, path in _paths(self.folder).items():
            if first < self._first:
                path.unlink()

    def close(self) -> None:
        """Append no more."""
        self._close()

    def _start_part(self) -> None:
        path, title = _path(self.folder, self.n_records), _title(self.identity, self.n_records)
        try:
            write_atomically(path, lambda file: file.write(title))
        except OSError as error:
            raise _unwritable(path, error) from error
        self._append_to(path, len(title))
        self._first = self.n_records

    def _append_to(self, path: Path, size: int) -> None:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_APPEND)
            if os.fstat(handle).st_size != size:
                os.truncate(handle, size)
        except OSError as error:
            raise _unwritable(path, error) from error
        if self._close is not None:
            self._close()
        self._handle, self._size = handle, size
        self._close = weakref.finalize(self, os.close, handle)


def parts(folder: Path, first: int | None = None, identity: str | None = None) -> Iterator[Part]:
    """Read the files of a journal, while it is written or not; ModelFileError for a damaged one.

    first
        Number of a record that begins a file: earlier ones are not read. None: the oldest there is.
    identity
        Of the journal; None: that of the first file.
    """
    paths = _paths(folder)
    following = min(paths, default=0) if first is None else first
    for number in sorted(n for n in paths if n >= following):
        if number != following:
            break
        content, is_last = _content(paths[number]), number == max(paths)
        identity = identity or _identity(content)
        try:
            part = _part(content, identity, number, is_last=is_last)
        except ValueError as error:
            raise ModelFileError(f"journal {_shown(paths[number])} {error}") from error
        following += len(part.records)
        yield part
        if is_last:
            return
    raise ModelFileError(
        f"folder {_shown(folder)} lacks the file with record {following}: bring it back"
    )


def drafts(folder: Path) -> Iterator[Path]:
    """Files that a kill left half written, in the folder of a journal."""
    return folder.glob(".records-*.tmp")


def _part(content: bytes, identity: str, first: int, *, is_last: bool) -> Part:
    title = _title(identity, first)
    _check_title(content, title)
    records: list[dict[str, Any]] = []
    place = len(title)
    while place < len(content):
        rest = content[place : place + _PREFIX]
        length = _length(rest, first + len(records))
        end = place + _PREFIX + (length or 0)
        if length is None or end > len(content):
            unfinished = length is not None or len(rest) < _HEAD or not any(content[place:])
            if is_last and unfinished:
                return Part(records, place)
            raise ValueError(f"is damaged after {place} bytes, in record {first + len(records)}")
        body = content[place + _PREFIX : end]
        if content[place:end] != _sealed(first + len(records), body):
            raise ValueError(f"is damaged after {place} bytes, in record {first + len(records)}")
        records.append(json.loads(body))
        place = end
    return Part(records, place)


def _check_title(content: bytes, title: bytes) -> None:
    if content.startswith(title):
        return
    words = content[:200].split(b"\n")[0].split(b" ")
    if words[0] != _MAGIC or len(words) < 2:
        raise ValueError("is damaged, or no journal: it does not begin as one")
    if words[1].isdigit() and int(words[1]) > SCHEMA:
        raise ValueError(f"has schema {int(words[1])}, this bayesprop reads {SCHEMA}: upgrade it")
    raise ValueError("is damaged, or of another journal: its first line is not the expected one")


def _length(rest: bytes, number: int) -> int | None:
    """Return the length of a record's body from its beginning; None if that is cut off or wrong."""
    try:
        length = int(rest[:8], 16)
    except ValueError:
        return None
    return length if rest[:_HEAD] == _head(number, length) else None


def _line(number: int, record: dict[str, Any]) -> bytes:
    body = json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    return _sealed(number, body)


def _sealed(number: int, body: bytes) -> bytes:
    head = _head(number, len(body))
    return head + b"%08x " % zlib.crc32(body, zlib.crc32(head)) + body


def _head(number: int, length: int) -> bytes:
    return b"%08x %08x " % (length, zlib.crc32(b"%d %d" % (number, length)))


def _title(identity: str, first: int) -> bytes:
    words = b"%s %d %s %012d" % (_MAGIC, SCHEMA, identity.encode(), first)
    return words + b" %08x\n" % zlib.crc32(words)


def _identity(content: bytes) -> str:
    words = content[:200].split(b" ")
    return words[2].decode(errors="replace") if len(words) > 2 else ""


def _path(folder: Path, first: int) -> Path:
    return folder / f"records-{first:012d}.log"


def _paths(folder: Path) -> dict[int, Path]:
    """Return the files of a journal by the number of their first record."""
    numbers = [path.name[8:-4] for path in folder.glob("records-*.log")]
    return {int(n): _path(folder, int(n)) for n in numbers if len(n) == 12 and n.isdigit()}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelFileError(f"cannot read journal {_shown(path)}: {reason}") from error


def _write(handle: int, content: bytes) -> None:
    written = 0
    while written < len(content):
        written += os.write(handle, content[written:])


def _unwritable(path: Path, error: OSError) -> ModelFileError:
    return ModelFileError(f"cannot write journal {_shown(path)}: {error.strerror or error}")


def _shown(path: Path) -> str:
    return repr(str(path)[:200])
