"""Matrices are held to one BLAS thread while anybody asks for it."""

from __future__ import annotations

from threading import Event, Thread

from threadpoolctl import threadpool_info

from bayesprop.numerics.dense import one_blas_thread


def n_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blocks_that_overlap_share_one_thread_and_leave_nothing_behind():
    before, entered, leave = n_threads(), Event(), Event()

    def hold() -> None:
        with one_blas_thread():
            entered.set()
            leave.wait(10.0)

    other = Thread(target=hold)
    with one_blas_thread(), one_blas_thread():
        other.start()
        assert entered.wait(10.0)
    assert n_threads() == {1}
    leave.set()
    other.join()
    assert n_threads() == before
