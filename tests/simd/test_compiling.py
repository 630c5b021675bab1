"""What numba keeps on disk, and what it does where it cannot."""

from __future__ import annotations

from pathlib import Path

from bayesprop.moments.pbp import engine
from bayesprop.simd import lanes


def test_compiles_where_no_folder_can_be_written_to(monkeypatch):
    real = lanes._jit

    def jit(**options):
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(lanes, "_jit", jit)
    assert lanes.compiled(lambda x: x + 1.0)(2.0) == 3.0


def test_compiled_code_is_as_young_as_its_source():
    folder = Path(engine.__file__).parent
    names = [name for name, *_ in lanes.source_stamp(folder)]
    assert {"engine.py", "kernel_layers.py", "state.py", "lanes.py"} <= set(names)
