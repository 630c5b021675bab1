"""Asking for rows and telling results: what is made, what is chosen, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop import Optimiser
from bayesprop.table_model.optimise import Space

pytestmark = pytest.mark.filterwarnings("ignore:.*no value in the target")
METALS = ["copper", "nickel", "palladium"]


def result(frame: pl.DataFrame) -> pl.Series:
    """A yield whose best is heat 55, five steps, palladium."""
    heat, steps = frame["heat"].to_numpy(), frame["steps"].to_numpy()
    best = (frame["metal"] == "palladium").to_numpy()
    return pl.Series("yield", 80.0 - (heat - 55.0) ** 2 / 20.0 - (steps - 5.0) ** 2 + 9.0 * best)


def trials(n: int = 30) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "heat": rng.uniform(20.0, 90.0, n),
            "steps": rng.integers(1, 9, n),
            "metal": rng.choice(METALS, n),
        }
    )
    return frame.with_columns(result(frame))


HOW: Any = {"target": "yield", "method": "pbp", "hidden_layer_sizes": (20,), "n_epochs": 60}

LINE: Any = {"target": "yield", "method": "linear"}


def test_made_rows_lie_where_experiments_can():
    measured = trials()
    model = bayesprop.fit(measured, test_fraction=0, **HOW)
    rng = np.random.default_rng(1)
    space = Space.of(model.encoding, measured, {})
    for made in (space.drawn(4000, rng), space.near(measured, 4000, 0.1, rng)):
        assert made.schema == measured.drop("yield").schema
        for name in ("heat", "steps"):
            assert made[name].is_between(measured[name].min(), measured[name].max()).all()
        assert (made["heat"].round(2) == made["heat"]).all()  # four digits of its range
        assert set(made["metal"]) == set(METALS)
        assert set(made["steps"]) == set(range(1, 9))
    drawn = space.drawn(80_000, rng)["steps"].value_counts()["count"].to_numpy().astype(float)
    assert (np.abs(drawn - 10_000) < 4.0 * np.sqrt(10_000 * 7 / 8)).all()  # the ends as often
    wide = Space.of(model.encoding, measured, {"heat": (0.0, 200.0)}).drawn(4000, rng)
    wide = wide["heat"].to_numpy()
    assert wide.min() < 1.0 < 199.0 < wide.max()
    near = space.near(measured, 4000, 0.01, rng)["heat"].to_numpy()
    moved = np.abs(near - np.resize(measured["heat"].to_numpy(), 4000)) > 0.01
    assert abs(np.mean(moved) - 0.4) < 0.04  # some steps are shorter


def test_asking_and_telling_reaches_the_best():
    search = Optimiser(trials(), goal="max", make=500, **HOW)
    first = search.measured["yield"].to_numpy().max()
    for _ in range(3):
        asked = search.ask(4).frame
        assert len(asked.unique(["heat", "steps", "metal"])) == 4
        search.tell(asked.with_columns(result(asked)))
    assert len(search.measured) == 42
    assert search.measured.columns == trials().columns
    assert search.measured["yield"].to_numpy().max() > max(first, 87.0)  # of 89
    low = Optimiser(trials().with_columns(-pl.col("yield")), goal="min", make=500, **HOW).ask(1)
    assert low.records[0]["mean"] < -70.0


def test_rows_measured_or_planned_are_not_chosen_again():
    measured = trials()
    planned = measured[:3].with_columns(pl.lit(None, pl.Float64).alias("yield"), heat=50.0)
    pool = pl.concat(
        [measured[:5].drop("yield"), planned.drop("yield"), trials(33)[30:].drop("yield")]
    )
    search = Optimiser(pl.concat([measured, planned]), candidates=pool, **HOW)
    rows = {one["row"] for one in search.ask(3).records}
    assert rows == {9, 10, 11}
    with pytest.raises(ValueError, match="n must be at most 3"):
        search.ask(4)
    known = Optimiser(measured, candidates=measured.drop("yield"), **HOW)
    with pytest.raises(ValueError, match=r"^all candidates in the frame are among the rows meas"):
        known.ask()


def test_a_model_suggests_no_row_that_is_measured_or_planned():
    base = trials()
    measured = base.with_columns(pl.when(pl.col("heat") < 60.0).then("yield").alias("yield"))
    model = bayesprop.fit(base, test_fraction=0, **LINE)
    pool = pl.concat([base[:8, :3], trials(33)[30:, :3]])
    rows = model.suggest(pool, 3, goal="max", measured=measured).records
    assert {one["row"] for one in rows} == {9, 10, 11}
    with pytest.raises(ValueError, match=r"^all candidates in the frame are among the rows meas"):
        model.suggest(base, goal="max", measured=measured)


def test_made_rows_keep_what_was_the_same_or_is_fixed():
    measured = trials().with_columns(stirred=pl.lit(300), vessel=pl.lit("B"))
    ranges = {"heat": (62, 62), "steps": (3.5, 4.5)}
    asked = Optimiser(measured, make=50, ranges=ranges, **LINE).ask(2).frame
    assert asked.select("heat", "steps", "stirred", "vessel").rows() == 2 * [(62.0, 4, 300, "B")]


@pytest.mark.filterwarnings("ignore:.*holds numbers, but 'hot'")
def test_a_stray_word_leaves_numbers_a_range():
    measured = trials().with_columns(pl.col("heat").round(3).cast(pl.String))
    strayed = measured.with_columns(pl.Series("heat", ["hot", *measured["heat"][1:]]))
    search = Optimiser(strayed, make=50, ranges={"heat": (100, 120)}, **LINE)
    rows = search.ask(2).frame
    assert rows["heat"].is_between(100.0, 120.0).all()
    assert len(search.tell(rows.with_columns(pl.Series("yield", [1.0, 2.0]))).ask(1).records) == 1


def test_numbers_with_units_have_a_range_and_keep_their_units():
    plain = trials()
    cents = pl.Series([f"€ {one:.2f}".replace(".", ",") for one in plain["heat"][::-1]])
    measured = plain.with_columns(
        pl.format("{} °C", pl.col("heat").round(1)).alias("heat"),
        pl.format("{} min", "steps").alias("steps"),
        price=cents,
        mass=pl.format("{}K", pl.col("steps").reverse()),  # thousands are not written again
    )
    search = Optimiser(measured, make=200, ranges={"heat": (95, 99)}, **LINE)
    rows = search.ask(8).frame.select("heat", "steps", "metal", "price", "mass")
    assert rows["heat"].str.contains(r"^9[5-9](\.\d+)? °C$").all()
    assert rows["steps"].str.contains(r"^[1-8] min$").all()
    assert rows["price"].str.contains(r"^€ [2-9]\d(,\d+)?$").all()
    assert not rows["price"].is_in(measured["price"].to_list()).all()
    assert rows["mass"].is_in(measured["mass"].to_list()).all()
    told = search.tell(rows.with_columns(pl.Series("yield", np.arange(8.0)))).measured
    price = search.model.encode(told[-8:]).X[:, search.model.encoding.feature_names.index("price")]
    assert price.tolist() == [float(one[2:].replace(",", ".")) for one in rows["price"]]


def test_two_different_results_are_numbers():
    few = trials(6).with_columns(pl.Series("yield", [1, 2, 2, 1, 1, 2]))
    search = Optimiser(few, make=50, **LINE)
    assert len(search.ask(2).records) == 2
    assert not search.model.encoding.classes


def test_the_target_is_taken_as_numbers_unless_asked_otherwise():
    """However many rows there are; of limits it is censored, however few."""
    rows = trials(60).with_columns(pl.col("yield").truediv(9.0).exp())
    few = rows[:20].with_columns(
        pl.when(pl.col("yield") < pl.col("yield").median())
        .then(pl.format("<{}", pl.col("yield").median().round(1)))
        .otherwise(pl.col("yield").cast(pl.String))
        .alias("yield")
    )
    guessed = bayesprop.fit(rows, test_fraction=0, **LINE).estimator.target_kind
    assert guessed == "positive"
    for table, asked, kind in (
        (rows, {}, "numbers"),
        (rows, {"target_kind": "positive"}, "positive"),
        (few, {}, "censored"),
    ):
        search = Optimiser(table, make=50, **LINE, **asked)
        again = search.tell(
            search.ask(1).frame.with_columns(pl.lit(table["yield"][0]).alias("yield"))
        )
        assert again.model.estimator.target_kind == kind


def test_planned_rows_keep_others_away():
    """The best of a row and its neighbours is not asked for while the row is planned."""
    base = trials()
    top = Optimiser(base, make=300, **LINE).ask(1).frame.select(base.columns[:3])
    pool = pl.concat(
        [*[top.with_columns(pl.col("heat") + 0.01 * k) for k in range(9)], base[:9, :3]]
    )
    planned = top.with_columns(pl.lit(None, pl.Float64).alias("yield"))
    far = base[9:].with_columns(result(base[9:]))
    first = Optimiser(far, candidates=pool, **LINE).ask(1).records[0]
    search = Optimiser(pl.concat([far, planned]), candidates=pool, **LINE)
    assert first["row"] <= 9 < search.ask(1).records[0]["row"]
    search = Optimiser(far, candidates=pool, **LINE).tell(planned.to_dicts())
    assert search.ask(1).records[0]["row"] > 9


def test_rows_come_as_the_table_came():
    search = Optimiser(trials().to_pandas(), make=50, **LINE)
    rows = search.ask(2).frame
    rows["yield"] = [1.0, float("nan")]
    assert len(search.tell(rows).measured) == 32
    assert search.measured["yield"].null_count() == 1


def test_conditions_costs_and_values_to_reach():
    search = Optimiser(trials(), where="heat <= 40", make=300, cost="steps", **HOW)
    asked = search.ask(3)
    assert (asked.frame["heat"] <= 40.0).all()
    one = asked.records[0]
    by_cost = one["score"] - np.log(one["cost"])
    assert f"{by_cost:.4g} for each unit of cost" in one["why"]
    reach = Optimiser(trials(), target_value=85.0, make=300, acquisition="thompson", **HOW).ask(2)
    assert (reach.acquisition, reach.best) == ("thompson", 85.0)


def test_what_it_refuses():
    pool = trials()
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"candidates": pool, "make": 5}, "^give make or candidates, not both$"),
        ({"candidates": pool, "ranges": {"heat": (0, 1)}}, "^give ranges or candidates"),
        ({"make": True}, "^make must be a whole number >= 1, got True$"),
        ({"acquisition": 3}, "^no acquisition '3'; acquisitions: "),
        ({"cost": 3}, "^no column '3' in the rows that were made"),
        ({"where": "metal <= 3"}, "metal holds text, which can be compared by == and != only$"),
        ({"make": 0}, "^make must be a whole number >= 1, got 0$"),
        ({"goal": "best"}, "^goal must be max or min, got 'best'$"),
        ({"where": "heat > 900"}, "^no row that was made meets every where: give ranges"),
        ({"ranges": {"metal": (0, 1)}}, "^ranges: 'metal' is no column of numbers"),
        ({"ranges": {"cold": (0, 1)}}, "^ranges: 'cold' is no column of numbers"),
        ({"ranges": {"heat": (9, 1)}}, "^ranges: heat must lie between two finite numbers, the"),
        ({"ranges": {"steps": (1.2, 1.8)}}, "between two finite whole numbers, .* 1.2 and 1.8$"),
        ({"ranges": {"heat": "20:90"}}, r"^ranges must map columns to two numbers, as \{'heat'"),
        ({"where": 3}, "^where must be a column, one of .*; got '3'$"),
        ({"where": ["heat <= 40", None]}, "^where must be a column, .*; got 'None'$"),
        ({"test_fraction": "a"}, "^test_fraction must be 0 to 0.9, got a$"),
        ({"goal": None}, "^goal must be max or min, got 'None'$"),
        ({"candidates": pool[:0]}, "^the frame has no rows"),
        (
            {"candidates": pool.with_columns(price=pl.lit(0.0)), "cost": "price"},
            "^cost='price' must hold finite numbers > 0, got 0 in data rows 1, 2, ",
        ),
    )
    for asked, words in refused:
        with pytest.raises(ValueError, match=words):
            Optimiser(trials(), **HOW, **asked).ask()
    with pytest.raises(ValueError, match=r"no column 'yield'"):
        Optimiser(trials(), **HOW).tell([{"heat": 3.0}])
    with pytest.raises(ValueError, match="lacks 2 columns that the model needs: 'heat', 'steps'"):
        Optimiser(trials(), **HOW).tell([{"haet": 3.0, "metal": "nickel", "yield": 3.0}])
    search = Optimiser(trials(), make=9, **LINE)
    with pytest.raises(ValueError, match=r"^suggested must be what ask returned, got DataFrame$"):
        search.report("page.html", search.ask(1).frame)
    about: Any = {"target": "metal", "method": "logistic"}
    with pytest.raises(ValueError, match=r"^method='logistic' supports only class"):
        Optimiser(trials(), **about)
    with pytest.raises(ValueError, match=r"^target 'metal' must be a number"):
        Optimiser(trials(), target="metal")
