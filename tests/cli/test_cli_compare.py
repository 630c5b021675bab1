"""Several methods on one table: the same rows for all, failures survived, figures that agree."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from bayesprop import catalogue
from bayesprop.cli import compare
from bayesprop.cli.trials import Trial, summarise_trials
from bayesprop.estimators.logistic_regression import BayesianLogisticClassifier


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    """y = 2 x + noise of variance 0.25, for 300 rows, and weights."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    y = 2.0 * x + 0.5 * rng.normal(size=300)
    path = tmp_path_factory.mktemp("tables") / "line.csv"
    pl.DataFrame({"x": x, "y": y, "w": np.ones(300)}).write_csv(path)
    return path


def test_a_line_is_told_from_a_constant(cli, line, tmp_path):
    plot = tmp_path / "line.svg"
    words = ("compare", line, "--target", "y", "--method", "linear", "--splits", "3", "--no-peers")
    found = cli(*words, "--weights", "w", "--plot", plot, "--json").json
    assert (found["task"], found["rows"]) == ("regression", {"train": 240, "held_out": 60})
    best, constant = found["methods"]
    assert (best["method"], constant["method"]) == ("linear", "constant")
    # The truth is N(2 x, 0.25): its expected log density and that of N(0, 4.25).
    for summary, var in ((best, 0.25), (constant, 4.25)):
        expected = -0.5 * np.log(2.0 * np.pi * np.e * var)
        found_here = summary["metrics"]["log_likelihood"]
        assert abs(found_here - expected) < 4.0 * np.sqrt(0.5 / 60)
    values = [t["metrics"]["log_likelihood"] for t in found["trials"] if t["method"] == "linear"]
    assert best["metrics"]["log_likelihood"] == pytest.approx(np.mean(values))
    error = best["standard_errors"]["log_likelihood"]
    assert error == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
    assert best["score"] == best["metrics"]["crps"] < constant["score"]
    assert "linear" in plot.read_text()
    assert found["plot"] == str(plot)


def test_ordered_classes_are_compared_by_their_ranks(cli, tmp_path):
    grades = np.repeat(["low", "mid", "high"], [30, 40, 30])
    x = np.random.default_rng(0).normal(size=100)
    pl.DataFrame({"x": x, "grade": grades}).write_csv(tmp_path / "grades.csv")
    words = ("compare", tmp_path / "grades.csv", "--target", "grade", "--order", "low,mid,high")
    more = ("--method", "logistic", "--splits", "1", "--plot", tmp_path / "grades.svg")
    assert "RPS" in cli(*words, *more).out
    found = cli(*words, *more, "--json").json
    scores = {one["method"]: one["metrics"]["rps"] for one in found["methods"]}
    # A constant with shares .3, .4, .3 expects the sum of F (1 - F) over the two cuts.
    assert scores.pop("constant") == pytest.approx(0.42, abs=0.1)
    assert set(scores) == {"logistic", "HistGradientBoosting"}


