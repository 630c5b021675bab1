"""Numbers too small for a normal float, in compiled loops and after them."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from bayesprop.numerics.compiled import compiled, flush_subnormals, restore

HALF = np.float32(0.5)


@compiled
def halves(values, flushes):
    """Halve sixteen numbers as often as there are others."""
    before = flush_subnormals()
    if not flushes:
        restore(before)
    for _ in range(values.shape[0] // 16):
        for k in range(16):
            values[k] = HALF * values[k]
    restore(before)


@pytest.mark.parametrize("flushes", [False, True])
def test_they_are_zero_in_a_loop_that_flushes_them_and_nowhere_else(flushes):
    least = np.finfo(np.float32).tiny
    values = np.full(48, least, np.float32)
    halves(values, flushes)
    has_control_word = platform.machine().lower() in ("x86_64", "amd64")
    expected = 0.0 if flushes and has_control_word else least / 8.0
    assert values[0] == expected
    assert np.float32(least) / np.float32(8.0) == least / 8.0 > 0.0
