"""What numba keeps on disk of compiled loops, and what it does where it cannot."""

from __future__ import annotations

import os
from pathlib import Path

from bayesprop.moments.pbp import engine
from bayesprop.numerics import compiled


def test_compiles_where_no_folder_can_be_written_to(monkeypatch):
    real = compiled._jit

    def jit(**options):
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(compiled, "_jit", jit)
    assert compiled.compiled(lambda x: x + 1.0)(2.0) == 3.0


def test_compiled_code_is_as_young_as_its_source(tmp_path):
    """It is kept under a name that changes with every file that it may be made of."""
    file = tmp_path / "loops.py"
    file.write_text("")
    stamp = compiled.source_stamp.__wrapped__
    before = stamp(tmp_path)
    assert stamp(tmp_path) == before
    os.utime(file, ns=(1, 1))
    assert stamp(tmp_path) != before
    assert stamp(Path(engine.__file__).parent) in engine.absorb_rows.py_func.__qualname__