def test_every_method_sees_the_same_rows_and_one_that_fails_stops_no_other(
    cli, monkeypatch, tmp_path
):
    seen = []

    def fit(self, X, y, sample_weight=None):
        seen.append(np.sort(y).tolist())
        raise FloatingPointError("it fell over")

    def remembered(self, X, y, sample_weight=None):
        seen.append(np.sort(y).tolist())
        return original(self, X, y, sample_weight)

    original = BayesianLogisticClassifier.fit
    monkeypatch.setattr(BayesianLogisticClassifier, "fit", remembered)
    network = catalogue.estimator_class("network", "classification")
    monkeypatch.setattr(network, "fit", fit)
    plot = tmp_path / "iris.png"
    result = cli(
        "compare", "iris", "--method", "network", "--method", "logistic", "--splits", "2",
        "--plot", plot, "--no-peers",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert seen[:2] == seen[2:]
    assert "network failed on 2 of 2 splits: unexpected FloatingPointError: it fell" in result.err
    lines = [text.split()[0] for text in result.out.splitlines() if text.strip()]
    assert lines[2:] == ["logistic", "constant", "network"]
    assert plot.read_bytes().startswith(b"\x89PNG")
    alone = cli("compare", "iris", "--method", "network", "--splits", "1", "--plot", plot)
    assert alone.code == 2
    assert alone.error == "error: every method failed; the reasons stand above"


def test_without_names_the_slow_ones_are_left_out_and_said(cli, monkeypatch, tmp_path):
    monkeypatch.setattr(
        catalogue,
        "METHODS",
        {name: catalogue.METHODS[name] for name in ("linear", "logistic", "mcmc")},
    )
    result = cli("compare", "iris", "--splits", "1", "--plot", tmp_path / "a.svg")
    assert result.code == 0, result.err
    assert "left out, because slow: mcmc; name them with --method" in result.err
    assert "logistic" in result.out


def test_an_interruption_shows_what_is_done(cli, line, monkeypatch, tmp_path):
    fit = compare._trial

    def interrupted(name, *rest):
        if name == "pbp":
            raise KeyboardInterrupt
        return fit(name, *rest)

    monkeypatch.setattr(compare, "_trial", interrupted)
    words = ("--method", "linear", "--method", "pbp", "--splits", "1", "--plot", tmp_path / "a.svg")
    monkeypatch.setattr(catalogue, "METHODS", {n: catalogue.METHODS[n] for n in ("linear", "pbp")})
    result = cli("compare", line, "--target", "y", *words)
    assert result.code == 130
    assert "linear" in result.out
    assert "pbp" not in result.out


def trial(method, split, loss, seconds=1.0):
    metrics = None if loss is None else {"log_likelihood": -loss, "crps": 9.0 - loss}
    return Trial(method, split, metrics, seconds, "no" if loss is None else None)


def test_best_first_by_its_score_and_failures_last():
    trials = [
        *(trial("a", k, loss, 1.0 + 2 * k) for k, loss in enumerate((2.0, 4.0))),
        trial("b", 0, None),
        *(trial("c", k, loss) for k, loss in enumerate((1.0, 3.5))),
    ]
    best, second, last = summarise_trials(trials, ["a", "b", "c"], "classification", 0.25)
    assert [best.method, second.method, last.method] == ["c", "a", "b"]
    assert (best.score, second.score, second.seconds) == (2.25, 3.0, 2.0)
    assert second.standard_errors["log_likelihood"] == pytest.approx(1.0)
    assert last.failures == ["no"]
    assert (best.behind, last.behind) == (None, None)
    # Differences of 1 and 0.5, whose variance is 0.125: Nadeau & Bengio take it (1/2 + 1/4) times.
    assert second.behind == pytest.approx((0.75, np.sqrt(0.75 * 0.125)))
    found = summarise_trials(trials, ["a", "c"], "regression", 0.25)
    assert [summary.method for summary in found] == ["a", "c"], "numbers go by CRPS"
    alone = summarise_trials([trial("a", 0, 1.0)], ["a"], "regression", 0.25)[0]
    assert alone.standard_errors == {}


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """Numbers by a step that no line follows."""
    rng = np.random.default_rng(1)
    x = rng.uniform(size=(900, 2))
    inside = (np.abs(x[:, 0] - 0.5) < 0.05) & (x[:, 1] > 0.3)
    path = tmp_path_factory.mktemp("tables") / "steps.csv"
    size = 9.0 * inside + 0.1 * rng.normal(size=900)
    pl.DataFrame({"u": x[:, 0], "v": x[:, 1], "size": size}).write_csv(path)
    return path


@pytest.mark.exhaustive
def test_boosting_that_wins_is_named(cli, steps, tmp_path):
    words = ("--method", "linear", "--splits", "2", "--plot", tmp_path / "a.svg")
    compared = cli("compare", steps, "--target", "size", *words)
    better = "warning: HistGradientBoosting (scikit-learn) predicts these rows better than linear"
    assert better in " ".join(compared.err.split())
    assert "GaussianProcess" in compared.out
    assert compared.out.splitlines()[2].split()[0] == "HistGradientBoosting"
