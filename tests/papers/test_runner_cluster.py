"""A real scheduler and real workers: one killed in mid-run is survived, a deadly cell fails."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest
import slow_cells
from slow_cells import CELLS, NAME, Config

from bayesprop.scale import cluster
from bayesprop.scale.cluster import NoCluster
from benchmarks.machines import Machines
from papers import rows

pytest.importorskip("distributed")


def started(folder):
    return Machines(folder, slow_cells.PYTHONPATH.split(os.pathsep), allowed_failures=1)


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    found = started(tmp_path_factory.mktemp("dask"))
    try:
        found.add_worker()
        found.add_worker()
        yield found
    finally:
        found.stop()


@pytest.mark.exhaustive
def test_a_worker_killed_in_mid_run_is_survived(machines, tmp_path):
    told = []

    def tell(text):
        told.append(text)
        if len(told) == 4:
            os.kill(machines.workers[0].pid, signal.SIGKILL)

    config = Config(seconds=0.1)
    found = slow_cells.run(tmp_path, config, tell, cluster=machines.address)
    on_disk = rows.read(tmp_path / f"{NAME}.jsonl")
    assert Counter(row.cell["number"] for row in on_disk) == Counter(range(len(CELLS)))
    assert [row.result["square"] for row in found] == [n * n for n in range(len(CELLS))]
    pids = {row.result["process"] for row in found}
    assert pids <= {worker.pid for worker in machines.workers}
    assert machines.workers[0].wait(10.0) == -signal.SIGKILL
    last = {row.result["process"] for row in on_disk[-3:]}
    assert last == {machines.workers[1].pid}


def test_another_version_is_refused(machines, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "__version__", "99.0")
    with pytest.raises(NoCluster, match=r"^worker .* answers 0.*must have bayesprop 99.0"):
        slow_cells.run(tmp_path, Config(), cluster=machines.address)


def test_a_cell_that_kills_its_workers_fails_alone(machines, tmp_path):
    """Through joblib's own Dask backend this run would never end."""
    machines.add_worker()
    machines.add_worker()
    deadly = len(CELLS) // 2
    config = Config(deadly=deadly, seconds=0.05)
    found = slow_cells.run(tmp_path, config, cluster=machines.address)
    assert [row.is_done for row in found] == [n != deadly for n in range(len(CELLS))]
    assert found[deadly].error.startswith("KilledWorker: Attempted to run task")
    assert "\n" not in found[deadly].error


@pytest.mark.exhaustive
def test_a_scheduler_that_dies_is_named_and_what_was_done_stays(tmp_path):
    machines, told = started(tmp_path), []
    try:
        machines.add_worker()

        def tell(text):
            told.append(text)
            if len(told) == 4:
                machines.kill_scheduler()

        with pytest.raises(NoCluster, match=r"^the scheduler at tcp://.* is gone; the same"):
            slow_cells.run(tmp_path, Config(seconds=0.1), tell, cluster=machines.address)
    finally:
        machines.stop()
    assert 3 <= len(rows.read(tmp_path / f"{NAME}.jsonl")) < len(CELLS)


def test_a_cluster_that_does_not_answer_is_named_where_there_is_work(tmp_path):
    with pytest.raises(NoCluster, match="no Dask scheduler answers at 'moon'"):
        slow_cells.run(tmp_path, Config(), cluster="moon")
    done = slow_cells.run(tmp_path, Config())
    assert slow_cells.run(tmp_path, Config(), cluster="moon") == done  # nothing is left to do
