"""The page on a search for the best: what stands there, and that it is what the model says."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from bayesprop import Optimiser
from bayesprop.active_learning.goal import Goal
from bayesprop.evaluation.words import number, percent, value
from bayesprop.report.search_page import Search, running_best
from bayesprop.table_model.optimise import search_of
from bayesprop.table_model.suggest import Suggestions
from page_reader import HOSTILE, Page

pytestmark = pytest.mark.filterwarnings("ignore:.*no value in the target")
HEAT, LEVEL, TARGET = HOSTILE[0], HOSTILE[6], HOSTILE[1]


@pytest.fixture(scope="module")
def search() -> Optimiser:
    rng = np.random.default_rng(0)
    heat, level = rng.uniform(20.0, 90.0, 25), np.resize([HOSTILE[2], HOSTILE[5]], 25)
    result = heat + 9.0 * (level == HOSTILE[2]) + rng.standard_normal(25)
    pure = 1.0 - heat / 100.0 + 0.01 * rng.standard_normal(25)
    table = pl.DataFrame({HEAT: heat, LEVEL: level, TARGET: result, "pure": pure})
    planned = table[:2].with_columns(
        pl.lit(None, pl.Float64).alias(TARGET), pl.lit(None, pl.Float64).alias("pure")
    )
    table = pl.concat([table[:10], planned, table[10:]])
    asked = {"requires": "pure >= 0.5", "method": "linear", "make": 100}
    return Optimiser(table, target=TARGET, goal="max", **asked)


@pytest.fixture(scope="module")
def asked(search) -> Suggestions:
    return search.ask(3)


@pytest.fixture(scope="module")
def contents(search, asked) -> Search:
    return search_of(search.model, search.measured, Goal("max"), search._required, asked)


def test_the_page_is_whole_and_survives_hostile_names(search, asked, tmp_path):
    search.report(tmp_path / "s.html", asked)
    page = Page((tmp_path / "s.html").read_text(encoding="utf-8"))
    assert page.tags["svg"] == 3  # the course, and of two columns what they change
    assert page.references <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert len(page.scripts) == 1
    text = page.text.replace("\N{NO-BREAK SPACE}", " ")
    assert "25 measured rows · 2 planned rows" in text
    assert "orange diamonds: rows that probably do not meet" in text


def test_the_best_is_that_of_the_model_among_rows_that_meet_what_is_required(search, contents):
    table = search.measured
    mean = search.model.predict_dist(table).mean
    is_pure = search._required[0].log_probability(table) >= np.log(0.5)
    is_measured = table[TARGET].is_not_null().to_numpy()
    assert contents.is_met.tolist() == (is_pure & is_measured).tolist()
    best = max(np.flatnonzero(contents.is_met), key=lambda row: mean[row])
    assert (contents.best, contents.n_planned) == (best, 2)
    assert contents.best_mean == pytest.approx(mean[best])
    assert contents.expected[:2, 0] == pytest.approx(mean[10:12])
    assert len(contents.expected) == 5
    course, so_far = running_best(contents), -np.inf
    for row, (result, counts) in enumerate(zip(contents.values, contents.is_met, strict=True)):
        so_far = max(so_far, result) if counts else so_far
        assert course[row] == so_far
    falling = running_best(contents._replace(sign=-1.0, values=-contents.values))
    assert falling.tolist() == (-course).tolist()


def test_the_table_holds_the_suggestions(asked, contents):
    for row, record, expected in zip(
        contents.rows, asked.records, contents.expected[2:], strict=True
    ):
        cells = dict(zip(contents.heads, row, strict=True))
        assert cells[LEVEL] in (HOSTILE[2], HOSTILE[5])
        assert cells[f"Expected {TARGET}"] == value(record["mean"]) == value(expected[0])
        assert cells["90 % interval"] == f"{value(expected[1])} to {value(expected[2])}"
        assert cells["Chance to beat the best"] == percent(record["chance"])
        assert cells["Expected gain"] == number(record["expected_gain"])
        assert cells["Probability of meeting all"] == percent(record["met"])


def test_effects_change_one_column_of_the_best_row_alone(search, contents):
    heat = next(one for one in contents.effects.shown if one.name == HEAT)
    rows = search.measured[[contents.best] * len(heat.grid)].with_columns(
        pl.Series(HEAT, heat.grid)
    )
    assert heat.curve.mean == pytest.approx(search.model.predict_dist(rows).mean)
    assert contents.effects.n_background == 1


def test_where_no_row_meets_it_all_rows_are_compared(search, asked):
    none = [search._required[0]._replace(value=2.0)]
    contents = search_of(search.model, search.measured, Goal("min"), none, asked)
    assert not contents.is_met.any()
    mean = search.model.predict_dist(search.measured).mean
    mean[search.measured[TARGET].is_null().to_numpy()] = np.inf
    assert contents.best == np.argmin(mean)
    assert np.isinf(running_best(contents)).all()
