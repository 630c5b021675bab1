"""Shards on a real scheduler with real workers, some of them killed: the same bytes."""

from __future__ import annotations

import signal
import sys
import threading
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayesprop
from bayesprop import BayesianLogisticClassifier, PBPRegressor, fit_shards
from bayesprop.cli import main
from bayesprop.scale import all_rows, cluster
from bayesprop.scale.cluster import connected
from benchmarks.machines import Machines

pytest.importorskip("distributed")
RNG = np.random.default_rng(4)
X = RNG.normal(size=(9000, 4))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.standard_normal(9000)
LABELS = np.where(X[:, 0] + RNG.standard_normal(9000) > 0.0, "yes", "no")
SHARDS = [(X[k::4], Y[k::4]) for k in range(4)]
MODEL = PBPRegressor((10,), n_epochs=20, random_state=0)


def same(one, other):
    arrays = one.to_stored().arrays
    return all(np.array_equal(array, arrays[k]) for k, array in other.to_stored().arrays.items())


def later(seconds, job):
    timer = threading.Timer(seconds, job)
    timer.start()
    return timer


@pytest.fixture
def machines(tmp_path):
    folder = tmp_path / "dask"
    folder.mkdir()
    ours = Machines(folder)
    try:
        ours.add_worker()
        ours.add_worker()
        yield ours
    finally:
        ours.stop()


@pytest.mark.exhaustive
def test_a_worker_killed_in_mid_round_changes_nothing(machines):
    expected = fit_shards(MODEL, SHARDS)
    with connected(machines.address, "") as client:
        client.wait_for_workers(2, timeout=60.0)
        assert same(fit_shards(MODEL, SHARDS, executor=client), expected)
        futures = [client.submit(tuple, shard) for shard in SHARDS]
        assert same(fit_shards(MODEL, futures, executor=client), expected)
        by_site = [(X[k::3], LABELS[k::3]) for k in range(3)]
        here = fit_shards(BayesianLogisticClassifier(), by_site)
        there = fit_shards(BayesianLogisticClassifier(), by_site, executor=client)
        np.testing.assert_allclose(there.predict_proba(X), here.predict_proba(X), rtol=1e-7)
        timer = later(0.3, machines.workers[0].kill)
        killed = [fit_shards(MODEL, SHARDS, executor=client) for _ in range(3)]
        timer.join()
        assert machines.workers[0].wait(10.0) == -signal.SIGKILL
        assert all(same(one, expected) for one in killed)
        broken = client.submit(pl.read_csv, "no such file")
        with pytest.raises(ValueError, match=r"shard 1: .*No such file"):
            fit_shards(MODEL, [SHARDS[0], broken], executor=client)


@pytest.mark.exhaustive
def test_a_scheduler_killed_costs_a_round(machines, tmp_path, capsys):
    table, file = tmp_path / "table.csv", tmp_path / "fit.rounds"
    pl.DataFrame({f"x{k}": X[:, k] for k in range(4)} | {"y": Y}).write_csv(table)
    shards = ["--shards", "4", "--rounds", "50", "--epochs", "100"]
    words = ["fit", str(table), "--target", "y", "--method", "pbp", *shards, "--quiet"]

    def kill_after_a_round():
        while not file.exists():
            time.sleep(0.01)
        machines.kill_scheduler()

    timer = later(0.0, kill_after_a_round)
    lost, whole, resumed = (tmp_path / f"{name}.bayesprop" for name in ("no", "whole", "resumed"))
    cluster = ["--cluster", machines.address, "--checkpoint", str(file)]
    assert main([*words, *cluster, "--out", str(lost)]) == 2
    timer.join()
    error = capsys.readouterr().err.strip()
    assert error.startswith(
        f"error: the scheduler at {machines.address} is gone; start it again: the same"
    )
    assert not lost.exists()
    assert main([*words, "--out", str(whole)]) == 0
    assert main([*words, "--checkpoint", str(file), "--out", str(resumed)]) == 0
    assert same(*(bayesprop.load(path).estimator for path in (whole, resumed)))


@pytest.mark.exhaustive
def test_partitions_of_a_dask_frame_are_shards(machines, monkeypatch):
    dd = pytest.importorskip("dask.dataframe")
    delayed = pytest.importorskip("dask").delayed
    monkeypatch.setattr(all_rows, "SAMPLE_ROWS", 2000)
    kind, site = RNG.choice(["a", "b"], len(X)), RNG.integers(0, 50, len(X))
    columns = {f"x{k}": X[:, k] for k in range(4)}
    frame = pd.DataFrame(columns | {"kind": kind, "y": Y + (kind == "a"), "site": site})
    apart = dd.from_pandas(frame, npartitions=3)
    how = {"target": "y", "drop": "site", "method": "linear"}
    with pytest.raises(ValueError, match=r"create a dask\.distributed\.Client first"):
        bayesprop.fit(apart, **how)
    with pytest.raises(ValueError, match="which has partitions"):
        bayesprop.fit(apart, shards=2, **how)
    how["cluster"] = machines.address
    model = bayesprop.fit(apart, **how)
    assert model.notes.rows == {"train": 8800, "held_out": 200}
    one = bayesprop.fit(frame, test_fraction=0.0, **{**how, "cluster": None})
    np.testing.assert_allclose(model.predict(frame)["mean"], one.predict(frame)["mean"], atol=0.05)
    pbp = bayesprop.fit(apart, **{**how, "method": "pbp"}, rounds=2, n_epochs=4)
    assert pbp.fitted.judged.scores["model"]["rmse"] < 0.3
    grouped = bayesprop.fit(
        apart, target="y", group="site", method="linear", cluster=how["cluster"]
    )
    out = np.isin(site, np.unique(grouped.fitted.judged.rows.group).astype(int))
    assert grouped.notes.rows["train"] == np.sum(~out)
    frame["y"] = frame["y"].astype(object)
    frame.iloc[8000, frame.columns.get_loc("y")] = "oops"
    with pytest.raises(ValueError, match=r"^shard 2: column 'y' must .* in data row 8001:"):
        bayesprop.fit(dd.from_pandas(frame, npartitions=3), **how)
    read = [delayed(pd.read_parquet)(f"no {name}.parquet") for name in "ab"]
    missing = dd.from_delayed(read, meta=frame.iloc[:0], verify_meta=False)
    with pytest.raises(ValueError, match=r"^shard 0: .*no a\.parquet"):
        bayesprop.fit(missing, **how)


def test_a_cluster_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.2)
    frame = pl.DataFrame({"x": X[:400, 0], "y": Y[:400]})
    how = {"target": "y", "method": "linear", "shards": 2}
    with pytest.raises(ValueError, match=r"no Dask scheduler answers at 'tcp://127.0.0.1:9'"):
        bayesprop.fit(frame, cluster="tcp://127.0.0.1:9", **how)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        ValueError, match=r"^a cluster needs Dask: pip install 'dask\[distributed\]'"
    ):
        bayesprop.fit(frame, cluster="tcp://127.0.0.1:9", **how)
