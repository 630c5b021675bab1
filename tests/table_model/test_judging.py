"""How a fit is judged: by groups, by time, by one's own rows, in folds; and what is said of it."""

from __future__ import annotations

import datetime
import io
import re
from typing import Any

import numpy as np
import polars as pl
import pytest

import bayesprop
from house_table import as_csv, house_rows

LINEAR: Any = {"target": "y", "method": "linear"}


def visits(n_patients: int, seed: int, first: int = 0) -> pl.DataFrame:
    """Patients with an age, a height and a level of their own, each measured ten times."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(first, first + n_patients):
        age, height, level = rng.integers(20, 80), round(rng.uniform(150.0, 195.0), 2), rng.normal()
        for _ in range(10):
            dose = rng.uniform()
            y = level + dose + 0.1 * rng.normal()
            rows.append({"patient": f"P{k}", "age": age, "height": height, "dose": dose, "y": y})
    return pl.DataFrame(rows)


VISITS, OTHER = visits(40, 0), visits(5, 1, first=40)


@pytest.mark.exhaustive
def test_groups_are_held_out_whole_and_the_default_learns_by_them(told):
    grouped = bayesprop.fit(
        VISITS, target="y", n_epochs=40, n_members=2, hidden_layer_sizes=(5,), group="patient"
    )
    notes = grouped.notes
    assert notes.rows == {"train": 360, "held_out": 40}
    assert notes.judged_by == "40 held-out rows, of 4 new values of patient"
    assert not grouped.fitted.again
    assert len(grouped.encoding.feature_names) == 3
    assert 0.7 <= notes.held_out["model"]["coverage_90"] <= 1.0
    assert set(notes.errors) >= {"rmse", "log_likelihood", "coverage_90"}
    assert notes.group == (("patient",),)


def test_rows_that_seem_to_belong_together_are_judged_again_and_named(told):
    model = bayesprop.fit(VISITS, target="y", method="pbp")
    (again,) = model.fitted.again
    assert (again.column, again.is_worse, again.n_rows) == ("patient", True, 40)
    assert again.scores["model"]["rmse"] > 2.0 * model.notes.held_out["model"]["rmse"]
    assert any("fit with group='patient'" in one for one in model.remarks)
    assert str(model).count("seem to belong") == 1
    bayesprop.fit(VISITS, **LINEAR, group="patient")
    assert "holds no groups out during training" in told


def test_rows_of_ones_own_judge_and_all_others_are_learnt(told):
    how: Any = LINEAR | {"drop": "patient"}
    model = bayesprop.fit(VISITS, **how, test=OTHER)
    assert model.notes.rows == {"train": 400, "held_out": 50}
    assert model.notes.judged_by == "50 rows of the frame"
    evaluated = model.evaluate(OTHER)
    assert evaluated["model"] == model.notes.held_out["model"]
    assert evaluated.errors == model.notes.errors
    compared = bayesprop.compare(VISITS, **how, test=OTHER, no_peers=True)
    assert compared.table.counts == model.notes.rows
    assert compared.methods[0].metrics == model.notes.held_out["model"]
    assert "400 training rows, evaluated on 50 of the frame" in str(compared)
    for verb in (bayesprop.fit, bayesprop.compare):
        for asked, words in (
            ({"test": VISITS.clone()}, "the training rows"),
            ({"test": OTHER, "time": "dose"}, "give one of them"),
            ({"test": OTHER, "test_fraction": 0.3}, "give one of them"),
        ):
            with pytest.raises(ValueError, match=words):
                verb(VISITS, **how, **asked)
    with pytest.raises(ValueError, match="splits must be 1 with test"):
        bayesprop.compare(VISITS, **how, test=OTHER, splits=3)


def test_rows_of_ones_own_have_the_groups_of_the_fit(told):
    """Repeated five times over, rows say no more of their groups, and no more of the errors."""
    errors = []
    for times in (1, 5):
        other = pl.concat([visits(30, 1, first=40)] * times)
        model = bayesprop.fit(VISITS, **LINEAR, group="patient", test=other)
        assert model.evaluate(other).errors == model.notes.errors
        errors.append(model.notes.errors["crps"])
    assert errors[1] == pytest.approx(errors[0])


def test_compare_warns_of_rows_that_seem_to_belong_together(told):
    how: Any = LINEAR | {"splits": 2, "no_peers": True}
    compared = bayesprop.compare(VISITS, **how)
    (again,) = compared.again
    assert (again.column, again.option, again.is_worse) == ("patient", "group", True)
    assert again.n_rows == compared.table.counts["held_out"] == 80
    assert again.remark in told
    assert "linear: rows of one 'patient' seem to belong together" in told
    assert not bayesprop.compare(VISITS, **how, group="patient").again


def test_the_past_is_learnt_and_the_future_judges(told):
    model = bayesprop.fit(VISITS, **LINEAR, time="dose")
    assert model.notes.rows == {"train": 360, "held_out": 40}
    assert model.notes.judged_by == "40 held-out rows, the latest by dose"
    compared = bayesprop.compare(VISITS, **LINEAR, time="dose", no_peers=True)
    assert len(compared.table.divisions) == 1


def test_small_tables_are_judged_in_folds_and_learnt_whole(told, tmp_path):
    houses = pl.read_csv(io.StringIO(as_csv(house_rows())))
    model = bayesprop.fit(houses, target="price", method="linear")
    scores, notes = model.notes.held_out, model.notes
    assert notes.rows == {"train": 120, "held_out": 0}
    assert notes.judged_by == "120 rows, by cross-validation"
    assert scores["model"]["rmse"] == pytest.approx(scores["linear"]["rmse"], rel=0.05)
    assert notes.errors["coverage_90"] < 0.05
    model.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert f"Evaluated on {notes.judged_by}." in page
    assert "a linear model" not in page, "a line is not compared with itself"
    assert (
        bayesprop.fit(houses, target="price", method="linear", test_fraction=0).notes.held_out
        is None
    )
    rows = [{"g": k // 4, "x": k % 7, "y": "ab"[(k % 7 > 3) ^ (k % 11 == 0)]} for k in range(80)]
    how: Any = {"target": "y", "method": "logistic"}
    assert bayesprop.fit(pl.DataFrame(rows), **how).notes.held_out["model"]["accuracy"] > 0.8
    grouped = bayesprop.fit(pl.DataFrame(rows), **how, group="g")
    assert grouped.notes.judged_by == "80 rows, by cross-validation, folds of whole groups of g"


def test_later_rows_are_judged_where_a_column_is_a_date(told):
    """A level that rises at last: rows at random are between others, later ones beyond."""
    rng = np.random.default_rng(0)
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=k) for k in range(400)]
    rise = 0.1 * np.maximum(np.arange(400.0) - 320.0, 0.0)
    for level, is_worse in ((rise, True), (np.zeros(400), False)):
        frame = pl.DataFrame({"day": days, "y": level + 0.3 * rng.normal(size=400)})
        model = bayesprop.fit(frame, **LINEAR)
        (again,) = model.fitted.again
        assert (again.option, again.column, again.n_groups) == ("time", "day", 0)
        assert again.is_worse == is_worse
        assert any("fit with time='day'" in one for one in model.remarks) == is_worse
    assert not bayesprop.fit(frame, **LINEAR, time="day").fitted.again


def test_what_does_as_well_is_said(told):
    rng = np.random.default_rng(5)
    x = rng.uniform(0.0, 9.0, 400)
    line = pl.DataFrame({"x": x, "y": 2.0 * x + rng.normal(size=400)})
    noise = pl.DataFrame({"x": x, "y": rng.normal(size=400)})
    in_groups = noise.with_columns(site=pl.Series([f"s{k % 40}" for k in range(400)]))

    def warnings(frame: pl.DataFrame, method: str, **how: Any) -> str:
        return " ".join(bayesprop.fit(frame, target="y", method=method, **how).remarks)

    assert re.search("a linear model predicts .* consider method='linear'", warnings(line, "pbp"))
    assert "A CONSTANT PREDICTS" in warnings(noise, "pbp")
    of_groups = warnings(in_groups, "pbp", group="site")
    assert re.search("AS WELL AS THE MODEL, on [0-9]+ groups", of_groups)
    assert "consider" not in warnings(line, "linear")


def test_a_constant_that_wins_by_probabilities_alone_is_no_verdict_on_the_columns(told):
    """Weights that make few rows many spoil the probabilities, not the order of the rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(3000)
    is_rare = x + 0.3 * rng.standard_normal(3000) > 2.3
    weight, y = np.where(is_rare, 50.0, 1.0), np.where(is_rare, "rare", "usual")
    frame = pl.DataFrame({"x": x, "w": weight, "y": y})
    model = bayesprop.fit(frame, target="y", method="logistic", weights="w", test_fraction=0.3)
    remark = next(one for one in model.remarks if "CONST" in one)
    assert "the columns do rank the rows (area under the ROC curve 0.9" in remark
    assert "say nothing of the target" not in remark


def test_groups_without_which_nothing_can_be_learnt_are_said(told):
    rng, k = np.random.default_rng(6), np.arange(400) // 40
    patient, kind = [f"P{one}" for one in k], [f"class {one}" for one in k]
    x = rng.uniform(size=400)
    frame = pl.DataFrame({"patient": patient, "age": 20 + k, "x": x, "y": kind})
    (again,) = bayesprop.fit(frame, target="y", method="logistic").fitted.again
    assert again.scores == {}
    assert again.remark.code == "again.unjudged"
