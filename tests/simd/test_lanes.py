"""Arrays for compiled loops; what numba keeps on disk, and what it does where it cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bayesprop.numerics import machine
from bayesprop.simd import lanes
from bayesprop.tabular_default import training


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 15, 1000])
def test_zeros_begin_with_a_cache_line(size, dtype):
    for _ in range(20):
        got = machine.aligned_zeros(size, dtype)
        assert got.shape == (size,)
        assert got.dtype == dtype
        assert not got.any()
        assert size == 0 or got.ctypes.data % 64 == 0


def test_compiles_where_no_folder_can_be_written_to(monkeypatch):
    real = lanes._jit

    def jit(**options):
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(lanes, "_jit", jit)
    assert lanes.compiled(lambda x: x + 1.0)(2.0) == 3.0


def test_compiled_code_is_as_young_as_its_source():
    names = [name for name, *_ in lanes.source_stamp(Path(training.__file__).parent)]
    assert {"training.py", "kernel_member.py", "lanes.py"} <= set(names)
