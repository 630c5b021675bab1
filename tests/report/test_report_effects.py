"""Partial dependence in a report, against averages by hand."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest

from bayesprop import BayesianLinearRegressor
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.report import effect_figures
from bayesprop.report.contents import collect
from bayesprop.report.effects import Feature, effects, features_of, moments, probabilities
from bayesprop.table.encoding import TableEncoding
from report_fakes import FRAUD, WINE, classifier, given, regressor, rows, slopes

ANYWHERE = (-np.inf, np.inf)
TWO = (Feature("a", (0,)), Feature("b", (1,)))


def test_partial_dependence_is_the_average_over_the_rows():
    estimator, x = regressor(d=2), rows(150, d=2, seed=4).X
    found = effects(estimator.predict_dist, x, TWO, moments(ANYWHERE))
    assert [e.name for e in found.shown] == ["a", "b"]
    for column, effect in enumerate(found.shown):
        others = np.mean(x[:, 1 - column]) * slopes(2)[1 - column] + 3.0
        np.testing.assert_allclose(effect.curve.mean, effect.grid * slopes(2)[column] + others)
        assert effect.curve.movement == pytest.approx(slopes(2)[column] * np.ptp(effect.grid))
        low, high = np.quantile(x[:, column], (0.025, 0.975), method="inverted_cdf")
        np.testing.assert_allclose(effect.grid[[0, -1]], (low, high))
    z = estimator.x_scaler_.transform(np.column_stack([found.shown[0].grid, np.zeros(25)]))[:, 0]
    np.testing.assert_allclose(found.shown[0].curve.epistemic_std, np.sqrt(0.01 + 0.05 * z**2))
    np.testing.assert_allclose(found.shown[0].curve.std, np.sqrt(0.5 + 0.05 * z**2))
    x[:, 1] = 5.0
    found = effects(estimator.predict_dist, x, TWO, moments(ANYWHERE))
    assert ([one.name for one in found.shown], found.others) == (["a"], (("b", 0.0),))


@pytest.mark.parametrize("gaps", [False, True])
def test_numbers_that_name_have_an_effect_by_number_and_by_name(gaps):
    plot = np.arange(240) % 12
    level = np.array([3.0, -1, 4, 1, -5, 9, -2, 6, -5, 3, 5, -8])
    known = np.arange(240) % 5 > 0 if gaps else np.ones(240, bool)
    crop = np.where(known, level[plot], 30.0) + 0.1 * (np.arange(240) % 7)
    frame = pl.DataFrame({"plot": pl.Series(np.where(known, plot, np.nan), nan_to_null=True)})
    encoding = TableEncoding.fit(frame.with_columns(crop=crop), "crop")
    assert encoding.nominal_columns == ("plot",)
    x = encoding.encode(frame).X
    number, names = features_of(encoding, np.nan_to_num(x))
    assert (number.name, number.columns, number.settings) == ("plot", (0,), None)
    assert (names.name, names.columns) == ("plot (by name)", tuple(range(1, x.shape[1])))
    assert set(names.levels) == {*map(str, range(12)), *(["(missing)"] if gaps else [])}
    for setting, name in zip(names.settings, names.levels, strict=True):
        row = x[~known][0] if name == "(missing)" else x[known & (plot == int(name))][0]
        np.testing.assert_array_equal(setting, row[1:])


def test_effects_of_a_table_with_categories_and_gaps():
    n = 32
    colours = ["red", "blue", "red", "red", "green", "blue", "red", "green"]
    frame = pl.DataFrame(
        {
            "size": [None if k < 8 else float(k % 9) for k in range(n)],
            "colour": colours * (n // 8),
            "new": [True, False] * (n // 2),
            "y": np.arange(float(n)),
        }
    )
    encoding = TableEncoding.fit(frame, "y", "regression")
    x = np.nan_to_num(encoding.encode(frame).X)
    weight = dict(zip(encoding.feature_names, range(1, 20), strict=False))
    estimator = regressor(d=x.shape[1], slopes=np.array(list(weight.values()), dtype=float))
    features = features_of(encoding, x)
    assert [f.name for f in features] == ["size", "size is missing", "colour", "new"]
    found = {
        e.name: e for e in effects(estimator.predict_dist, x, features, moments(ANYWHERE)).shown
    }
    colour = found["colour"]
    assert colour.levels == ("red", "blue", "green")
    expected = [weight["colour=red"], weight["colour=blue"], weight["colour=green"]]
    np.testing.assert_allclose(np.diff(colour.curve.mean), np.diff(expected))
    assert found["size is missing"].levels == ("no", "yes")
    assert found["size is missing"].curve.movement == pytest.approx(weight["size is missing"])
    assert found["new"].levels == ("0", "1")
    assert found["size"].levels == ()


def test_twelve_effects_are_shown_and_the_rest_named():
    found = collect(**given(rows(60, d=20), rows(30, d=20, seed=5))).effects
    moved = [e.curve.movement for e in found.shown]
    assert len(moved) == 12
    assert moved == sorted(moved, reverse=True)
    assert len(found.others) == 8
    assert found.others[0][1] <= moved[-1]


def test_the_number_of_predictions_is_bounded():
    few, many = regressor(d=3), regressor(d=200)
    collect(**given(rows(4000), rows(50), estimator=few))
    assert few.n_predicted <= 50 + 3 * 25 * 200
    wide = collect(**given(rows(300, d=200), rows(50, d=200, seed=3), estimator=many)).effects
    assert many.n_predicted <= 50 + 200 * 3 * 20 + 40 * 25 * 200
    assert wide.screened
    assert len(wide.shown) + len(wide.others) == 200
    assert wide.shown[0].name == "x1"
    assert wide.others_listed.endswith(" and 148 more that move it less")


def test_bands_end_where_the_target_does():
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = np.maximum(x[:, 0] - 0.5, 0.0)
    model = BayesianLinearRegressor(target_kind="nonnegative").fit(x, y)
    shown = effects(model.predict_dist, x, TWO, moments(model.task_.map.support)).shown
    ends = [band for effect in shown for band, _ in effect_figures.bands(effect)]
    assert min(band.min() for band in ends) == 0.0
    below = [one.curve.mean - 2.0 * one.curve.std for one in shown]
    assert np.min(below) < 0.0, "without the end"


def test_effects_are_averages_of_the_positive_class():
    train, _ = FRAUD
    contents = collect(**given(*FRAUD))
    assert {effect.curve.of for effect in contents.effects.shown} == {"fraud"}
    effect = contents.effects.shown[0]
    assert effect.name == "x1"
    x = train.X.copy()
    x[:, 0] = effect.grid[-1]
    whole = classifier(train).predict_dist(x).proba[:, 1]
    # 200 of the rows are averaged over.
    error = np.std(whole) / np.sqrt(200)
    assert effect.curve.mean[-1] == pytest.approx(np.mean(whole), abs=4 * error)
    assert effect.curve.std is None


def test_of_several_classes_an_effect_shows_the_one_that_moves_most():
    train, _ = WINE
    estimator = classifier(train)
    effect = collect(**given(*WINE, estimator=estimator)).effects.shown[0]
    column = int(effect.name[1:]) - 1
    ends = []
    for end in (effect.grid[0], effect.grid[-1]):
        x = train.X.copy()
        x[:, column] = end
        ends.append(np.mean(estimator.predict_dist(x).proba, axis=0))
    moved = np.abs(ends[1] - ends[0])
    assert effect.curve.of == estimator.classes_[np.argmax(moved)]
    assert effect.curve.movement == pytest.approx(np.max(moved), rel=0.02)


def test_a_weekday_is_one_feature():
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=3 * k) for k in range(40)]
    frame = pl.DataFrame({"x": range(40), "day": days, "y": np.arange(40.0)})
    encoding = TableEncoding.fit(frame, "y", "regression")
    features = features_of(encoding, encoding.encode(frame).X)
    assert [f.name for f in features] == ["x", "day (years)", "day (weekday)"]
    assert features[2].columns == tuple(range(2, 9))
    names = [f"day={level}" for level in features[2].levels]
    assert [encoding.feature_names[k] for k in features[2].columns] == names


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_doubt_about_a_probability_is_its_variance_over_the_posterior(n_classes):
    """Two networks that disagree a little: exact of two classes, a bound of more."""
    rng = np.random.default_rng(0)
    mean = rng.dirichlet(np.full(n_classes, 5.0), 50)
    away = 0.02 * mean * rng.choice([-1.0, 1.0], mean.shape)
    away -= mean * np.sum(away, axis=1, keepdims=True)
    members = np.stack([mean + away, mean - away])
    entropy = -np.mean(np.sum(members * np.log(members), axis=2), axis=0)
    predicted = ClassPredictive(mean, entropy, np.arange(n_classes))
    found = probabilities(predicted).quantities(predicted)[n_classes:].T
    exact = members.var(axis=0)
    if n_classes == 2:
        np.testing.assert_allclose(found, exact, rtol=2e-3)
    else:
        assert np.all(found >= 0.998 * exact)


def test_the_density_counts_the_rows():
    x = rows(150, d=2, seed=4).X
    x[:, 1] = np.arange(150) % 3 == 0
    number, level = sorted(
        effects(regressor(d=2).predict_dist, x, TWO, moments(ANYWHERE)).shown,
        key=lambda one: one.name,
    )
    assert level.levels == ("0", "1")
    assert list(level.n_rows) == [100, 50]
    inside = (x[:, 0] >= number.grid[0]) & (x[:, 0] <= number.grid[-1])
    assert number.n_rows.sum() == inside.sum()
    first = (x[:, 0] >= number.edges[0]) & (x[:, 0] < number.edges[1])
    assert number.n_rows[0] == first.sum()
