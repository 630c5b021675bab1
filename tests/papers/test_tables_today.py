"""Real tables: splits, rows as others read them, scores by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.tree import DecisionTreeClassifier

from bayesprop.distributions.predictive import GaussianPredictive
from papers import number_peers, table_splits
from papers.arena import class_scores, number_scores
from papers.class_peers import scikit_learn
from papers.protocol import NothingToRun
from papers.table_models import filling


def forget():
    table_splits._table.cache_clear()
    table_splits.train_test.cache_clear()


@pytest.fixture(autouse=True)
def made_tables(tmp_path, monkeypatch):
    """Tables of known names, with words, gaps and a class that has one row."""
    rng = np.random.default_rng(0)
    n = 120
    x, code = rng.normal(size=n), rng.integers(3, size=n)
    number = x + (code == 0) + 0.1 * rng.normal(size=n)
    label = np.where(number > 0.0, "high", "low")
    label[0] = "once"
    colour = [("red", "green", None)[i] for i in code]
    gaps = [None if i % 7 == 0 else float(v) for i, v in enumerate(x)]
    (tmp_path / "tables").mkdir()
    frame = pl.DataFrame({"x": gaps, "colour": colour})
    frame.with_columns(Type=label).write_csv(tmp_path / "tables" / "Glass.csv")
    frame.with_columns(V4=number).write_csv(tmp_path / "tables" / "Ozone.csv")
    monkeypatch.setenv("BAYESPROP_DATA", str(tmp_path))
    forget()
    yield
    forget()


split = table_splits.train_test


def test_a_split_is_a_permutation():
    data = split("Ozone", 1)
    order = np.random.default_rng(1).permutation(120)
    every = pl.read_csv(table_splits._file("Ozone"))["V4"].to_numpy()
    np.testing.assert_allclose(data.y_test, every[order[:24]])
    np.testing.assert_allclose(data.y_train, every[order[24:]])
    assert table_splits.size("CPS1988") == (8000, 6)
    assert [table_splits.n_splits(name, quick=False) for name in ("Ozone", "CPS1988")] == [5, 2]


def test_a_class_without_a_training_row_is_not_asked_for():
    splits = [split("Glass", number) for number in range(5)]
    assert all(set(data.y_test) <= set(data.y_train) for data in splits)
    alone = [data for data in splits if "once" not in data.y_train]
    assert all(len(data.y_test) == 23 for data in alone)


def test_rows_for_pandas():
    """Gaps stay among numbers; words are categories, of which one is "missing"."""
    pytest.importorskip("pandas")
    rows = split("Ozone", 0).train
    assert np.isnan(rows.frame["x0"]).sum() == rows.table["x"].null_count() > 0
    colours = rows.table["colour"].fill_null("missing").to_list()
    assert rows.frame["x1"].to_list() == colours
    assert set(colours) == {"red", "green", "missing"}
    new = pl.DataFrame({"x": [1.0, None], "colour": ["blue", "red"], "V4": [0.0, 0.0]})
    frame = table_splits.TableRows(new, "V4", rows.matrix, rows.kept, rows.levels).frame
    assert frame["x1"].to_list() == ["missing", "red"]


def test_scores_by_hand(reproduce, tmp_path):
    rows = reproduce("tables-today-classes", "Glass", "constant", "pbp")
    data = split("Glass", 1)
    labels, counts = np.unique(data.y_train, return_counts=True)
    shares = dict(zip(labels, counts / counts.sum(), strict=True))
    one = next(r for r in rows if r.cell == {"dataset": "Glass", "method": "constant", "split": 1})
    assert one.result is not None
    p, truth = np.array(list(shares.values())), data.y_test[:, None] == labels
    by_hand = {
        "log_loss": -np.mean([np.log(shares[label]) for label in data.y_test]),
        "brier": np.mean(np.sum((p - truth) ** 2, axis=1)),
        "error": np.mean(data.y_test != labels[counts.argmax()]),
    }
    assert {name: one.result[name] for name in by_hand} == pytest.approx(by_hand)
    text = (tmp_path / "tables-today-classes.md").read_text()
    assert text.count("| *constant* |") == 7
    assert "### Calibration error" in text


@pytest.mark.exhaustive
def test_numbers_with_gaps(reproduce, tmp_path):
    only = ["Ozone", "linear", "Gaussian process", "quantile boosting"]
    rows = reproduce("tables-today-numbers", *only)
    assert len(rows) == 6
    by_method = {row.cell["method"]: row.result for row in rows if row.cell["split"] == 0}
    assert by_method["linear"]["rmse"] < np.std(split("Ozone", 0).y_test)
    assert by_method["quantile boosting"]["log_likelihood"] is None
    assert by_method["linear"]["interval_score"] > 0.0
    text = (tmp_path / "tables-today-numbers.md").read_text()
    assert "### interval score" in text
    assert "### Coverage of 90 % intervals" in text


def test_no_table_at_hand(monkeypatch, tmp_path):
    monkeypatch.setenv("BAYESPROP_DATA", str(tmp_path / "nowhere"))
    with (
        pytest.warns(UserWarning, match="left out, no file in"),
        pytest.raises(NothingToRun, match="set BAYESPROP_DATA"),
    ):
        table_splits.at_hand(["Glass"], quick=False)


def test_gaps_take_the_training_mean():
    pandas = pytest.importorskip("pandas")
    train = pandas.DataFrame({"x0": [1.0, 3.0, None], "x1": [None, None, None]}, dtype=float)
    new = pandas.DataFrame({"x0": [None, 9.0], "x1": [None, 4.0]}, dtype=float)
    assert filling(train)(new).to_numpy().tolist() == [[2.0, 0.0], [9.0, 4.0]]


def test_a_probability_of_0_costs_what_1e_15_does():
    """The labels of the two training classes; a tree is sure of either."""
    matrix = np.array([[0.0], [1.0]])
    rows = table_splits.TableRows.of_numbers(matrix)
    predicted = scikit_learn(DecisionTreeClassifier())(rows, np.array(["b", "a"]))(rows)
    assert predicted.classes.tolist() == ["a", "b"]
    scores = class_scores(predicted, np.array(["b", "b"]))
    assert scores["log_loss"] == pytest.approx(-0.5 * np.log(1e-15))
    assert (scores["error"], scores["brier"]) == (0.5, pytest.approx(1.0))


def test_scores_of_normal_forecasts():
    """Closed forms at y = mean: density 1 / (s sqrt(2 pi)), CRPS s (sqrt(2) - 1) / sqrt(pi)."""
    std, y = 2.0, np.array([1.0, 1.0])
    predicted = GaussianPredictive(y, np.zeros(2), np.full(2, std**2))
    scores = number_scores(predicted, y)
    assert scores["log_likelihood"] == pytest.approx(-np.log(std * np.sqrt(2.0 * np.pi)))
    assert scores["crps"] == pytest.approx(std * (np.sqrt(2.0) - 1.0) / np.sqrt(np.pi))
    assert scores["interval_score"] == pytest.approx(2.0 * 1.6448536269514722 * std)
    assert (scores["rmse"], scores["coverage_90"]) == (0.0, 1.0)


@pytest.mark.parametrize("name", ["CatBoost", "CatBoost quantiles", "LightGBM quantiles", "TabM"])
def test_peers_where_they_are_installed(name):
    if number_peers.PEERS[name].missing:
        pytest.skip(f"{name} is not installed")
    data = split("Ozone", 0)
    predict = number_peers.PEERS[name].make(0)(data.train, data.y_train)
    scores = number_scores(predict(data.test), data.y_test)
    assert scores["rmse"] < np.std(data.y_test)
