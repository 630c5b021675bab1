"""Several methods on one table: the same rows for all, failures survived, figures that agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop import catalogue
from bayesprop.estimators.logistic_regression import BayesianLogisticClassifier
from bayesprop.table.errors import TableWarning
from bayesprop.table_model.compare import Trial, summarise_trials

RNG = np.random.default_rng(0)
X = RNG.normal(size=300)
LINE = pl.DataFrame({"x": X, "y": 2.0 * X + 0.5 * RNG.normal(size=300), "w": np.ones(300)})


def test_a_line_is_told_from_a_constant(tmp_path):
    plot = tmp_path / "line.svg"
    how: Any = {"target": "y", "weights": "w", "splits": 3, "no_peers": True, "plot": plot}
    found = bayesprop.compare(LINE, method="linear", **how)
    assert found.table.counts == {"train": 240, "held_out": 60}
    best, constant = found.methods
    assert (best.method, constant.method) == ("linear", "constant")
    # The truth is N(2 x, 0.25): its expected log density and that of N(0, 4.25).
    for summary, var in ((best, 0.25), (constant, 4.25)):
        expected = -0.5 * np.log(2.0 * np.pi * np.e * var)
        assert abs(summary.metrics["log_likelihood"] - expected) < 4.0 * np.sqrt(0.5 / 60)
    values = [
        t.metrics["log_likelihood"] for t in found.trials if t.metrics and t.method == "linear"
    ]
    assert best.metrics["log_likelihood"] == pytest.approx(np.mean(values))
    error = best.standard_errors["log_likelihood"]
    assert error == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
    assert best.score == best.metrics["crps"]
    assert best.metrics["crps"] < constant.metrics["crps"]
    assert "linear" in plot.read_text()
    assert found.plot == str(plot)
    assert found.frame["method"].to_list() == ["linear", "constant"]
    assert found.frame["crps"].to_list() == [best.score, constant.score]
    assert str(found).startswith("y: 240 training rows, 60 held out, in 3 splits\n")


@pytest.mark.filterwarnings("ignore:logistic. this method learns classes without")
def test_ordered_classes_are_compared_by_their_ranks():
    grades = np.repeat(["low", "mid", "high"], [30, 40, 30])
    frame = pl.DataFrame({"x": RNG.normal(size=100), "grade": grades})
    how: Any = {"target": "grade", "order": ["low", "mid", "high"], "splits": 1}
    found = bayesprop.compare(frame, method="logistic", **how)
    assert "RPS" in str(found)
    scores = {one.method: one.metrics["rps"] for one in found.methods}
    # A constant with shares .3, .4, .3 expects the sum of F (1 - F) over the two cuts.
    assert scores.pop("constant") == pytest.approx(0.42, abs=0.1)
    assert set(scores) == {"logistic", "HistGradientBoosting"}


def test_every_method_sees_the_same_rows_and_one_that_fails_stops_no_other(monkeypatch):
    seen = []

    def fit(self, X, y, sample_weight=None, X_std=None):
        seen.append(np.sort(y).tolist())
        raise FloatingPointError("it fell over")

    def remembered(self, X, y, sample_weight=None, X_std=None):
        seen.append(np.sort(y).tolist())
        return original(self, X, y, sample_weight)

    original = BayesianLogisticClassifier.fit
    monkeypatch.setattr(BayesianLogisticClassifier, "fit", remembered)
    monkeypatch.setattr(catalogue.estimator_class("network", "classification"), "fit", fit)
    with pytest.warns(TableWarning, match=r"network failed on 2 of 2 splits: .*: it fell over"):
        found = bayesprop.compare("iris", method=["network", "logistic"], splits=2, no_peers=True)
    assert seen[:2] == seen[2:]
    assert [one.method for one in found.methods] == ["logistic", "constant", "network"]


def test_the_slow_ones_are_left_out_and_said_unless_they_are_named(monkeypatch):
    some = {name: catalogue.METHODS[name] for name in ("linear", "logistic", "mcmc")}
    monkeypatch.setattr(catalogue, "METHODS", some)
    found = bayesprop.compare("iris", splits=1, no_peers=True)
    assert str(found).endswith("left out because they are slow: mcmc; name them with method")
    assert [one.method for one in found.methods] == ["logistic", "constant"]
    with pytest.raises(
        ValueError, match=r"^method='linear' supports only regression, and the target"
    ):
        bayesprop.compare("iris", method="linear")
    refused: list[tuple[Any, str]] = [
        ({"test_fraction": 0.0}, r"^test_fraction must be above 0"),
        ({"splits": 2, "time": "x"}, r"^splits must be 1 with time, .*: omit splits$"),
        ({"plot": "a.pdf"}, r"^plot='a.pdf' must end in .svg or .png"),
        ({"missing": "NA"}, r"^missing must be a list"),
    ]
    for asked, words in refused:
        with pytest.raises(ValueError, match=words):
            bayesprop.compare(LINE, target="y", **asked)
    with pytest.raises(TypeError, match=r"^compare\(\) takes no cost, which is of the fit"):
        bayesprop.compare(LINE, target="y", cost="fn=10,fp=1")


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


@pytest.mark.exhaustive
def test_boosting_that_wins_is_named():
    """Numbers by a step that no line follows."""
    x = np.random.default_rng(1).uniform(size=(900, 2))
    size = 9.0 * ((np.abs(x[:, 0] - 0.5) < 0.05) & (x[:, 1] > 0.3)) + 0.1 * RNG.normal(size=900)
    frame = pl.DataFrame({"u": x[:, 0], "v": x[:, 1], "size": size})
    compared = bayesprop.compare(frame, target="size", method="linear", splits=2)
    better = "HistGradientBoosting (scikit-learn) predicts these rows better than linear"
    assert compared.winner is not None
    assert compared.winner[0].startswith(better)
    assert compared.winner[1]
    assert compared.methods[0].method == "HistGradientBoosting"
    assert "GaussianProcess" in str(compared)
