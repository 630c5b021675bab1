"""`fit --shards`: the model of all rows, and what is refused in a line."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop.scale import shards
from bayesprop.table_model import sources


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "START_ROWS", 60)
    rng = np.random.default_rng(0)
    x, group = rng.normal(size=400), rng.choice(["f", "m"], 400)
    y = 2.0 * x + (group == "f") + 0.1 * rng.standard_normal(400)
    pl.DataFrame({"x": x, "group": group, "y": y}).write_csv(tmp_path / "t.csv")
    return tmp_path / "t.csv"


def test_rounds_go_on_and_python_does_the_same(cli, table, tmp_path):
    out, file = tmp_path / "m.bayesprop", tmp_path / "m.rounds"
    words = ("--method", "pbp", "--epochs", "4", "--shards", "3", "--rounds", "2", "--quiet")
    for _ in range(2):
        done = cli("fit", table, "-t", "y", *words, "--checkpoint", file, "-o", out)
        assert (done.code, file.exists()) == (0, True), done.err
    how = {"target": "y", "method": "pbp", "n_epochs": 4}
    model = bayesprop.fit(table, shards=3, rounds=2, checkpoint=file, **how)
    expected = bayesprop.load(out).predict(table)["mean"]
    np.testing.assert_array_equal(model.predict(table)["mean"], expected)
    assert "shards=3, rounds=2" in model.notes.command


def test_what_shards_cannot_do_is_refused(cli, table, tmp_path, monkeypatch):
    fit, out = ("fit", table, "-t", "y"), tmp_path / "m.bayesprop"
    shared = ("--shards", "2", "--method", "pbp")
    for more, error in (
        (("--shards", "2"), "shards are learnt by linear, logistic, pbp and closed-form-vi"),
        (("--rounds", "2"), "--rounds requires --shards K"),
        ((*shared, "--checkpoint", out), "--checkpoint and --out must be two different files"),
        ((*shared, "--checkpoint", table), "would overwrite an input"),
    ):
        refused = cli(*fit, *more, "-o", out)
        assert error in refused.refusal
        assert not out.exists()
    with pytest.raises(ValueError, match=r"^shards must be a whole number >= 1, got 0"):
        bayesprop.fit(table, target="y", method="linear", shards=0)
    from bayesprop.scale import large_table

    for module in (large_table, sources):
        monkeypatch.setattr(module, "MOST_CELLS", 100)
    pl.read_csv(table).write_parquet(tmp_path / "t.parquet")
    refused = cli("fit", tmp_path / "t.parquet", "-t", "y", *shared, "-o", out)
    assert "--shards splits rows that fit into memory" in refused.refusal
