from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from report_fakes import METADATA, fit_report, regressor, rows, slopes
from scipy import stats

from bayesprop.model.task import Standardiser
from bayesprop.report.baselines import Baselines
from bayesprop.report.contents import collect
from bayesprop.report.effects import MOMENTS, effects
from bayesprop.report.features import Feature, features_of
from bayesprop.report.rows import Rows
from bayesprop.report.tasks import NUMBERS
from bayesprop.table.encoding import TableEncoding


def collected(**changes):
    settings = {
        "estimator": regressor(),
        "encoding": None,
        "train": rows(300, seed=1),
        "test": rows(120, seed=2),
        "metadata": METADATA,
    }
    return collect(NUMBERS, **(settings | changes))


def score(contents, name):
    return next(s for s in contents.scores if s.name.replace("\N{NO-BREAK SPACE}", " ") == name)


def test_metrics_equal_direct_computation():
    contents, test, train = collected(), rows(120, seed=2), rows(300, seed=1)
    mean = test.X @ slopes(3) + 3.0
    std = np.sqrt(0.5 + 0.05 * regressor().x_scaler_.transform(test.X)[:, 0] ** 2)
    error = test.y - mean
    assert contents.models == ("model", "linear", "constant")
    assert score(contents, "RMSE").values[0] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert score(contents, "MAE").values[0] == pytest.approx(np.mean(np.abs(error)))
    log_density = stats.norm.logpdf(test.y, mean, std)
    found = score(contents, "Mean log-likelihood")
    assert found.values[0] == pytest.approx(np.mean(log_density))
    assert found.errors[0] == pytest.approx(stats.sem(log_density))
    held = np.abs(error) < stats.norm.ppf(0.95) * std
    assert score(contents, "Coverage of 90 % intervals").values[0] == pytest.approx(np.mean(held))
    width = 2 * stats.norm.ppf(0.95) * np.mean(std)
    assert score(contents, "Width of 90 % intervals").values[0] == pytest.approx(width)
    constant = np.sqrt(np.mean((test.y - np.mean(train.y)) ** 2))
    assert score(contents, "RMSE").values[2] == pytest.approx(constant)
    assert contents.details.median_error == pytest.approx(np.median(np.abs(error)))
    assert contents.epistemic_share == pytest.approx(np.mean((std**2 - 0.49) / std**2))


def test_the_standard_error_of_the_rmse_is_that_of_resampling():
    test = rows(2000, seed=3)
    contents = collected(test=test)
    squared = (test.y - test.X @ slopes(3) - 3.0) ** 2
    rng = np.random.default_rng(0)
    again = [np.sqrt(np.mean(rng.choice(squared, 2000))) for _ in range(2000)]
    # The standard error of a standard deviation from 2000 resamples is its 1 / sqrt(4000).
    assert score(contents, "RMSE").errors[0] == pytest.approx(np.std(again), rel=4 / np.sqrt(4000))


def test_best_follows_the_direction_of_the_metric():
    contents = collected()
    for found in contents.scores:
        values = np.array(found.values)
        if found.better == "lower":
            assert found.best == tuple(values == values.min())
        elif found.better == "higher":
            assert found.best == tuple(values == values.max())
        elif found.better == "nominal":
            off = np.abs(values - found.nominal)
            assert found.best == tuple(off == off.min())
        else:
            assert not any(found.best)


@pytest.mark.parametrize(
    ("train", "test", "kind"),
    [
        (rows(50), rows(20, seed=1), "held-out"),
        (rows(50), None, "training"),
        (None, rows(20, seed=1), "table"),
    ],
)
def test_the_kind_of_rows_is_known(train, test, kind):
    contents = collected(train=train, test=test)
    assert contents.kind == kind
    assert contents.n_rows == (50 if test is None else 20)
    # Nothing is calibrated on rows of the fit.
    assert bool(contents.conformal) == (kind != "training")


