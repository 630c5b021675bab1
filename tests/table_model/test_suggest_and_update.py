"""What to measure next, as a bench scientist would ask, and what was measured going in."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import bayesprop
from bayesprop import ActiveLearner, GaussianPredictive, PBPRegressor
from bayesprop.active_learning.goal import Goal
from bayesprop.estimators.shell import RegressorBase
from bayesprop.table.errors import TableWarning
from house_table import as_csv, house_rows

HOW: Any = {"target": "price", "method": "pbp", "hidden_layer_sizes": (10,), "n_epochs": 20}


def houses(n: int = 120, seed: int = 3) -> pl.DataFrame:
    return pl.read_csv(io.StringIO(as_csv(house_rows(n, seed))))


def weighed(n: int) -> pl.DataFrame:
    return houses(n).with_columns(w=pl.int_range(n) % 2 + 1.0)


HOUSES, MEASURED = houses(), houses(15, seed=11)
# The last one is larger than any; and what a visit costs.
CANDIDATES = houses(100, seed=9).drop("price").with_columns(
    area=pl.when(pl.int_range(100) == 99).then(2000.0).otherwise("area"),
    town=pl.when(pl.int_range(100) == 99).then(pl.lit("Oslo")).otherwise("town"),
    visit=pl.Series(np.random.default_rng(0).uniform(1, 9, 100).round(2)),
)  # fmt: skip


@pytest.fixture(scope="module")
def model() -> bayesprop.TableModel:
    return bayesprop.fit(HOUSES, unit="kEUR", test_fraction=0.1, **HOW)


def test_suggestions_are_those_of_the_learner(model: bayesprop.TableModel):
    X = model.encode(CANDIDATES).X
    with pytest.warns(TableWarning, match="Oslo"):
        suggested = model.suggest(CANDIDATES, 4)
    chosen = ActiveLearner(model.estimator, update="stream").query(X, 4)
    assert (suggested.unit, suggested.n_candidates) == ("nats", 100)
    assert [one["row"] for one in suggested.records] == (chosen.indices + 1).tolist()
    np.testing.assert_allclose([one["score"] for one in suggested.records], chosen.scores)
    one, parts = suggested.records[0], model.estimator.predict_dist(X[chosen.indices])
    assert one["row"] == 100
    assert one["epistemic_std"] == pytest.approx(np.sqrt(parts.epistemic_var[0]))
    alone = 0.5 * np.log1p(parts.epistemic_var[0] / parts.noise_var[0])
    assert one["score_alone"] == pytest.approx(alone)
    for words in (
        "price would be ",
        " kEUR: ± ",
        "is epistemic",
        "more than 99 % of the 100 candidates",
        "Unlike the training rows in",
        "town missing (",
        "% of the uncertainty); area = 2,000 (+",
    ):
        assert words in one["why"]
    assert any(
        "once the rows chosen before are measured" in one["why"] for one in suggested.records
    )


@pytest.mark.filterwarnings("ignore:.*Oslo")
def test_costs_and_conditions_may_have_marks(model: bayesprop.TableModel):
    near = model.suggest(CANDIDATES, 6, where=["area<=90", "town != Oslo"]).frame
    assert near.columns[:4] == CANDIDATES.columns
    assert {"row", "score", "mean", "std", "why"} <= set(near.columns)
    assert (near["area"] <= 90.0).all()
    assert len(near.unique(CANDIDATES.columns)) == 6
    every = model.suggest(CANDIDATES, 60, batch="top").records
    marked = CANDIDATES.with_columns(visit=pl.format("€{}", "visit"))
    for table in (CANDIDATES, marked):
        (best,) = model.suggest(table, 1, cost="visit").records
        worth = {
            one["row"]: one["score"] / CANDIDATES["visit"][one["row"] - 1] for one in every
        }  # fmt: skip
        assert best["row"] == max(worth, key=worth.__getitem__)
        assert "for each unit of cost" in best["why"]
        few = model.suggest(table, 1, where=f"visit <= {CANDIDATES['visit'].min()}").records
        assert few[0]["row"] == int(np.argmin(CANDIDATES["visit"])) + 1


@pytest.mark.filterwarnings("ignore:.*Oslo")
def test_reference_rows_and_frames_of_pandas(model: bayesprop.TableModel):
    about = {"acquisition": "expected-entropy-reduction", "reference": HOUSES}
    table = CANDIDATES.to_pandas().set_index(np.arange(100) + 7)
    suggested = model.suggest(table, **about)
    assert (suggested.frame.index == suggested.frame["row"] + 6).all()
    assert all(0.0 < one["score"] < 1.0 for one in suggested.records)
    with pytest.raises(ValueError, match=r"^reference requires acquisition='expected-entropy"):
        model.suggest(table, reference=HOUSES)


@pytest.mark.filterwarnings("ignore:.*Oslo")
@pytest.mark.parametrize("goal", ["max", "min"])
def test_suggestions_for_a_goal_are_those_of_the_learner(model: bayesprop.TableModel, goal: Any):
    """The best so far is the best mean at all rows, those that judged the fit, too."""
    X, measured = model.encode(CANDIDATES).X, model.encode(HOUSES).X
    means = model.estimator.predict(measured)
    best = means.max() if goal == "max" else means.min()
    suggested = model.suggest(CANDIDATES, 3, goal=goal)
    learner = ActiveLearner(model.estimator, "log-expected-improvement", update="stream")
    chosen = learner.query(X, 3, goal=Goal(goal, float(best)))
    assert (suggested.acquisition, suggested.unit) == ("log-expected-improvement", "log kEUR")
    assert suggested.best == pytest.approx(best)
    assert [one["row"] for one in suggested.records] == (chosen.indices + 1).tolist()
    again = model.suggest(CANDIDATES, 3, goal=goal, measured=HOUSES.drop_nulls())
    assert [one["score"] for one in again.records] == pytest.approx(chosen.scores)
    for one in suggested.records:
        ahead = (one["mean"] - best) * (1.0 if goal == "max" else -1.0)
        assert one["expected_gain"] >= max(ahead, 0.0)
        assert (one["chance"] > 0.5) == (ahead > 0.0)
        assert f"with a chance of {one['chance']:.2g}" in one["why"]


@pytest.mark.filterwarnings("ignore:.*Oslo")
def test_a_value_to_reach_and_a_model_file(model: bayesprop.TableModel, tmp_path: Any):
    model.save(tmp_path / "m")
    opened = bayesprop.load(tmp_path / "m")
    (one,) = opened.suggest(CANDIDATES, 1, goal="max", target_value=900.0).records
    part = opened.predict_dist(CANDIDATES)
    chance = stats.norm.sf((900.0 - part.mean) / np.sqrt(part.epistemic_var))
    assert one["score"] == one["chance"] == pytest.approx(chance.max())
    assert "It beats the value asked for, 900.0 kEUR" in one["why"]
    bound = opened.suggest(CANDIDATES, 1, goal="min", acquisition="confidence-bound")
    assert bound.best is None
    assert "chance" not in bound.records[0]
    with pytest.raises(ValueError, match=r"^goal needs the value to beat: .* by measured, or"):
        opened.suggest(CANDIDATES, goal="max")


def test_what_a_goal_refuses(model: bayesprop.TableModel):
    for asked, words in (
        ({"goal": "most"}, "^goal must be max or min, got 'most'"),
        ({"target_value": 3.0}, "^target_value requires goal$"),
        ({"measured": HOUSES}, "^measured requires goal$"),
        ({"acquisition": "thompson"}, "^acquisition='thompson' requires goal$"),
        ({"goal": "max", "acquisition": "mutual-information"}, "^goal seeks the best row"),
        ({"goal": "max", "target_value": 3.0, "measured": HOUSES}, "^give measured or target_val"),
        ({"goal": "max", "target_value": np.inf}, "^target_value must be a finite number"),
    ):
        with pytest.raises(ValueError, match=words):
            model.suggest(CANDIDATES, **asked)
    iris = bayesprop.fit("iris", method="logistic", test_fraction=0)
    with pytest.raises(ValueError, match=r"^goal requires a target of numbers, and species holds"):
        iris.suggest("iris", goal="max")


@pytest.mark.parametrize("batch", ["auto", "fantasy"])
def test_suggestions_of_classes(batch: str):
    iris = bayesprop.fit("iris", method="logistic", test_fraction=0)
    suggested = iris.suggest("iris", 4, batch=batch)
    assert len({one["row"] for one in suggested.records}) == 4
    assert {"likeliest", "entropy", "mutual_information"} <= set(suggested.frame.columns)
    assert "nats of uncertainty" in suggested.records[0]["why"]


@pytest.mark.filterwarnings("ignore:.*Oslo")
def test_a_model_without_doubt_says_so(model: bayesprop.TableModel, monkeypatch: Any):
    predict = PBPRegressor.predict_dist

    def sure(self: Any, X: Any) -> GaussianPredictive:
        found = predict(self, X)
        return GaussianPredictive(found.mean, np.zeros(len(found)), found.noise_var)

    monkeypatch.setattr(PBPRegressor, "predict_dist", sure)
    with pytest.warns(TableWarning, match="every candidate scores 0"):
        model.suggest(CANDIDATES)


def test_streaming_is_partial_fit_on_the_encoded_rows(model: bayesprop.TableModel):
    X, before = model.encode(HOUSES).X, model.evaluate(MEASURED)
    own = model.estimator.predict(X)
    updated = model.update(MEASURED)
    assert updated.notes.updates[-1]["before"] == before
    assert updated.notes.rows == {"train": 123, "held_out": 0}
    assert (updated.notes.held_out, updated.notes.errors, updated.notes.judged_by) == (None, {}, "")
    assert updated.notes.command == f"{model.notes.command} && model.update('the frame')"
    np.testing.assert_array_equal(model.estimator.predict(X), own)
    again = bayesprop.fit(HOUSES, unit="kEUR", test_fraction=0.1, **HOW).estimator
    again.partial_fit(model.encode(MEASURED).X, MEASURED["price"].to_numpy())
    np.testing.assert_array_equal(updated.estimator.predict(X), again.predict(X))


@pytest.mark.filterwarnings("ignore::bayesprop.table.errors.TableWarning")
def test_a_refit_learns_all_rows(model: bayesprop.TableModel):
    """With no rows held out and the same seed: a fit to the two tables, one after another."""
    first = bayesprop.fit(HOUSES, test_fraction=0, **HOW)
    X = first.encode(pl.concat([HOUSES, MEASURED])).X
    prices = np.concatenate([HOUSES["price"], MEASURED["price"]])
    whole = PBPRegressor(**first.estimator.get_params()).fit(X, prices)
    refitted = first.update(MEASURED, [HOUSES])
    np.testing.assert_array_equal(refitted.estimator.predict(X), whole.predict(X))
    before, held = model.notes, model.update(MEASURED, HOUSES).notes
    assert held.errors.keys() == before.errors.keys()
    assert held.errors["rmse"] != before.errors["rmse"]
    assert held.judged_by == before.judged_by == "12 held-out rows"
    assert held.rows == {"train": 123, "held_out": 12}
    assert held.held_out is not None
    assert held.held_out["model"]["rmse"] < 0.5 * held.held_out["constant"]["rmse"]


def test_rows_that_were_learnt_before_are_known_again(model: bayesprop.TableModel):
    streamed = model.update(MEASURED)
    for again, words in (
        (lambda: streamed.update(MEASURED), "learnt these 15 rows of the frame: to learn them"),
        (lambda: streamed.update(HOUSES), "was fitted on some of these 120 rows"),
        (lambda: streamed.evaluate(MEASURED), "learnt these 15 rows of the frame: the figures"),
        (lambda: streamed.update(houses(9, 7), HOUSES), "name every table .* learnt by known"),
    ):
        with pytest.warns(TableWarning, match=words):
            again()


def test_updates_have_the_weights_of_the_fit():
    model = bayesprop.fit(weighed(120), weights="w", test_fraction=0, **HOW)
    again = bayesprop.fit(weighed(120), weights="w", test_fraction=0, **HOW).estimator
    new = weighed(6).with_columns(w=pl.lit(3.0), price=pl.col("price") + 1.0)
    again.partial_fit(model.encode(new).X, new["price"].to_numpy(), np.full(6, 3.0))
    X = model.encode(HOUSES).X
    np.testing.assert_array_equal(model.update(new).estimator.predict(X), again.predict(X))
    assert model.update(new, weighed(120)).notes.rows["train"] == 126
    with pytest.raises(ValueError, match="no column 'w'"):
        model.update(MEASURED)
    with pytest.raises(ValueError, match="at least one number > 0"):
        model.update(new.with_columns(w=pl.lit(0.0)))


def test_updates_have_the_missing_values_of_the_fit(tmp_path: Any):
    first = HOUSES.with_columns(
        price=pl.when(pl.int_range(120) > 2).then("price").otherwise(-999.0)
    )
    first.write_csv(tmp_path / "first.csv")
    model = bayesprop.fit(first, missing=["-999"], test_fraction=0, **HOW)
    for known in (first, str(tmp_path / "first.csv")):
        assert model.update(MEASURED, known).notes.rows["train"] == 117 + 15


def test_what_an_update_refuses(model: bayesprop.TableModel, monkeypatch: Any):
    other = MEASURED.clone()
    refused: list[tuple[Any, str]] = [
        ((CANDIDATES,), "no column 'price'"),
        ((MEASURED, [MEASURED]), r"^known=\['the frame'\]: these are the new rows"),
        ((MEASURED, [other]), r"^known=\['the frame'\]: .* the unchanged table of the fit"),
        ((MEASURED, [HOUSES], 9.0), "^half_life is for streamed rows, without known$"),
        ((MEASURED, [], 0.0), "half_life must be a number"),
    ]
    for asked, words in refused:
        with pytest.raises(ValueError, match=re.compile(words)):
            model.update(*asked)
    monkeypatch.delattr(RegressorBase, "partial_fit")
    with pytest.raises(ValueError, match=r"^pbp cannot learn row by row: .* name by known the"):
        model.update(MEASURED)
    assert model.update(MEASURED, HOUSES).notes.rows["train"] == 123
