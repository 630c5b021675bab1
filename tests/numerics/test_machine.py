"""A process lives through more compilations than it has memory maps for; which cores are idle."""

from __future__ import annotations

import os
from threading import Event, Thread

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from bayesprop.numerics import machine


@pytest.fixture
def few_maps(monkeypatch, tmp_path):
    """A system that grants this process ten maps."""
    (tmp_path / "most").write_text("10\n")
    monkeypatch.setattr(machine, "_MOST_MAPS", tmp_path / "most")


def test_programs_are_forgotten_when_they_crowd_the_process_and_compiled_again(few_maps):
    program = jax.jit(lambda x: jnp.tanh(x) + 2.0)
    before = np.asarray(program(jnp.ones(3)))
    assert program._cache_size() == 1
    assert machine.forget_when_crowded(every=0.0)
    assert program._cache_size() == 0
    np.testing.assert_array_equal(program(jnp.ones(3)), before)


def test_programs_stay_while_there_is_room_and_where_nobody_counts(monkeypatch, tmp_path):
    program = jax.jit(lambda x: jnp.tanh(x) - 2.0)
    program(jnp.ones(3))
    monkeypatch.setattr(machine, "_MOST_MAPS", tmp_path / "none")
    assert not machine.forget_when_crowded(0.0, every=0.0)
    (tmp_path / "none").write_text(str(2**31))
    assert not machine.forget_when_crowded(every=0.0)
    assert program._cache_size() == 1


def test_fits_look_after_it_every_second(few_maps, monkeypatch):
    now = [machine.time.monotonic() + 100.0]
    monkeypatch.setattr(machine.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(machine, "_last_count", [0.0])
    looked = []
    for seconds in (0.0, 0.5, 0.4, 0.1, 0.5, 1.5):
        now[0] += seconds
        looked.append(machine.forget_when_crowded())
    assert looked == [True, False, False, True, False, True]


@pytest.mark.parametrize(
    ("cores", "load", "idle"),
    [(2, 0.3, True), (2, 1.4, False), (1, 0.1, False), (64, None, False)],  # None: nobody knows
)
def test_a_core_is_idle_that_no_work_waits_for(monkeypatch, cores, load, idle):
    monkeypatch.setattr(machine, "n_cores", lambda: cores)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0), raising=False)
    if load is None:
        monkeypatch.delattr(os, "getloadavg")
    assert machine.is_core_idle() is idle


def n_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blocks_that_overlap_share_one_thread_and_leave_nothing_behind():
    before, entered, leave = n_threads(), Event(), Event()

    def hold() -> None:
        with machine.one_blas_thread():
            entered.set()
            leave.wait(10.0)

    other = Thread(target=hold)
    with machine.one_blas_thread(), machine.one_blas_thread():
        other.start()
        assert entered.wait(10.0)
    assert n_threads() == {1}
    leave.set()
    other.join()
    assert n_threads() == before


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 15, 1000])
def test_zeros_begin_with_a_cache_line(size, dtype):
    for _ in range(20):
        got = machine.aligned_zeros(size, dtype)
        assert (got.shape, got.dtype) == ((size,), dtype)
        assert not got.any()
        assert size == 0 or got.ctypes.data % machine.CACHE_LINE == 0
