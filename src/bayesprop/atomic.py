"""Files that appear whole or not at all: written beside their place, synced, then renamed.

Who replaces a file holds a lock beside it, `.NAME.lock`, so that drafts (`.NAME.*.tmp`) that are
there without one were left by a kill. The system frees the lock of a process that ends.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_NAME_BYTES = 200  # of a draft's own name, of the 255 that a system allows
PATIENCE = 600.0
"""Seconds to wait for another process that replaces the same file."""


def write_atomically(
    path: str | Path,
    write: Callable[[BinaryIO], object],
    since: tuple[int, ...] | None = None,
) -> None:
    """Let `write` fill a new file, then put it in the place of `path`.

    Whatever goes wrong on the way (a full disk, Ctrl-C, a kill), a file that was at `path` before
    stays as it was. A symbolic link is followed; a device such as /dev/stdout is written to
    directly. Raises OSError.

    since
        The `version_of` the file when it was read: another file in its place is not replaced.
    """
    place = Path(os.path.realpath(path))
    if _is_device(place):
        with place.open("wb") as device:
            write(device)
        return
    if place.is_dir():
        raise IsADirectoryError(21, "is a folder, not a file", str(path))
    name, draft = _name(place), place.with_name(f".{_name(place)}.{secrets.token_hex(6)}.tmp")
    try:
        with alone(place):
            _remove_drafts(place.parent, name)
            with draft.open("xb") as file:
                if place.exists():
                    os.chmod(draft, stat.S_IMODE(place.stat().st_mode))
                write(file)
                file.flush()
                os.fsync(file.fileno())
            if since not in (None, version_of(place)):
                raise OSError(
                    errno.EBUSY, "another program replaced it since it was read: run this again"
                )
            os.replace(draft, place)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            # The system names the draft, or for a full disk nothing.
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    _sync_folder(place.parent)


def version_of(path: str | Path) -> tuple[int, ...]:
    """Return what tells the file at a path from another one put there; empty for no file."""
    try:
        at = os.stat(path)
    except FileNotFoundError:
        return ()
    return at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns


@contextmanager
def alone(
    path: str | Path, waits: Callable[[], object] = lambda: None, patience: float = PATIENCE
) -> Iterator[None]:
    """Keep other processes from replacing a file, from reading it until its new version is written.

    A thread that is alone with a file may enter again. Raises OSError where others hold the file
    for longer than the patience, in seconds.

    waits
        Called before waiting for another process.
    """
    from filelock import FileLock, Timeout

    place = Path(os.path.realpath(path))
    if _is_device(place):
        yield
        return
    os.stat(place.parent)  # which the lock would create
    lock = FileLock(place.with_name(f".{_name(place)}.lock"), is_singleton=True)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        waits()
        try:
            lock.acquire(timeout=patience)
        except Timeout as error:
            reason = f"another process holds it for more than {patience:g} s: run this again later"
            raise OSError(errno.EBUSY, reason, str(path)) from error
    try:
        yield
    finally:
        if lock.lock_counter == 1:  # who waited locks a file without a name, and tries again
            with suppress(OSError):
                os.unlink(lock.lock_file)
        lock.release()


def _is_device(place: Path) -> bool:
    return place.exists() and not place.is_file() and not place.is_dir()


def _name(place: Path) -> str:
    return os.fsdecode(os.fsencode(place.name)[:_NAME_BYTES])


def _remove_drafts(folder: Path, name: str) -> None:
    """Remove what killed processes left; to be called alone with the file."""
    for entry in os.listdir(folder):
        if re.fullmatch(rf"\.{re.escape(name)}\.[0-9a-f]{{12}}\.tmp", entry):
            with suppress(OSError):
                (folder / entry).unlink()


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself durable, where the system can open a folder."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        return
    finally:
        os.close(handle)
