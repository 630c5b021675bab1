"""What to measure next, as a bench scientist would ask, and what was measured going in."""

from __future__ import annotations

import shutil

import numpy as np
import polars as pl
import pytest
from house_table import as_csv, house_rows

import bayesprop
from bayesprop import ActiveLearner, GaussianPredictive, PBPRegressor
from bayesprop.estimators.shell import RegressorBase
from bayesprop.store import load_model

FAST = ("--method", "pbp", "--hidden", "10", "--epochs", "20", "--quiet")


@pytest.fixture(scope="module")
def candidates(tmp_path_factory):
    """A hundred houses without price, the last one larger than any, and what a visit costs."""
    rows = [{k: v for k, v in row.items() if k != "price"} for row in house_rows(100, seed=9)]
    rows[-1] |= {"area": 2000.0, "town": "Oslo"}
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("candidates") / "c.csv"
    path.write_text(as_csv([row | {"visit": round(rng.uniform(1, 9), 2)} for row in rows]))
    return path


@pytest.fixture
def model(house_model, tmp_path):
    return shutil.copy(house_model, tmp_path / "m.bayesprop")


def test_suggest_agrees_with_python(cli, house_model, candidates):
    told = cli("suggest", house_model, candidates, "--n", 4, "--json", "--quiet").json
    assert (told["acquisition"], told["unit"], told["candidates"]) == (
        "mutual-information",
        "nats",
        100,
    )
    saved = load_model(house_model)
    learner = ActiveLearner(saved.estimator, update="stream")
    with pytest.warns(UserWarning, match="Oslo"):
        X = saved.table.transform(pl.read_csv(candidates))
    chosen = learner.query(X, 4)
    assert [one["row"] for one in told["suggestions"]] == (chosen.indices + 1).tolist()
    np.testing.assert_allclose([one["score"] for one in told["suggestions"]], chosen.scores)
    one = told["suggestions"][0]
    parts = saved.estimator.predict_dist(X[chosen.indices])
    assert one["epistemic_std"] == pytest.approx(np.sqrt(parts.epistemic_var[0]))
    assert one["row"] == 100
    assert one["score_alone"] == pytest.approx(
        0.5 * np.log1p(parts.epistemic_var[0] / parts.noise_var[0])
    )


def test_why_names_numbers_and_columns(cli, house_model, candidates):
    result = cli("suggest", house_model, candidates, "--n", 3, "--why")
    assert result.code == 0
    assert "3 of 100 candidates; score: what the measurement would tell" in result.out
    why = next(line for line in result.out.splitlines() if line.startswith("row 100: "))
    for words in (
        "Price would be ",
        " kEUR: ± ",
        "is what the model does not know",
        "more than 99 % of the 100 candidates",
        "unlike the training rows in",
        "town missing (",
        "% of the doubt); area = 2,000 (+",
    ):
        assert words.lower() in why.lower()
    assert "once the rows above are measured" in result.out
    assert "row 100: " not in cli("suggest", house_model, candidates, "--n", 3).out


def test_costs_conditions_and_a_file(cli, house_model, candidates, tmp_path):
    out = tmp_path / "next.csv"
    words = ("suggest", house_model, candidates, "--n", 6, "--out", out, "--quiet")
    assert cli(*words, "--where", "area<=90", "--where", "town != Oslo").code == 0
    found = pl.read_csv(out)
    assert found.columns[:4] == ["area", "rooms", "town", "visit"]
    assert {"row", "score", "mean", "std", "why"} <= set(found.columns)
    assert (found["area"] <= 90.0).all()
    assert len(found.select("area", "rooms", "town").unique()) == 6
    told = cli("suggest", house_model, candidates, "--cost", "visit", "-n", 1, "--json").json
    plain = cli("suggest", house_model, candidates, "--batch", "top", "-n", 60, "--json").json
    visit = pl.read_csv(candidates)["visit"]
    worth = {one["row"]: one["score"] / visit[one["row"] - 1] for one in plain["suggestions"]}
    assert told["suggestions"][0]["row"] == max(worth, key=worth.__getitem__)
    assert "for each unit of cost" in told["suggestions"][0]["why"]


def test_costs_and_conditions_may_have_marks(cli, house_model, candidates, tmp_path):
    frame, marked = pl.read_csv(candidates), tmp_path / "marked.csv"
    words = pl.format("€{}", "visit").alias("visit")
    frame.with_columns(words).write_csv(marked)
    asked = ("--cost", "visit", "--where", f"visit <= {frame['visit'].median()}", "--json")
    plain, same = (cli("suggest", house_model, one, *asked).json for one in (candidates, marked))
    rows = [[one["row"] for one in told["suggestions"]] for told in (plain, same)]
    assert rows[0] == rows[1]


def test_reference_rows(cli, house_model, candidates, houses):
    words = ("suggest", house_model, candidates, "--acquisition", "expected-entropy-reduction")
    told = cli(*words, "--reference", houses, "--json").json
    scores = [one["score"] for one in told["suggestions"]]
    assert len(scores) == 5
    assert all(0.0 < score < 1.0 for score in scores)


