"""Kinds of targets: guessed or given, remarked on, kept by every verb of a table's model."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import pytest

import bayesprop

TINY: Any = {"target": "y", "method": "pbp", "hidden_layer_sizes": (5,), "n_epochs": 20}
TINY |= {"test_fraction": 0.2}


def rows_of(kind: str, n: int = 160, seed: int = 0) -> pl.DataFrame:
    """Two inputs and a target of a kind."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    latent = 1.5 * x[:, 0] + 0.5 * rng.normal(size=n)
    y = {
        "positive": 100.0 * np.exp(latent),
        "nonnegative": 100.0 * np.maximum(latent, 0.0),
        "share": 1.0 / (1.0 + np.exp(-latent)),
        "count": rng.poisson(np.exp(latent - 1.0)),
    }[kind]
    return pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})


def in_percent(sign: str, seed: int = 0) -> pl.DataFrame:
    """The table of shares, each in per cent of four digits, with a sign or without."""
    shares = rows_of("share", seed=seed)
    cells = [f"{100.0 * share:.4g}{sign}" for share in shares["y"]]
    return shares.with_columns(y=pl.Series(cells if sign else list(map(float, cells))))


def kind_of(model: bayesprop.TableModel) -> str:
    return model.estimator.task_.kind


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [("nonnegative", 0.0, np.inf), ("share", 0.0, 1.0), ("count", 0.0, np.inf)],
)
def test_a_kind_is_guessed_remarked_on_and_kept(told, kind, low, high, tmp_path):
    frame, later = rows_of(kind), rows_of(kind, seed=1)
    model = bayesprop.fit(frame, **TINY)
    assert "numbers overrides" in told
    model.report(tmp_path / "r.html")
    assert "The target is" in (tmp_path / "r.html").read_text()
    for one in (model, model.update(later), model.update(later, frame)):
        assert kind_of(one) == kind
    stretched = model.predict(later, calibrate=later)
    assert (low <= stretched["lower_90"]).all()
    assert (stretched["lower_90"] <= stretched["upper_90"]).all()
    assert (stretched["upper_90"] <= high).all()
    assert np.isfinite(model.evaluate(later)["model"]["crps"])
    assert len(model.suggest(later, 2).records) == 2


def test_a_kind_can_be_given(told):
    frame = rows_of("positive")
    model = bayesprop.fit(frame, **TINY, target_kind="numbers")
    assert kind_of(model) == "numbers"
    assert "overrides" not in told
    noisy = {"target": "y", "method": "linear", "noise": 2.0}
    assert kind_of(bayesprop.fit(frame, **noisy)) == "numbers", "which a fixed noise asks for"
    for how, words in (
        (TINY | {"target_kind": "share"}, "y must hold numbers from 0 to 100"),
        (TINY | {"target_kind": "prices"}, "target_kind"),
        (noisy | {"target_kind": "positive"}, "noise must be learnt"),
        (TINY | {"target_kind": "ordered", "task": "regression"}, "ordered' is for classes"),
    ):
        with pytest.raises(ValueError, match=words):
            bayesprop.fit(frame, **how)


def test_per_cent_signs_make_shares_of_a_hundred(told):
    model = bayesprop.fit(in_percent("%"), **TINY)
    assert "y is treated as shares, from 0 to 1 or to 100 %" in told
    later = in_percent("%", seed=1)
    bounds = model.predict(later, 0.99)["lower_99", "upper_99"].to_numpy()
    assert ((bounds >= 0.0) & (bounds <= 100.0)).all()
    assert bounds.max() > 90.0
    scores = model.evaluate(later)
    assert scores["model"]["crps"] < scores["constant"]["crps"]
    assert all(1.0 < one["crps"] < 30.0 for one in scores.values())
    beyond = later.extend(pl.DataFrame({"a": [0.0], "b": [0.0], "y": ["120%"]}))
    model.evaluate(beyond)
    assert "1 row has a y such as 120, which is impossible for" in told


def test_per_cent_without_a_sign_are_shares_where_asked_for(told):
    frame = in_percent("")
    assert kind_of(bayesprop.fit(frame, **TINY)) != "share"
    model = bayesprop.fit(frame, **TINY, target_kind="share")
    assert kind_of(model) == "share"
    assert "y is treated as per cent, because some values exceed 1" in told
    beyond = frame.extend(pl.DataFrame({"a": [0.0], "b": [0.0], "y": [120.0]}))
    with pytest.raises(ValueError, match=r"numbers from 0 to 100 for .*'share', got 120 in row"):
        bayesprop.fit(beyond, **TINY, target_kind="share")


