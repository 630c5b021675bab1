"""Every regressor learns counts, two of them every kind of target, and keep inside its support."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import bayesprop
from bayesprop import BayesianLinearRegressor, BayesianRegressor
from bayesprop.active_learning.doubt import functions_of
from bayesprop.bandits.replayed_rewards import ReplayedRewards
from bayesprop.catalogue import REGRESSION
from bayesprop.store import estimator_from_stored
from bayesprop.targets.bijectors import AS_THEY_ARE, Logit, SoftplusInverse
from method_settings import ALL, X, silently, unfitted

REGRESSORS = [name for name, task in ALL if task == REGRESSION]
RNG = np.random.default_rng(6)
LATENT = X[:, 0] + 0.3 * RNG.normal(size=len(X))
TARGETS = {
    "positive": 50.0 * np.exp(LATENT),
    "nonnegative": 50.0 * np.maximum(LATENT + 0.2, 0.0),
    "share": 1.0 / (1.0 + np.exp(-LATENT)),
    "count": RNG.poisson(np.exp(LATENT)).astype(float),
    "censored": np.minimum(LATENT, 0.4),
}
CASES = [(name, kind) for name in ("linear", "default") for kind in TARGETS]
CASES += [(name, "count") for name in REGRESSORS if name not in ("linear", "default")]
HAS_ZERO = ("count", "nonnegative")
BOUNDS = dict.fromkeys(("positive", *HAS_ZERO), (0.0, np.inf))
BOUNDS |= {"share": (0.0, 1.0), "censored": (-np.inf, 0.4)}
BAD = {"positive": -1.0, "nonnegative": -1.0, "share": 1.0, "count": 0.5}


def fitted_to(name, kind, **changes):
    model = unfitted(name, REGRESSION, target_kind=kind, **changes)
    return silently(model.fit, X, TARGETS[kind])


@pytest.fixture(scope="module", params=CASES)
def fitted(request):
    name, kind = request.param
    return fitted_to(name, kind), kind


def test_predictions_keep_inside(fitted):
    model, kind = fitted
    low, high = BOUNDS[kind]
    far = np.concatenate([X, 30.0 * X])
    mean = model.predict(far)
    # The mean is at a bound where the probability of anything else is rounding.
    assert ((mean >= low) & ((mean > low) | (kind in HAS_ZERO))).all()
    assert ((mean < high) | ((mean == high) & (kind == "censored"))).all()
    for bounds in (model.predict_interval(far, 0.99), model.predict_quantiles(far)):
        assert ((bounds >= low) & (bounds <= high)).all()
        if kind == "count":
            np.testing.assert_array_equal(bounds, np.rint(bounds))
        elif kind not in (*HAS_ZERO, "censored"):
            assert ((bounds > low) & (bounds < high)).all()


def test_draws_keep_inside(fitted):
    model, kind = fitted
    low, high = BOUNDS[kind]
    observed = model.sample_y(X, 3, include_noise=True)
    assert observed.shape == (24, 3)
    assert ((observed >= low) & (observed <= high)).all()
    if kind == "count":
        np.testing.assert_array_equal(observed, np.rint(observed))
    drawn = model.sample_y(X, 3)
    assert ((drawn >= low) & ((drawn < high) | (kind == "censored"))).all()
    variances = functions_of(model, X, n_draws=5, seed=0).epistemic_var[:, 0]
    exact = model.predict_dist(X).epistemic_var
    # Few draws may all be the same at a row, and then say nothing of it.
    is_told = variances > 1e-6 * exact
    np.testing.assert_allclose(variances[is_told], exact[is_told], rtol=1e-6)


def test_a_saved_model_is_the_same_and_goes_on(fitted, tmp_path):
    model, kind = fitted
    model.save(tmp_path / "model")
    loaded = bayesprop.load(tmp_path / "model")
    assert loaded.target_kind == loaded.task_.kind == kind
    if hasattr(loaded, "partial_fit"):
        learnt = loaded.task_
        silently(loaded.partial_fit, X[:5], TARGETS[kind][:5])
        assert loaded.task_ is learnt
        if kind not in BAD:
            return
        outside = np.full(5, BAD[kind])
        with pytest.raises(ValueError, match=f"target_kind='{kind}', got .* in row 0"):
            loaded.partial_fit(X[:5], outside)


def test_files_whose_map_is_another_are_refused(fitted):
    model, kind = fitted[:2]
    other = Logit() if kind != "share" else SoftplusInverse(1.0)
    for map in (other, AS_THEY_ARE):
        forged = copy.copy(model).keep(replace(model.fitted_, task=replace(model.task_, map=map)))
        with pytest.raises(ValueError, match="target_kind"):
            estimator_from_stored(*forged.to_stored())


def test_linear_features_are_those_of_the_mapped_target_times_its_mean_slope():
    model = fitted_to("linear", "positive")
    mapped = model.task_.map.forward(TARGETS["positive"])
    plain = BayesianLinearRegressor().fit(X, mapped)
    latent, inverse = plain.predict_dist(X), model.task_.map.inverse
    at, weight = np.polynomial.hermite_e.hermegauss(40)
    z = latent.mean[:, None] + np.sqrt(latent.epistemic_var)[:, None] * at
    slope = (inverse(z + 1e-5) - inverse(z - 1e-5)) @ weight / (2e-5 * weight.sum())
    np.testing.assert_allclose(
        model.posterior_features(X), plain.posterior_features(X) * slope[:, None, None], rtol=1e-6
    )
    dist = model.predict_dist(X)
    y = TARGETS["positive"]
    step = 1e-6 * y
    log_slope = np.log((model.task_.map.forward(y + step) - mapped) / step)
    np.testing.assert_allclose(dist.log_prob(y), latent.log_prob(mapped) + log_slope, atol=1e-5)


def test_per_cent_is_learnt_as_its_shares_are():
    for y in (TARGETS["share"], np.clip(0.5 + 0.6 * LATENT, 0.0, 1.0)):
        of_share, of_percent = (
            BayesianLinearRegressor(target_kind="share", random_state=0).fit(X, unit * y)
            for unit in (1.0, 100.0)
        )
        share, percent = (one.predict_dist(X) for one in (of_share, of_percent))
        np.testing.assert_allclose(percent.mean, 100.0 * share.mean, rtol=1e-6)
        is_inside = (y > 0.0) & (y < 1.0)
        gap = (percent.log_prob(100.0 * y) - share.log_prob(y))[is_inside]
        np.testing.assert_allclose(gap, -np.log(100.0), rtol=1e-6)
        np.testing.assert_allclose(percent.crps(100.0 * y), 100.0 * share.crps(y), rtol=1e-6)


@pytest.mark.parametrize("unit", [1e300, 1e-300])
def test_targets_whose_variance_is_no_number_are_refused(unit):
    for kind in ("positive", "nonnegative"):
        with pytest.raises(ValueError, match="must have a standard deviation between"):
            BayesianLinearRegressor(target_kind=kind).fit(X, TARGETS[kind] * unit)


def test_what_says_nothing_of_a_mapped_target_is_refused():
    with pytest.raises(ValueError, match="target_kind must be one of numbers, positive"):
        BayesianLinearRegressor(target_kind="prices").fit(X, TARGETS["positive"])
    with pytest.raises(ValueError, match="noise must be learnt with target_kind='positive'"):
        BayesianLinearRegressor(target_kind="positive", noise=2.0).fit(X, TARGETS["positive"])
    with pytest.raises(ValueError, match="takes one target, got 2"):
        BayesianRegressor(target_kind="share").fit(X, np.full((24, 2), 0.5))
    with pytest.raises(ValueError, match="target_kind must be 'numbers' for a network"):
        ReplayedRewards(unfitted("network", REGRESSION, target_kind="count")).check()
    pbp = fitted_to("pbp", "positive", inference="sep")
    with pytest.raises(ValueError, match="log_evidence needs target_kind='numbers'"):
        pbp.log_evidence(X, TARGETS["positive"])


def test_a_copy_with_another_kind_keeps_the_map_of_its_fit():
    model = copy.copy(fitted_to("linear", "share")).set_params(target_kind="numbers")
    assert model.task_.kind == "share"


@pytest.fixture(scope="module")
def of_rates():
    """Counts whose mean is the exposure, in column 2, times exp(x0); and a model of them."""
    rng = np.random.default_rng(4)
    x = np.column_stack([rng.normal(size=(400, 2)), np.exp(0.8 * rng.normal(size=400))])
    y = rng.poisson(x[:, 2] * np.exp(0.7 * x[:, 0])).astype(float)
    model = BayesianLinearRegressor(target_kind="count", exposure=2)
    return model.fit(x, y), x, y


def test_counts_grow_with_their_exposure(of_rates):
    model, x, y = of_rates
    assert abs(model.predict(x).sum() / y.sum() - 1.0) < 0.2
    long = x.copy()
    long[:, 2] = 6.0  # beyond most rows: the rate stays
    np.testing.assert_allclose(
        np.median(model.predict(long) / (6.0 * np.exp(0.7 * x[:, 0]))), 1.0, atol=0.35
    )
    without = BayesianLinearRegressor(target_kind="count").fit(x, y)
    assert model.log_likelihood(x, y) > without.log_likelihood(x, y)
    draws = model.sample_y(x, 400, include_noise=True)
    error = draws.mean(axis=1) - model.predict(x)
    assert np.median(np.abs(error / (draws.std(axis=1) / 20.0 + 1e-9))) < 3.0


def test_rows_with_exposures_are_predicted_each_by_its_own(of_rates):
    model, x, _ = of_rates
    whole = model.predict_dist(x)
    rows = np.array([7, 3, 90])
    np.testing.assert_allclose(model.predict_dist(x[rows]).mean, whole[rows].mean, rtol=1e-9)
    np.testing.assert_array_equal(whole[rows].quantile(0.9), whole.quantile(0.9)[rows])
    gap = x[:5].copy()
    gap[1, 0] = np.nan
    assert np.isfinite(model.predict_dist(gap).mean).all()
    again = estimator_from_stored(*model.to_stored())
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


@pytest.mark.parametrize(
    ("change", "value", "rule"),
    [
        ({"exposure": 3}, None, "must be a column of X"),
        ({"exposure": "years"}, None, "must be a column of X"),
        ({"exposure": 2}, 0.0, "got 0 in row 5"),
        ({"exposure": 2}, np.nan, r"got none \(NaN\) in row 5"),
        ({"exposure": 2}, 1e-300, "got 1e-300 in row 5"),
        ({"exposure": 2, "target_kind": "numbers"}, None, "must be 'count'"),
    ],
)
def test_exposures_are_checked(of_rates, change, value, rule):
    _, x, y = of_rates
    x = x.copy()
    if value is not None:
        x[5, 2] = value
    with pytest.raises(ValueError, match=rule):
        BayesianLinearRegressor(**({"target_kind": "count"} | change)).fit(x, y)


def test_a_file_with_another_exposure_or_tendency_is_refused(of_rates):
    model, plain = of_rates[0], fitted_to("linear", "positive")
    tendency = model.task_.map.tendency
    wide = tendency._replace(slopes=np.append(tendency.slopes, 0.0))
    task = replace(model.task_, map=replace(model.task_.map, tendency=wide))
    encoding = replace(plain.encoding_, exposure=0)
    for one, change, rule in (
        (plain, {"encoding": encoding}, "is that of counts"),
        (model, {"task": task}, "a slope an input"),
    ):
        forged = copy.copy(one).keep(replace(one.fitted_, **change))
        with pytest.raises(ValueError, match=rule):
            estimator_from_stored(*forged.to_stored())


@pytest.mark.parametrize(("low", "high"), [(-0.5, np.inf), (-np.inf, 0.8), (-0.5, 0.8)])
def test_what_lies_beyond_limits_has_its_probability(low, high):
    rng = np.random.default_rng(9)
    x = rng.normal(size=(3000, 2))
    latent = x[:, 0] + 0.5 * rng.normal(size=3000)
    y = np.clip(latent, low, high)
    model = BayesianLinearRegressor(target_kind="censored").fit(x[:2000], y[:2000])
    predictive, y_test = model.predict_dist(x[2000:]), y[2000:]
    for limit in filter(np.isfinite, (low, high)):
        p = np.exp(predictive.log_prob(np.full(1000, limit)))
        error = np.sqrt(np.sum(p * (1.0 - p))) / 1000.0
        assert abs(np.mean(p) - np.mean(y_test == limit)) < 4.0 * error
        # A measurement beyond it is seen as the limit.
        beyond = predictive.log_prob(np.full(1000, limit + np.sign(limit)))
        np.testing.assert_allclose(np.exp(beyond), p, rtol=1e-12)
    # Of the truth, a normal whose tails are the limits' probabilities, nobody is ahead by much.
    mean, std = x[2000:, 0], 0.5
    ends = [stats.norm.logcdf(low, mean, std), stats.norm.logsf(high, mean, std)]
    truth = np.select([y_test <= low, y_test >= high], ends, stats.norm.logpdf(y_test, mean, std))
    assert np.mean(truth - predictive.log_prob(y_test)) < 0.03
