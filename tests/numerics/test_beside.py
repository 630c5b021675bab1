"""A function that runs in another process while an entry point is compiled."""

from __future__ import annotations

import importlib
import sys
import time
from contextlib import nullcontext

import pytest

from bayesprop.numerics import machine

SOURCE = """
import time
from bayesprop.numerics.compiled import compiled

@compiled
def first(x):
    return x + 1.0

@compiled
def then(x):
    return 2.0 * x

def rehearse():
    then(1.0)

def sleep():
    time.sleep(60.0)
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    (tmp_path / "programs_of_a_test.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(machine, "is_core_idle", lambda: True)
    monkeypatch.delitem(sys.modules, "programs_of_a_test", raising=False)
    return importlib.import_module("programs_of_a_test")


def test_what_another_process_compiled_is_not_compiled_here(programs):
    with machine.compiled_beside(programs.first, "programs_of_a_test:rehearse"):
        assert programs.first(1.0) == 2.0
    assert programs.then(2.0) == 4.0
    assert sum(programs.then.stats.cache_hits.values()) == 1
    assert not programs.then.stats.cache_misses


@pytest.mark.parametrize("is_idle", [False, True])
def test_no_process_starts_on_busy_cores_or_for_what_is_compiled(programs, monkeypatch, is_idle):
    if is_idle:
        programs.first(1.0)
    monkeypatch.setattr(machine, "is_core_idle", lambda: is_idle)
    monkeypatch.setattr(machine, "_started", lambda _: pytest.fail("a process was started"))
    with machine.compiled_beside(programs.first, "programs_of_a_test:rehearse"):
        assert programs.first(1.0) == 2.0


@pytest.mark.parametrize("executable", ["", "/nowhere/python", sys.executable])
def test_where_it_fails_this_process_compiles(programs, monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    with machine.compiled_beside(programs.first, "programs_of_a_test:unknown"):
        assert programs.first(1.0) == 2.0
    assert programs.then(2.0) == 4.0


@pytest.mark.parametrize("fails", [True, False])
def test_a_process_that_hangs_is_not_waited_for(programs, monkeypatch, fails):
    """An error here ends it at once."""
    monkeypatch.setattr(machine, "_PATIENCE", 60.0 if fails else 0.5)
    started = time.monotonic()
    ends = pytest.raises(RuntimeError, match="here") if fails else nullcontext()
    with ends, machine.compiled_beside(programs.first, "programs_of_a_test:sleep"):
        programs.first(1.0)
        if fails:
            raise RuntimeError("here")
    assert time.monotonic() - started < 30.0
