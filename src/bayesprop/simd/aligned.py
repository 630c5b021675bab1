"""Arrays that compiled loops read a register at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

_CACHE_LINE = 64  # bytes, and the widest register


def aligned_zeros(size: int, dtype: Any = np.float64) -> np.ndarray:
    """Return zeros that begin with a cache line: a register that spans two costs twice."""
    n_bytes = size * np.dtype(dtype).itemsize
    room = np.zeros(n_bytes + _CACHE_LINE, np.uint8)
    start = -room.ctypes.data % _CACHE_LINE
    return room[start : start + n_bytes].view(dtype)


def round_up(n: int, step: int) -> int:
    """Return the least multiple of `step` that is n or more."""
    return -(-n // step) * step
