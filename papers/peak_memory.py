"""The largest memory that a process held while a cell ran."""

from __future__ import annotations

import itertools
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_lock = Lock()
_number = itertools.count()
_peaks: dict[int, float] = {}


class Peak:
    """Largest resident memory, MiB, known when the block ends."""

    mib = 0.0


@contextmanager
def watched() -> Iterator[Peak]:
    """Watch the largest resident memory of this process while a block runs.

    Of all of the process: its libraries, and blocks in other threads at the same time. Where the
    system cannot forget an earlier peak (elsewhere than on Linux), it is the largest so far.
    """
    mine, found = next(_number), Peak()
    with _lock:
        _note()
        _forget()
        _peaks[mine] = _resident_peak()
    try:
        yield found
    finally:
        with _lock:
            _note()
            found.mib = round(_peaks.pop(mine), 1)


def _note() -> None:
    """Raise the peak of every block that is running to what the system says."""
    now = _resident_peak() if _peaks else 0.0
    for block in _peaks:
        _peaks[block] = max(_peaks[block], now)


def _forget() -> None:
    """Let the system's peak start from what is resident now."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return


def _resident_peak() -> float:
    try:
        return int(re.findall(r"VmHWM:\s+(\d+) kB", _STATUS.read_text())[0]) / 2.0**10
    except (OSError, IndexError):
        unit = 2.0**20 if sys.platform == "darwin" else 2.0**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