def test_counts_grow_with_the_column_that_is_named(told):
    rng = np.random.default_rng(2)
    age, years = rng.normal(size=200), rng.uniform(0.5, 4.0, 200)
    visits = rng.poisson(years * np.exp(0.4 * age))
    frame = pl.DataFrame({"age": age, "years": years, "visits": visits})
    how: Any = {"target": "visits", "method": "linear", "test_fraction": 0}
    model = bayesprop.fit(frame, **how, exposure="years")
    assert kind_of(model) == "count"
    assert model.estimator.get_params()["exposure"] == 1
    short, long = model.predict(pl.DataFrame({"age": [0, 0], "years": [1, 3]}))["mean"]
    assert 2.0 < long / short < 4.5
    with pytest.raises(ValueError, match=r"exposure .* > 0.*got none \(NaN\) in data row 2, years"):
        model.predict(pl.DataFrame({"age": [0, 0], "years": [1, None]}))
    for asked, words in (
        ({"exposure": "year"}, "numeric input column"),
        ({"exposure": "years", "target_kind": "numbers"}, "exposure is for counts"),
    ):
        with pytest.raises(ValueError, match=words):
            bayesprop.fit(frame, **how, **asked)


def graded(words: Any = ("poor", "fair", "good"), n: int = 160, seed: int = 0) -> pl.DataFrame:
    """An input and a grade that it moves."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    grade = np.digitize(a + 0.4 * rng.logistic(size=n), [-0.6, 0.6])
    return pl.DataFrame({"a": a, "grade": np.array(words)[grade]})


def test_ordered_classes_are_asked_for_kept_and_scored(told, tmp_path):
    frame, order = graded(), ["poor", "fair", "good"]
    how: Any = {"target": "grade", "n_epochs": 20, "n_members": 2, "hidden_layer_sizes": (5,)}
    for asked, words in (
        ({"target_kind": "ordered"}, "words have no order"),
        ({"order": ["poor", "good"]}, "it lacks fair"),
        ({"order": ["poor", "good", "fair", "good"]}, "names one twice"),
    ):
        with pytest.raises(ValueError, match=words):
            bayesprop.fit(frame, **how, **asked)
    model = bayesprop.fit(frame, **how, order=order)
    assert kind_of(model) == "ordered"
    assert "poor < fair < good" in str(model)
    names = ["grade", "median", "lower_80", "upper_80", "q_0.3", *(f"p({n})" for n in order)]
    assert model.predict(frame, 0.8, 0.3).columns[:8] == names
    scores = model.notes.held_out
    assert scores["model"]["rps"] < scores["constant"]["rps"]
    judged = model.evaluate(frame)
    assert "was fitted on" in told
    assert "rps" in judged["model"]
    assert judged.confusion["classes"] == order
    model.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert re.findall(r'<th scope="row"><bdi>(\w+)</bdi>', page)[:3] == order
    assert "poor &lt; fair &lt; good" in page
    assert "Ranked probability score" in page
    updated = model.update(graded(seed=1), frame)
    assert updated.estimator.task_.order == (2, 0, 1)


def test_numbers_that_are_classes_sort_themselves(told):
    frame, how = graded((2, 10, 33)), {"target": "grade", "method": "logistic"}
    model = bayesprop.fit(frame, **how, target_kind="ordered")
    assert "without their order" in told
    assert (list(model.encoding.classes), model.estimator.task_.order) == ([2, 10, 33], (0, 1, 2))
    with pytest.raises(ValueError, match="count' is for numbers"):
        bayesprop.fit(frame, **how, target_kind="count", task="classification")
    plain = bayesprop.fit(frame, **how, target_kind="classes")
    assert kind_of(plain) == "classes"
    assert "rps" not in plain.notes.held_out["model"]


def limited(limit: float, n: int = 200, seed: int = 0) -> pl.DataFrame:
    """Two inputs and a target whose low values are known by a limit only."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = np.round(x[:, 0] + 0.4 * rng.normal(size=n), 3)
    words = [f"<{limit:g}" if v < limit else f"{v}" for v in y]
    return pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": words})


def test_limits_in_a_target_are_learnt_as_such(told, tmp_path):
    model = bayesprop.fit(limited(-1.0), **TINY)
    for words in ("holds limits, such as '<-1', in", "-1 stands for -1 or less"):
        assert words in told
    assert "treated as numbers that are censored at a limit" in told
    model.report(tmp_path / "r.html")
    assert "the limit stands for all values beyond it" in (tmp_path / "r.html").read_text()
    assert kind_of(model) == "censored"
    later = limited(-1.5, seed=1)  # measured below -1, by another laboratory
    scores = model.evaluate(later)["model"]
    assert "holds limits" in told
    assert scores["rmse"] < 0.6
    assert 0.8 < scores["coverage_90"] <= 1.0
    assert model.predict(later.drop("y"))["lower_90"].min() == -1.0
    few = bayesprop.fit(limited(-2.0), **TINY)
    assert "-2 stands for -2 or less" in told
    assert kind_of(few) == "numbers"
