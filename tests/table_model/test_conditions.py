"""Conditions on columns and on further outputs, against scipy and a toy whose answer is known."""

from __future__ import annotations

import warnings
from datetime import date, datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import bayesprop
from bayesprop import Optimiser
from bayesprop.table.errors import TableWarning
from bayesprop.table_model.conditions import Requirement, meets

DAYS = [date(2024, 1, 31), date(2024, 10, 2), date(2025, 3, 1), None]
HOW: Any = {"method": "linear", "test_fraction": 0}
NUMBERS: Any = HOW | {"target_kind": "numbers"}


def trials(n: int = 40) -> pl.DataFrame:
    """The hotter, the more yield and the less purity: 0.6 of it at a heat of 40."""
    rng = np.random.default_rng(0)
    heat = np.linspace(5.0, 95.0, n)
    noise = rng.standard_normal((2, n))
    pure = 1.0 - heat / 100.0 + 0.01 * noise[0]
    return pl.DataFrame(
        {"heat": heat, "purity": pure, "works": pure > 0.6, "yield": heat + 0.5 * noise[1]}
    )


POOL = pl.DataFrame({"heat": np.arange(0.5, 100.0)})


@pytest.fixture(scope="module")
def models() -> dict[str, bayesprop.TableModel]:
    columns = ("purity", "yield")
    made = {
        one: bayesprop.fit(trials().select("heat", one), target=one, **NUMBERS) for one in columns
    }
    classes = trials().select("heat", "works")
    about = HOW | {"method": "logistic"}
    return made | {"works": bayesprop.fit(classes, target="works", **about)}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("flag == True", [0, 3]),
        ("flag==false", [1]),
        ("flag != true", [1]),
        ("day <= 2024-10-02", [0, 1]),
        ("day > 2.10.2024", [2]),
        ("german > 2024-09-15", [1, 2]),
        ("german == 02.10.2024", [1]),
        ("moment >= 2024-10-02 12:00", [2]),
        ("word == true", [0]),
    ],
)
def test_truth_values_and_dates_compare_as_such(text: str, rows: list[int]):
    known = [one for one in DAYS if one is not None]
    frame = pl.DataFrame(
        {
            "flag": [True, False, None, True],
            "day": DAYS,
            "german": [*(f"{one:%d.%m.%Y}" for one in known), None],
            "moment": [*(datetime(one.year, one.month, one.day, 9) for one in known), None],
            "word": ["true", "maybe", "no", None],
        }
    )
    assert np.flatnonzero(meets(frame, text, frame)).tolist() == rows


def test_values_that_are_none_are_refused():
    frame = pl.DataFrame({"flag": [True, False], "day": DAYS[:2], "heat": [1.0, 2.0]})
    for text, words in (
        ("flag == yes", "flag holds truth values, and 'yes' is no truth value"),
        ("flag > false", "flag holds Boolean, which can be compared by == and != only"),
        ("day > soon", "day holds dates, and 'soon' is no date"),
        ("day > 2024", "day holds dates, and '2024' is no date"),
        ("heat < hot", "heat holds numbers, and 'hot' is no number"),
    ):
        with pytest.raises(ValueError, match=f"^where='{text}': {words}"):
            meets(frame, text, frame)


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
def test_the_probability_is_a_tail_of_the_function(models: Any, sign: str):
    part = models["purity"].predict_dist(POOL)
    z = (part.mean - 0.6) / np.sqrt(part.epistemic_var)
    exact = stats.norm.logcdf(z if ">" in sign else -z)
    assert exact.min() < -1000.0  # where the probability itself is 0
    found = Requirement.of((models["purity"], sign, 0.6)).log_probability(POOL)
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-12)


def test_the_probability_of_a_class_is_predicted(models: Any):
    p = models["works"].predict(POOL)["p(true)"].to_numpy()
    works = [Requirement.of((models["works"], sign, True)) for sign in ("==", "!=")]
    np.testing.assert_allclose(np.exp(works[0].log_probability(POOL)), p, rtol=1e-6)
    np.testing.assert_allclose(np.exp(works[1].log_probability(POOL)), 1.0 - p, atol=1e-9)


