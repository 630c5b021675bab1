"""Files that appear whole or not at all: written beside their place, synced, then renamed."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_NAME_BYTES = 200  # of a draft's own name, of the 255 that a system allows


def write_atomically(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a new file, then put it in the place of `path`.

    Whatever goes wrong on the way (a full disk, Ctrl-C, a kill), a file that was at `path` before
    stays as it was. A symbolic link is followed; a device such as /dev/stdout is written to
    directly. Raises OSError.
    """
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file() and not place.is_dir():
        with place.open("wb") as device:
            write(device)
        return
    if place.is_dir():
        raise IsADirectoryError(21, "is a folder, not a file", str(path))
    name = os.fsdecode(os.fsencode(place.name)[:_NAME_BYTES])
    draft = place.with_name(f".{name}.{secrets.token_hex(6)}.tmp")
    try:
        with draft.open("xb") as file:
            if place.exists():
                os.chmod(draft, stat.S_IMODE(place.stat().st_mode))
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, place)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            # The system names the draft, or for a full disk nothing.
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    _sync_folder(place.parent)


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