def test_suggestions_of_classes(cli, tmp_path):
    model, table = tmp_path / "m", tmp_path / "iris.csv"
    assert cli("fit", "iris", "--out", model, "--method", "logistic", "--quiet").code == 0
    words = ("suggest", model, "iris", "--n", 4)
    result = cli(*words, "--why")
    assert "nats of doubt, of which more data would remove" in result.out
    told = cli(*words, "--json").json
    assert len({one["row"] for one in told["suggestions"]}) == 4
    assert {"likeliest", "entropy", "mutual_information"} <= set(told["suggestions"][0])
    assert cli(*words, "--batch", "fantasy", "--json").code == 0
    assert cli(*words, "--out", table).code == 0
    assert len(pl.read_csv(table)) == 4


@pytest.fixture
def measured(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text(as_csv(house_rows(15, seed=11)))
    return path


def test_update_streams(cli, model, measured):
    told = cli("update", model, measured, "--json").json
    assert (told["how"], told["held_out"]) == ("streamed", None)
    assert told["rows"] == {"new": 15, "train": 123, "held_out": 0}
    about = cli("inspect", model, "--json").json
    assert about["rows"] == {"train": 123, "held_out": 0}
    assert about["command"].endswith(f"bayesprop update {model} {measured} --json")


def test_streaming_is_partial_fit_on_the_encoded_rows(cli, house_model, model, measured, houses):
    before = cli("evaluate", house_model, measured, "--json").json["metrics"]
    assert cli("update", model, measured, "--json").json["before"] == before
    saved = load_model(house_model)
    frame = pl.read_csv(measured)
    saved.estimator.partial_fit(saved.table.encode(frame).X, frame["price"].to_numpy())
    X = saved.table.encode(pl.read_csv(houses)).X
    np.testing.assert_array_equal(
        bayesprop.load(model).estimator.predict(X), saved.estimator.predict(X)
    )


def test_update_refits_to_all_rows(cli, houses, model, measured, tmp_path):
    """With no rows held out and the same seed: a fit to the two tables, one after another."""
    first, out = tmp_path / "first", tmp_path / "out"
    fit = ("--target", "price", "--test-fraction", 0, *FAST)
    assert cli("fit", houses, "--out", first, *fit).code == 0
    result = cli("update", first, measured, "--with", houses, "--out", out)
    assert result.code == 0, result.err
    assert "15 new rows before they were learnt" in result.out
    assert "refitted 15 rows" in result.err
    saved, tables = load_model(first), [pl.read_csv(path) for path in (houses, measured)]
    X = np.concatenate([saved.table.encode(frame).X for frame in tables])
    saved.estimator.fit(X, np.concatenate([frame["price"].to_numpy() for frame in tables]))
    np.testing.assert_array_equal(
        bayesprop.load(out).estimator.predict(X), saved.estimator.predict(X)
    )

    before, out = load_model(model).metadata, tmp_path / "held"
    held = cli("update", model, measured, "--with", houses, "--out", out, "--json").json
    after = load_model(out).metadata
    assert after["standard_errors"].keys() == before["standard_errors"].keys()
    assert after["standard_errors"]["rmse"] != before["standard_errors"]["rmse"]
    assert after["judged_by"] == before["judged_by"] == "12 held-out rows"
    assert held["rows"] == {"new": 15, "train": 123, "held_out": 12}
    assert held["held_out"]["model"]["rmse"] < 0.5 * held["held_out"]["constant"]["rmse"]
    again = cli("update", out, measured, "--with", houses)
    assert "name every table that it has learnt by --with" in again.err
    assert cli("update", model, measured, "--out", out, "--quiet").code == 0
    streamed = load_model(out).metadata
    assert (streamed["held_out"], streamed["standard_errors"]) == (None, {})
    assert streamed["judged_by"] == ""


def test_update_with_weights(cli, fitted, tmp_path):
    rows = [row | {"w": 1 + i % 2} for i, row in enumerate(house_rows())]
    words = ("--weights", "w", "--test-fraction", 0, *FAST)
    table, model, _ = fitted(as_csv(rows), *words, target="price")
    new = tmp_path / "n.csv"
    new.write_text(as_csv(rows[:3]))
    assert cli("update", model, new, "--quiet").code == 0
    assert cli("update", model, new, "--with", table, "--quiet").code == 0
    new.write_text(as_csv(house_rows(3)))
    assert "no column 'w'" in cli("update", model, new).error


def test_what_update_refuses(cli, houses, model, measured, candidates, monkeypatch):
    assert "no column 'price'" in cli("update", model, candidates).error
    assert "the new rows themselves" in cli("update", model, measured, "--with", measured).error
    other = shutil.copy(measured, measured.with_name("other.csv"))
    differs = cli("update", model, measured, "--with", other)
    assert "must be the table that the model was fitted to" in differs.error
    monkeypatch.delattr(RegressorBase, "partial_fit")
    assert "pbp cannot learn row by row" in cli("update", model, measured).error
    assert cli("update", model, measured, "--with", houses, "--quiet").code == 0


def test_a_model_without_doubt_says_so(cli, house_model, candidates, monkeypatch):
    predict = PBPRegressor.predict_dist

    def sure(self, X):
        found = predict(self, X)
        return GaussianPredictive(found.mean, np.zeros(len(found)), found.noise_var)

    monkeypatch.setattr(PBPRegressor, "predict_dist", sure)
    result = cli("suggest", house_model, candidates, "--quiet")
    assert result.code == 0
    assert "every candidate scores 0" in result.err
