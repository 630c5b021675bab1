"""PBPRegressor as a user meets it: units, frames, streams, weights, pipelines, bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop import PBPRegressor


def line(n=80, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, size=(n, 2))
    return x, 40.0 + 10.0 * np.sin(x[:, 0]) + 10.0 * noise * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    x, y = line()
    return PBPRegressor((20,), random_state=0).fit(x, y), x, y


def test_predictions_beat_a_constant_and_know_their_error(fitted):
    model, *_ = fitted
    x, y = line(seed=1)
    mean, std = model.predict(x, return_std=True)
    assert np.sqrt(np.mean((mean - y) ** 2)) < 0.6 * y.std()
    z = (y - mean) / std
    assert 0.7 < np.sqrt(np.mean(z**2)) < 1.4
    predictive = model.predict_dist(x)
    np.testing.assert_allclose(predictive.var, std**2)
    np.testing.assert_allclose(predictive.var, predictive.epistemic_var + predictive.noise_var)
    assert model.log_likelihood(x, y) == pytest.approx(predictive.log_prob(y).mean())


def test_uncertainty_grows_away_from_the_data(fitted):
    model, *_ = fitted
    near = model.predict_dist(np.zeros((1, 2))).epistemic_var
    far = model.predict_dist(np.full((1, 2), 30.0)).epistemic_var
    assert far > 20 * near


def test_shapes_of_everything(fitted):
    model, x, _ = fitted
    assert model.predict(x).shape == (80,)
    assert model.predict_interval(x, coverage=0.5).shape == (80, 2)
    assert model.predict_quantiles(x, (0.1, 0.9)).shape == (80, 2)
    assert model.sample_y(x, 3).shape == (80, 3)
    y = np.column_stack([line()[1], -line()[1]])
    two = PBPRegressor((5,), 3, random_state=0).fit(x, y)
    assert two.predict(x).shape == (80, 2)
    assert two.predict_interval(x).shape == (80, 2, 2)
    assert two.predict_quantiles(x).shape == (80, 2, 3)
    assert two.sample_y(x, 4).shape == (80, 2, 4)
    assert two.state_.noise_shape.shape == (2,)


def test_units_of_inputs_and_target_do_not_matter():
    x, y = line()
    base = PBPRegressor((8,), 5, random_state=0).fit(x, y)
    shift, scale = np.array([7.0, -2.0]), np.array([1e4, 1e-6])
    moved = PBPRegressor((8,), 5, random_state=0).fit(x * scale + shift, 1e3 * y - 5)
    np.testing.assert_allclose(
        moved.predict(x * scale + shift), 1e3 * base.predict(x) - 5, rtol=1e-6
    )
    gap = moved.log_likelihood(x * scale + shift, 1e3 * y - 5) - base.log_likelihood(x, y)
    assert gap == pytest.approx(-np.log(1e3), abs=1e-6)
    evidence = [m.fit_report_.log_evidence["prequential"] for m in (base, moved)]
    assert evidence[1] - evidence[0] == pytest.approx(-80 * np.log(1e3), abs=1e-3)
    twice = [
        PBPRegressor((8,), 5, random_state=0).fit(x, scale * y, sample_weight=np.full(80, 2.0))
        for scale in (1.0, 1e3)
    ]
    evidence = [m.fit_report_.log_evidence["prequential"] for m in twice]
    assert evidence[1] - evidence[0] == pytest.approx(-160 * np.log(1e3), abs=1e-3)


def test_a_target_of_another_shape_is_refused(fitted):
    model, x, y = fitted
    assert model.log_likelihood(x, y[:, None]) == model.log_likelihood(x, y)
    pair = PBPRegressor((3,), 1, random_state=0).fit(x, np.column_stack([y, -y]))
    with pytest.raises(ValueError, match=r"y must have the shape .*2\), got \(2, "):
        pair.log_likelihood(x, np.stack([y, -y]))


@pytest.mark.parametrize("at", [0, 5])
def test_a_row_of_weight_zero_is_absent_from_the_scaling(at):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    x[:, 1] = 0.7
    weight = rng.uniform(0.5, 2.0, 50)
    weight[at] = 0.0
    x[at], y[at] = (3.0, 1000.0), 1e5
    model = PBPRegressor((3,), 1, random_state=0).fit(x, y, sample_weight=weight)
    kept = weight > 0.0
    without = PBPRegressor((3,), 1, random_state=0).fit(x[kept], y[kept], weight[kept])
    for found, wanted in (
        (model.x_scaler_, without.x_scaler_),
        (model.y_scaler_, without.y_scaler_),
    ):
        np.testing.assert_array_equal(found.mean * found.unit, wanted.mean * wanted.unit)
        np.testing.assert_array_equal(found.scale, wanted.scale)


def test_drawn_functions_have_the_predicted_moments(fitted):
    model, x, _ = fitted
    rows = x[:6]
    draws = model.sample_y(rows, 4000, random_state=1)
    predictive = model.predict_dist(rows)
    se = draws.std(axis=1) / np.sqrt(4000)
    # One hidden layer: the moments are exact, draws differ by their standard error only.
    assert (np.abs(draws.mean(axis=1) - predictive.mean) < 4.5 * se).all()
    np.testing.assert_allclose(draws.var(axis=1), predictive.epistemic_var, rtol=0.2)
    noisy = model.sample_y(rows, 4000, random_state=1, include_noise=True)
    np.testing.assert_allclose(noisy.var(axis=1), predictive.var, rtol=0.2)
    # A draw is one function: neighbours move together.
    pair = model.sample_y(np.array([[0.0, 0.0], [0.01, 0.0]]), 400)
    assert np.corrcoef(pair)[0, 1] > 0.99


def test_quantiles_and_intervals_are_those_of_the_predictive(fitted):
    model, x, _ = fitted
    interval = model.predict_interval(x, 0.8)
    np.testing.assert_allclose(interval, model.predict_quantiles(x, (0.1, 0.9)))
    predictive = model.predict_dist(x)
    np.testing.assert_allclose(predictive.cdf(interval[:, 0]), 0.1)


def test_same_seed_same_model_and_fit_forgets_the_previous_fit(fitted):
    model, x, y = fitted
    again = PBPRegressor((20,), random_state=0).fit(x[::-1], -y).fit(x, y)
    np.testing.assert_array_equal(model.predict(x), again.predict(x))


def test_streaming_continues_from_the_posterior():
    x, y = line()
    stream = PBPRegressor((8,), random_state=0)
    stream.partial_fit(x[:40], y[:40]).partial_fit(x[40:], y[40:])
    assert stream.n_iter_ == 2
    after_first = PBPRegressor((8,), random_state=0).partial_fit(x[:40], y[:40])
    assert (
        stream.predict_dist(x).epistemic_var.mean()
        < after_first.predict_dist(x).epistemic_var.mean()
    )
    one_by_one = PBPRegressor((8,), random_state=0).partial_fit(x[:40], y[:40])
    for i in range(40, 45):
        one_by_one.partial_fit(x[i : i + 1], y[i : i + 1])
    assert np.isfinite(one_by_one.predict(x)).all()


def test_two_halves_of_a_stream_are_one_pass_but_for_the_prior_refresh():
    x, y = line(40)
    a = PBPRegressor((8,), random_state=0).partial_fit(x, y)
    method, z, t = a.fitted_.method, a.x_scaler_.transform(x), a.y_scaler_.transform(y[:, None])
    from bayesprop.moments.pbp.engine import Run

    run = Run(method.start(np.random.RandomState(0)), z, t)
    run.absorb(np.arange(20))
    run.absorb(np.arange(20, 40))
    run.refresh()
    np.testing.assert_allclose(method.predict(run.state, z).mean, method.predict(a.state_, z).mean)
    np.testing.assert_allclose(
        method.predict(run.state, z).epistemic_var, method.predict(a.state_, z).epistemic_var
    )


def test_warm_start_goes_on():
    x, y = line()
    model = PBPRegressor((8,), 3, warm_start=True, random_state=0).fit(x, y)
    first = model.fit_report_.trace["mean_log_z"][-1]
    model.fit(x, y)
    assert model.n_iter_ == 6
    assert model.fit_report_.trace["mean_log_z"][-1] > first


def test_weight_zero_is_absence_and_small_weights_widen():
    x, y = line()
    weight = np.r_[np.ones(40), np.zeros(40)]
    spoiled = y.copy()
    spoiled[40:] = 1e6
    a = PBPRegressor((8,), 5, random_state=0).fit(x, spoiled, weight)
    b = PBPRegressor((8,), 5, random_state=0).fit(x[:40], y[:40])
    np.testing.assert_allclose(a.predict(x), b.predict(x), rtol=1e-8)
    light = PBPRegressor((8,), 5, random_state=0).fit(x, y, np.full(80, 0.05))
    heavy = PBPRegressor((8,), 5, random_state=0).fit(x, y)
    assert (
        light.predict_dist(x).epistemic_var.mean() > 2 * heavy.predict_dist(x).epistemic_var.mean()
    )


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_are_checked_by_name(frame):
    x, y = line()
    table = frame({"length": x[:, 0], "width": x[:, 1]})
    model = PBPRegressor((5,), 2, random_state=0).fit(table, y)
    assert list(model.feature_names_in_) == ["length", "width"]
    np.testing.assert_array_equal(
        model.predict(table), PBPRegressor((5,), 2, random_state=0).fit(x, y).predict(x)
    )
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["width", "length"]])


def test_stochastic_ep_and_minibatches_fit_as_well():
    x, y = line(120)
    test_x, test_y = line(200, seed=1)
    rmse = {}
    for name, rule in {
        "adf": {},
        "sep": {"inference": "sep"},
        "batch": {"batch_size": 16},
        "erf": {"activation": "erf"},
    }.items():
        model = PBPRegressor((20,), 30, random_state=0, **rule).fit(x, y)
        rmse[name] = np.sqrt(np.mean((model.predict(test_x) - test_y) ** 2))
        assert model.fit_report_.guards["weights_undone"] < 0.01 * model.fit_report_.n_updates
    assert max(rmse.values()) < 0.6 * test_y.std()


def test_evidence_prefers_the_inputs_that_matter():
    x, y = line(100)
    noise = np.random.default_rng(5).normal(size=(100, 2))
    rule = {"inference": "sep", "random_state": 0, "n_epochs": 60}
    informed = PBPRegressor((10,), **rule).fit(x, y)
    blind = PBPRegressor((10,), **rule).fit(noise, y)
    assert informed.log_evidence(x, y) > blind.log_evidence(noise, y) + 10
    with pytest.raises(ValueError, match="inference='sep'"):
        PBPRegressor((10,), 2).fit(x, y).log_evidence(x, y)


def test_pipelines_searches_and_conformal_wrappers():
    x, y = line()
    pipeline = make_pipeline(StandardScaler(), PBPRegressor((5,), 3, random_state=0))
    assert len(cross_val_score(pipeline, x, y, cv=3)) == 3
    search = GridSearchCV(PBPRegressor((5,), random_state=0), {"n_epochs": [1, 5]}, cv=2)
    assert search.fit(x, y).best_params_["n_epochs"] in (1, 5)


@pytest.mark.filterwarnings("ignore")
def test_mapie_takes_the_standard_deviation():
    from mapie.conformity_scores import ResidualNormalisedScore
    from mapie.regression import SplitConformalRegressor

    x, y = line(200)
    model = PBPRegressor((10,), 10, random_state=0).fit(x[:100], y[:100])

    class Spread(PBPRegressor):
        """What MAPIE asks for: an estimator of the residual's size."""

        def predict(self, X, return_std=False):
            return super().predict(X, return_std=True)[1]

    spread = Spread((10,), 10, random_state=0).fit(x[:100], y[:100])
    score = ResidualNormalisedScore(residual_estimator=spread, prefit=True)
    wrapped = SplitConformalRegressor(
        model, confidence_level=0.9, conformity_score=score, prefit=True
    )
    wrapped.conformalize(x[100:], y[100:])
    _, intervals = wrapped.predict_interval(x)
    assert intervals.shape == (200, 2, 1)
    covered = (intervals[:, 0, 0] <= y) & (y <= intervals[:, 1, 0])
    assert covered[100:].mean() >= 0.85


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes must hold ints >= 1, got 0"),
        ({"hidden_layer_sizes": (2.5,)}, "hidden_layer_sizes must hold ints >= 1, got 2.5"),
        ({"n_epochs": 0}, "n_epochs must be an int >= 1, got 0"),
        ({"batch_size": -1}, "batch_size must be an int >= 1, got -1"),
        ({"inference": "vi"}, "inference must be one of adf, sep; got 'vi'"),
        ({"activation": "gelu"}, "activation must be one of relu"),
        ({"engine": "kernel", "activation": "erf"}, "use engine='auto'"),
        ({"noise_prior": (1.0, 6.0)}, "noise_prior must be"),
        ({"weight_prior": 3}, "weight_prior must be"),
    ],
)
def test_hyper_parameters_are_checked_in_fit(params, message):
    x, y = line()
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        PBPRegressor(**params).fit(x, y)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x, y: (np.where(x > 2, np.nan, x), y), "NaN"),
        (lambda x, y: (np.where(x > 2, np.inf, x), y), "infinity"),
        (lambda x, y: (x, np.where(y > 45, np.nan, y)), "NaN"),
        (lambda x, y: (x.astype(object) + "a" if False else np.full(x.shape, "a"), y), "float"),
        (lambda x, y: (x[:1], y[:1]), "minimum of 2"),
        (lambda x, y: (x[:0], y[:0]), "0 sample"),
        (lambda x, y: (x[:, :0], y), "0 feature"),
        (lambda x, y: (x, y * 1e300), "standard deviation between"),
        (lambda x, y: (x, y * 1e-300), "standard deviation between"),
        (lambda x, y: (x, y[:-1]), "inconsistent numbers of samples"),
    ],
)
def test_bad_rows_are_refused(spoil, message):
    x, y = line()
    with pytest.raises(ValueError, match=message):
        PBPRegressor((5,), 2).fit(*spoil(x, y))