def test_a_row_that_would_fail_is_not_chosen(models: Any, tmp_path: Any):
    model, purity = models["yield"], models["purity"]
    free = model.suggest(POOL, 1, goal="max", measured=trials()).frame
    assert free["heat"][0] > 90.0
    purity.save(tmp_path / "purity.bayesprop")
    text = f"{tmp_path / 'purity.bayesprop'} >= 0.6"
    about: Any = {"goal": "max", "measured": trials(), "batch": "top"}
    found = model.suggest(POOL, 3, requires=text, **about)
    assert (found.frame["heat"] < 42.0).all()
    again = model.suggest(POOL, 100, requires=(purity, ">=", 0.6), **about)
    met = trials().filter(purity.predict_dist(trials()).mean >= 0.6)
    assert found.best == pytest.approx(model.predict_dist(met).mean.max())
    plain = model.suggest(POOL, 100, goal="max", target_value=found.best, batch="top",
                          acquisition="log-expected-improvement")  # fmt: skip
    gain = {one["row"]: one["score"] for one in plain.records}
    log_p = Requirement.of((purity, ">=", 0.6)).log_probability(POOL)
    for one in again.records:
        assert one["score"] == pytest.approx(gain[one["row"]] + log_p[one["row"] - 1])
        assert one["met"] == pytest.approx(np.exp(log_p[one["row"] - 1]))
        words = f"It meets purity >= 0.6 with a probability of {one['met']:.2g}."
        assert words in one["why"]
    assert [one["score"] for one in again.records] == sorted(
        (one["score"] for one in again.records), reverse=True
    )
    chance = model.suggest(
        POOL, 1, goal="max", target_value=30.0, requires=(purity, ">=", 0.6), batch="top"
    ).records[0]
    assert chance["score"] == pytest.approx(chance["chance"] * chance["met"])


def test_where_no_measured_row_meets_it_any_result_is_a_gain(models: Any):
    required = (models["purity"], ">=", 1.2)
    with pytest.warns(TableWarning, match="no measured row is likely to meet what is"):
        found = models["yield"].suggest(POOL, 1, goal="max", measured=trials(), requires=required)
    assert found.best == pytest.approx(models["yield"].predict_dist(trials()).mean.min())
    assert "It beats the worst so far" in found.records[0]["why"]
    assert found.frame["heat"][0] < 5.0


def test_an_optimiser_learns_the_further_output():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        search = Optimiser(
            trials().drop("works"), target="yield", requires="purity >= 0.6", make=200,
            method="linear",
        )  # fmt: skip
        assert search.outputs == ["purity"]
        asked = search.ask(2).frame
        assert (asked["heat"] < 50.0).all()
        assert "purity" not in asked.columns
        # Measured, these rows are much purer than before, so that more heat is allowed.
        new = POOL[40:].with_columns(purity=pl.lit(0.9), **{"yield": pl.col("heat")})
        assert search.tell(new).ask(1).frame["heat"][0] > asked["heat"].to_numpy().max()


def test_random_rows_are_not_tried_for_their_uncertainty(models: Any):
    found = models["yield"].suggest(POOL, 20, goal="max", acquisition="random")
    assert any("worse." in one["why"] for one in found.records)
    assert not any("tried for its uncertainty" in one["why"] for one in found.records)
    assert models["yield"].suggest(POOL, 1, goal="max").unit == ""


def test_what_a_requirement_refuses(models: Any):
    purity, works = models["purity"], models["works"]
    for asked, words in (
        ({"requires": (purity, ">=", 0.6)}, "^requires requires goal$"),
        ({"goal": "max", "requires": "purity"}, "^requires must be a condition such as"),
        ({"goal": "max", "requires": [(purity, 0.6)]}, "^requires must be a condition such as"),
        ({"goal": "max", "requires": (purity, "==", 0.6)}, "compare purity by one of <= >= < > "),
        ({"goal": "max", "requires": (purity, ">=", "a")}, "with a finite number$"),
        ({"goal": "max", "requires": (works, "==", "yes")}, "with one of false, true$"),
        ({"goal": "max", "requires": 5}, "^requires must be a condition such as"),
        ({"goal": "max", "requires": "none.bayesprop > 1"}, "none.bayesprop"),
        ({"goal": "max", "requires": (purity, ">=", 0.6)}, "^goal needs the value to beat"),
        ({"goal": "max", "requires": (purity, ">=", 0.6), "acquisition": "thompson"},
         "^requires needs acquisition to be one of log-expected-improvement, probability"),
    ):  # fmt: skip
        with pytest.raises((ValueError, OSError), match=words):
            models["yield"].suggest(POOL, **asked)


def test_an_optimiser_says_that_all_rows_are_measured():
    few = pl.DataFrame({"metal": ["a", "b"] * 20, "yield": np.arange(40.0)})
    with pytest.raises(ValueError, match=r"^all rows that can be made are among .* widen ranges"):
        Optimiser(few, target="yield", method="linear", make=50).ask(1)


def test_a_requirement_is_not_about_the_target():
    with pytest.raises(ValueError, match=r"yield is the target: name .* by target_value$"):
        Optimiser(POOL, target="yield", requires="yield <= 1")
