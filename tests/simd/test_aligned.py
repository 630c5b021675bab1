"""Arrays for compiled loops."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop.simd.aligned import aligned_zeros, round_up


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 15, 1000])
def test_zeros_begin_with_a_cache_line(size, dtype):
    for _ in range(20):
        found = aligned_zeros(size, dtype)
        assert found.shape == (size,)
        assert found.dtype == dtype
        assert found.flags.c_contiguous
        assert found.flags.writeable
        assert not found.any()
        assert size == 0 or found.ctypes.data % 64 == 0


@pytest.mark.parametrize(("n", "expected"), [(0, 0), (1, 16), (16, 16), (17, 32)])
def test_rounds_up(n, expected):
    assert round_up(n, 16) == expected