def test_odd_but_valid_tables_give_finite_predictions():
    x, y = line(30)
    tables = {
        "tiny and huge columns": x * np.array([1e-300, 1e300]),
        "constant column": np.column_stack([x, np.full(30, 0.998)]),
        "one column": x[:, :1],
        "two rows": x[:2],
        "subnormal": x * np.array([1e-310, 1.0]),
        "nearly constant": np.column_stack([x, 0.3 + 1e-17 * np.arange(30)]),
    }
    for name, table in tables.items():
        model = PBPRegressor((5,), 5, random_state=0).fit(table, y[: len(table)])
        mean, std = model.predict(table, return_std=True)
        assert np.isfinite(mean).all(), name
        assert (std > 0).all(), name


def test_outliers_leave_the_rest_usable():
    x, y = line(100)
    y = y.copy()
    y[3] = 1e7
    model = PBPRegressor((10,), 10, random_state=0).fit(x, y)
    assert np.isfinite(model.predict(x)).all()
    assert (model.state_.noise_shape > 1.0).all()


def test_constant_target_is_said_and_survived():
    x, _ = line(30)
    with pytest.warns(UserWarning, match="the target is constant"):
        model = PBPRegressor((5,), 5, random_state=0).fit(x, np.full(30, 7.0))
    mean, std = model.predict(x, return_std=True)
    np.testing.assert_allclose(mean, 7.0, atol=1.0)
    assert (std > 0).all()
    assert "constant" in model.fit_report_.warnings[0]