def test_baselines_of_a_stored_model():
    train, test = rows(300, seed=1), rows(50, seed=2)
    fresh = collected(train=train, test=test)
    stored = {**METADATA, "baselines": Baselines.fit(train.X, train.y).to_dict()}
    kept = collected(train=None, test=test, metadata=stored)
    assert kept.scores == fresh.scores
    summary = {"y_mean": np.mean(train.y), "y_var": np.var(train.y)}
    less = collected(train=None, test=test, metadata={**METADATA, "train_summary": summary})
    assert less.models == ("model", "constant")
    assert "linear baseline" in less.baseline_note
    assert score(less, "RMSE").values[1] == score(fresh, "RMSE").values[2]
    none = collected(train=None, test=test)
    assert none.models == ("model",)
    assert none.baseline_note
    assert not any(any(s.best) for s in none.scores)


def test_stored_baselines_of_another_table_are_refused():
    other = Baselines.fit(rows(50, d=5).X, rows(50, d=5).y).to_dict()
    with pytest.raises(ValueError, match="do not belong together"):
        collected(train=None, metadata={**METADATA, "baselines": other})


def test_rows_that_cannot_be_judged_are_refused():
    with pytest.raises(ValueError, match="got neither"):
        collected(train=None, test=None)
    test = rows(10)
    with pytest.raises(ValueError, match="row_ids"):
        collected(test=Rows(test.X, test.y, ["1"]))
    with pytest.raises(ValueError, match="one output"):
        collected(test=Rows(test.X, test.y[:, None], test.row_ids))
    with pytest.raises(ValueError, match="row 1 is not finite"):
        collected(estimator=regressor(offset=np.nan))


def test_partial_dependence_is_the_average_over_the_rows():
    estimator, x = regressor(d=2), rows(150, d=2, seed=4).X
    found = effects(estimator.predict_dist, x, (Feature("a", (0,)), Feature("b", (1,))), MOMENTS)
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


def test_effects_of_a_table_with_categories_and_gaps():
    frame = pl.DataFrame(
        {
            "size": [1.0, 2.0, None, 4.0, 5.0, 6.0, 7.0, 8.0],
            "colour": ["red", "blue", "red", "red", "green", "blue", "red", "green"],
            "new": [True, False] * 4,
            "y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
        }
    )
    encoding = TableEncoding.fit(frame, "y")
    x = encoding.transform(frame)
    weight = dict(zip(encoding.feature_names, range(1, 20), strict=False))
    estimator = regressor(d=x.shape[1], slopes=np.array(list(weight.values()), dtype=float))
    features = features_of(encoding, tuple(encoding.feature_names), x)
    assert [f.name for f in features] == ["size", "size is missing", "colour", "new"]
    found = {e.name: e for e in effects(estimator.predict_dist, x, features, MOMENTS).shown}
    colour = found["colour"]
    assert colour.levels == ("red", "blue", "green")
    expected = [weight["colour=red"], weight["colour=blue"], weight["colour=green"]]
    np.testing.assert_allclose(np.diff(colour.curve.mean), np.diff(expected))
    assert found["size is missing"].levels == ("no", "yes")
    assert found["size is missing"].curve.movement == pytest.approx(weight["size is missing"])
    assert found["new"].levels == ("0", "1")
    assert found["size"].levels == ()


def test_twelve_effects_are_shown_and_the_rest_named():
    contents = collected(
        estimator=regressor(d=20), train=rows(60, d=20), test=rows(30, d=20, seed=5)
    )
    moved = [e.curve.movement for e in contents.effects.shown]
    assert len(moved) == 12
    assert moved == sorted(moved, reverse=True)
    assert len(contents.effects.others) == 8
    assert contents.effects.others[0][1] <= moved[-1]


def test_the_number_of_predictions_is_bounded():
    few, many = regressor(d=3), regressor(d=200)
    collected(estimator=few, test=rows(50), train=rows(4000))
    assert few.n_predicted <= 50 + 3 * 25 * 200
    wide = collected(estimator=many, train=rows(300, d=200), test=rows(50, d=200, seed=3))
    assert many.n_predicted <= 50 + 200 * 3 * 20 + 40 * 25 * 200
    assert wide.effects.screened
    assert len(wide.effects.shown) + len(wide.effects.others) == 200
    assert wide.effects.shown[0].name == "x1"


def test_constant_features_do_not_move_anything():
    x = np.column_stack([np.linspace(-1, 1, 40), np.full(40, 5.0)])
    found = effects(
        regressor(d=2).predict_dist, x, (Feature("a", (0,)), Feature("b", (1,))), MOMENTS
    )
    assert [e.name for e in found.shown] == ["a"]
    assert found.others == (("b", 0.0),)


