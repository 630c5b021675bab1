"""Year Prediction MSD, which is not distributed: its loader and protocol on a small made file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bayesprop.datasets import registry
from benchmarks import year
from papers import uci

N, N_TRAIN = 400, 360


@pytest.fixture
def table(monkeypatch, tmp_path):
    """The set with few rows: the path of its file."""
    small = replace(registry.describe("year"), n=N, n_train=N_TRAIN)
    monkeypatch.setitem(registry._TABLE, "year", small)
    monkeypatch.setenv("BAYESPROP_DATA", str(tmp_path))
    uci.loaded.cache_clear()
    uci._splits.cache_clear()
    yield year.make_table(tmp_path)
    uci.loaded.cache_clear()
    uci._splits.cache_clear()


def test_the_first_rows_are_learnt_and_the_last_predicted(table):
    with np.load(table) as arrays:
        X, y = arrays["X"], arrays["y"]
    data = uci.train_test("year", 0)
    np.testing.assert_array_equal(data.X_train, X[:N_TRAIN])
    np.testing.assert_array_equal(data.X_test, X[N_TRAIN:])
    np.testing.assert_array_equal(np.concatenate([data.y_train, data.y_test]), y)
    assert X.shape == (N, 90)
    assert (y == y.round()).all()


@pytest.mark.usefixtures("table")
def test_the_table_has_one_fit_of_a_hundred_units(reproduce, tmp_path):
    (row,) = reproduce("pbp-table1", "year")
    assert row.cell == {"dataset": "year", "split": 0, "hidden": 100}
    assert 0.0 < row.result["rmse"] < 20.0
    assert "| year | 1 | 8.879±NA |" in (tmp_path / "pbp-table1.md").read_text()


@pytest.mark.exhaustive
@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("method", list(year.METHODS))
def test_every_method_is_measured(method):
    found = year.measure(method)
    n_epochs = (1 if method == "pbp" else 25) * 40
    assert found["hours"] == pytest.approx(n_epochs * found["epoch"] / 3600)