def test_inputs_beyond_all_measure_are_refused():
    x, y = line(30)
    model = PBPRegressor((5,), 2, random_state=0).fit(x, y)
    with pytest.raises(ValueError, match="row 1, column 0"):
        model.predict(np.array([[0.0, 0.0], [1e200, 0.0]]))
    assert np.isfinite(model.predict(np.array([[1e30, 0.0]]), return_std=True)).all()


def test_a_refused_call_leaves_the_fitted_model_as_it_was():
    x, y = line(30)
    model = PBPRegressor((5,), 2, random_state=0).fit(x, y)
    before = model.predict(x, return_std=True)
    with pytest.raises(ValueError, match="rescale the target"):
        model.fit(x, y * 1e300)
    with pytest.raises(ValueError, match="training standard deviations"):
        model.partial_fit(x * 1e200, y)
    with pytest.raises(ValueError, match="2 outputs"):
        model.partial_fit(x, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(x[:2], [np.nan, 1.0])
    np.testing.assert_array_equal(before, model.predict(x, return_std=True))


def test_unfitted_model_says_so():
    with pytest.raises(NotFittedError):
        PBPRegressor().predict(np.zeros((2, 2)))
    with pytest.raises(NotFittedError):
        PBPRegressor().save("never-written")


def test_fit_report_is_complete(capsys):
    x, y = line()
    model = PBPRegressor((5,), 4, random_state=0, verbose=1).fit(x, y)
    report = model.fit_report_
    assert [len(values) for values in report.trace.values()] == [4, 4, 4]
    assert set(report.guards) == {
        "weights_undone", "noise_kept", "prior_kept", "steps_damped", "prior_uninformed",
    }  # fmt: skip
    assert type(report).from_dict(report.to_dict()) == report
    assert capsys.readouterr().err.count("epoch") == 4


def test_diabetes_without_tuning():
    X, y = load_diabetes(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PBPRegressor(random_state=0).fit(X[:350], y[:350])
    assert model.score(X[350:], y[350:]) > 0.4
    # About the Gaussian log density at an RMSE of 54.
    assert model.log_likelihood(X[350:], y[350:]) > -5.5


@pytest.mark.parametrize("inference", ["adf", "sep"])
def test_deep_networks_keep_a_sane_prior(inference: str):
    # Refreshing the prior of weights without data once drove E[1 / lambda] to 1e10.
    x, y = line(60)
    x = np.column_stack([x, np.random.default_rng(2).normal(size=(60, 4))])
    for seed in range(3):
        model = PBPRegressor((30, 30, 30), 60, inference=inference, random_state=seed).fit(x, y)
        state = model.state_
        assert 0.02 < float(state.prior_rate / (state.prior_shape - 1.0)) < 50
        # Stochastic EP may find the table too small for three layers, and predict the mean.
        assert np.sqrt(np.mean((model.predict(x) - y) ** 2)) < 1.1 * y.std()


def test_long_stochastic_ep_does_not_drift_away():
    x, y = line(60)
    model = PBPRegressor((30,), 300, inference="sep", random_state=0).fit(x, y)
    assert max(np.abs(m).max() for m in model.state_.m) < 50
    assert model.fit_report_.trace["mean_log_z"][-1] > model.fit_report_.trace["mean_log_z"][5]
    assert model.fit_report_.trace["epistemic_share"][-1] > 0.05


def test_chunks_of_a_prediction_do_not_matter():
    x, y = line(30)
    model = PBPRegressor((5,), 2, random_state=0).fit(x, y)
    many = np.random.default_rng(0).normal(size=(200_000, 2))
    whole = model.predict_dist(many)
    part = model.predict_dist(many[150_000:150_010])
    np.testing.assert_allclose(whole.mean[150_000:150_010], part.mean, rtol=1e-12)