def test_the_least_sure_rows_are_those_of_largest_std():
    test = rows(120, seed=2)
    contents = collected(test=test)
    order = np.argsort(-np.abs(regressor().x_scaler_.transform(test.X)[:, 0]))[:10]
    assert [r.row_id for r in contents.unsure] == [test.row_ids[i] for i in order]
    first = contents.unsure[0]
    row = order[0]
    std = np.sqrt(0.5 + 0.05 * regressor().x_scaler_.transform(test.X)[row, 0] ** 2)
    mean, half = test.X[row] @ slopes(3) + 3.0, stats.norm.ppf(0.95) * std
    exact = [mean, mean - half, mean + half, test.y[row]]
    texts = [first.answer.text[0], *first.answer.text[1].split(" to "), first.answer.actual]
    np.testing.assert_allclose([float(t.replace("−", "-")) for t in texts], exact, atol=0.051)
    assert first.answer.is_missed == (abs(mean - test.y[row]) > half)
    assert first.answer.epistemic_share == pytest.approx((std**2 - 0.49) / std**2)
    assert first.unusual[0].startswith("x1 = ")
    assert first.unusual[0].endswith("std)")


def test_an_unusual_level_comes_with_its_share_of_the_training_rows():
    frame = pl.DataFrame({"colour": ["red"] * 15 + ["blue"] * 5, "y": np.arange(20.0)})
    encoding = TableEncoding.fit(frame, "y")
    x = encoding.transform(frame)
    train = Rows(x, encoding.target(frame), [str(i) for i in range(20)])
    estimator = regressor(d=2)
    estimator.x_scaler_ = type(estimator.x_scaler_).fit(x)
    contents = collected(estimator=estimator, encoding=encoding, train=train, test=None)
    said = {r.unusual[0].replace("\N{NO-BREAK SPACE}", " ") for r in contents.unsure}
    assert said <= {"colour = blue (25 % of rows)", "colour = red (75 % of rows)"}


def test_points_are_drawn_from_large_tables_by_the_seed():
    test = rows(5000, seed=6)
    one, two = collected(test=test), collected(test=test)
    other = collected(test=test, metadata={**METADATA, "seed": 8})
    assert len(one.details.cloud.actual) == 300
    np.testing.assert_array_equal(one.details.cloud.actual, two.details.cloud.actual)
    assert not np.array_equal(one.details.cloud.actual, other.details.cloud.actual)


def test_error_groups_hold_nine_rows_in_ten():
    test = rows(1000, seed=6)
    contents = collected(test=test)
    std = np.sqrt(0.5 + 0.05 * regressor().x_scaler_.transform(test.X)[:, 0] ** 2)
    error = np.abs(test.y - test.X @ slopes(3) - 3.0)
    assert len(contents.details.groups) == 5
    for group in contents.details.groups:
        inside = (std >= group.low) & (std <= group.high)
        assert np.sum(inside) == 200
        assert np.mean(error[inside] <= group.size) == pytest.approx(0.9, abs=0.006)


def test_nearly_equal_error_bars_are_not_grouped():
    even = regressor(x_scaler_=Standardiser(np.ones(3), np.zeros(3), np.full(3, 100.0)))
    contents = collected(estimator=even, test=rows(1000, seed=6))
    assert contents.details.is_even
    assert contents.details.groups == ()
    assert not collected().details.is_even


def test_an_estimator_that_was_fitted_on_a_frame_is_asked_without_warnings():
    from sklearn.linear_model import BayesianRidge

    import bayesprop.model.predictive as predictive

    class Named(BayesianRidge):
        def predict_dist(self, x):
            mean, std = self.predict(x, return_std=True)
            return predictive.GaussianPredictive(mean, std**2 - 0.01, np.full(len(x), 0.01))

    train = rows(60)
    model = Named().fit(pl.DataFrame(train.X, schema=["p", "q", "r"]).to_pandas(), train.y)
    model.x_scaler_, model.fit_report_ = regressor().x_scaler_, fit_report()
    contents = collected(estimator=model, train=train, test=rows(30, seed=1))
    assert {e.name for e in contents.effects.shown} == {"p", "q", "r"}
