"""Two classes from `fit` to decisions: the positive one, costs, rates, and what is refused."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from bayesprop.cli import main

FAST = ("--method", "logistic")


def write(path, n=1200, base=-3.2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    bad = rng.random(n) < 1.0 / (1.0 + np.exp(-base - 1.8 * x[:, 0]))
    kind = np.where(bad, "default", "paid")
    weight = np.where(bad, 15.0, 1.0)
    table = pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "kind": kind, "w": weight})
    table.write_csv(path)
    return path


@pytest.fixture(scope="module")
def loans(tmp_path_factory):
    path = write(tmp_path_factory.mktemp("loans") / "loans.csv")
    model = path.with_suffix(".bayesprop")
    words = ["fit", str(path), "-t", "kind", "--drop", "w", "-o", str(model), *FAST, "-q"]
    assert main([*words, "--cost", "fn=10,fp=1", "--test-fraction", "0.4"]) == 0
    return path, model


def test_the_rarer_class_is_positive_unless_another_is_asked_for(cli, loans, tmp_path):
    path, model = loans
    assert cli("inspect", model, "--json").json["positive"] == "default"
    words = ("fit", path, "-t", "kind", "--drop", "w", "-o", tmp_path / "m", *FAST)
    shown = cli(*words)
    assert "positive class: 'default', the rarer; --positive names another" in shown.err
    told = cli(*words, "--positive", "paid", "--json").json
    assert told["positive"] == "paid"
    rare = cli(*words, "--json").json["held_out"]["model"]["average_precision"]
    assert told["held_out"]["model"]["average_precision"] > 0.9 > rare
    assert told["held_out"]["constant"]["roc_auc"] == pytest.approx(0.5)
    error = cli(*words, "--positive", "payed").refusal
    assert "did you mean 'paid'" in error


def test_accuracy_comes_last_where_a_class_is_rare(cli, tmp_path):
    path = write(tmp_path / "rare.csv", base=-5.0)
    told = cli("fit", path, "-t", "kind", "--drop", "w", "-o", tmp_path / "m", *FAST, "--json")
    names = list(told.json["held_out"]["model"])
    assert (names[0], names[-1]) == ("average_precision", "accuracy")
    words = ("-t", "kind", "--drop", "w", *FAST, "--splits", 1, "--no-peers")
    assert "accuracy" not in cli("compare", path, *words, "--plot", tmp_path / "a.svg").out


def test_predict_decides_by_the_costs_of_the_fit_or_by_others(cli, loans):
    path, model = loans
    for words, threshold, fn in (((), 1 / 11, 10.0), (("--cost", "fn=1,fp=4"), 0.8, 1.0)):
        result = cli("predict", model, path, *words)
        for row in result.rows:
            p = float(row["p(default)"])
            assert row["decision"] == ("default" if p >= threshold else "paid")
            lost = (1 - p) * (1.0 if fn == 10.0 else 4.0) if p >= threshold else fn * p
            assert float(row["expected_cost"]) == pytest.approx(lost, rel=1e-6)
    assert "flagged as 'default' from 0.09091" in cli("evaluate", model, path).out


def test_a_rate_is_reached_on_rows_that_the_fit_did_not_see(cli, loans, tmp_path):
    path, model = loans
    held_out = write(tmp_path / "later.csv", seed=7)
    words = ("predict", model, held_out, "--rate", "recall=0.8")
    result = cli(*words, "--calibrate", held_out)
    assert "recall among new rows" in result.err
    assert "expected_cost" not in result.rows[0]
    out = tmp_path / "m"
    fit = ("fit", path, "-t", "kind", "--drop", "w", "-o", out, *FAST)
    told = cli(*fit, "--rate", "flagged=0.1", "--json").json["decision"]
    assert told["rate"] == {"kind": "flagged", "share": 0.1}
    unreached = cli(*fit, "--rate", "precision=0.999", "--json")
    assert unreached.code == 0
    if unreached.json["decision"] is None:
        assert any("saved without a decision" in one for one in unreached.json["warnings"])
    assert (
        "raise --test-fraction" in cli(*fit, "--rate", "recall=0.9", "--test-fraction", 0).refusal
    )


def test_compare_ranks_by_the_positive_class_of_fit(cli, loans, tmp_path):
    path, _ = loans
    words = ("-t", "kind", "--drop", "w", *FAST, "--test-fraction", "0.4", "--seed", "0")
    fit = ("fit", path, *words, "-o", tmp_path / "m", "--json")
    compare = ("compare", path, *words, "--splits", "1", "--plot", tmp_path / "a.svg")
    one = cli(*fit, "--positive", "paid").json["held_out"]
    other = cli(*compare, "--positive", "paid", "--json").json
    assert other["positive"] == "paid"
    scores = {one["method"]: one["metrics"]["average_precision"] for one in other["methods"]}
    assert scores["logistic"] == pytest.approx(one["model"]["average_precision"])
    assert scores["constant"] == pytest.approx(one["constant"]["average_precision"])
    assert set(scores) > {"constant", "logistic"}  # the peers as well
    assert min(scores.values()) > 0.8
    shown = cli(*compare, "--no-peers", "--positive", "paid")
    assert "average precision" in shown.out
    assert "accuracy" not in shown.out
    assert "HistGradientBoosting" not in shown.out
    assert "positive class: 'paid', as asked" in shown.err
    assert "did you mean 'paid'" in cli(*compare, "--positive", "payed").refusal


def test_weights_that_move_the_base_rate_are_said(cli, loans, tmp_path):
    path, _ = loans
    page = tmp_path / "r.html"
    words = ("fit", path, "-t", "kind", "--weights", "w", "-o", tmp_path / "m", *FAST)
    told = cli(*words, "--report", page, "--json").json
    assert any("the weights move the share of 'default'" in one for one in told["warnings"])
    assert "The weights move the share of" in page.read_text()
    assert "Which rows to act on" in page.read_text()
