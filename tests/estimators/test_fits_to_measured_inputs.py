"""Fits to inputs with errors of every method: a dense normal oracle, attenuation, noise, files."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

import bayesprop
from bayesprop import (
    BayesianLinearRegressor,
    BayesianLogisticClassifier,
    BayesianRegressor,
    PBPRegressor,
)
from bayesprop.distributions.measured import Population
from bayesprop.estimators.imputation import drawn_as_learnt, with_population
from bayesprop.numerics.rows import Rows

RNG = np.random.default_rng(0)
COV = np.array([[1.0, 0.5, 0.3], [0.5, 1.5, -0.2], [0.3, -0.2, 0.8]])
MEAN = np.array([0.5, -1.0, 2.0])
N = 600
TRUE = RNG.multivariate_normal(MEAN, COV, N)
STD = RNG.choice([0.0, 0.4, 1.0], (N, 3)) * [1.0, 1.0, 0.0]
MEASURED = TRUE + STD * RNG.normal(size=TRUE.shape)
Y = 1.0 + 2.0 * TRUE[:, 0] - TRUE[:, 1] + 0.5 * TRUE[:, 2] + 0.4 * RNG.normal(size=N)


@pytest.mark.parametrize("gap", [None, 0, 1, 2])
def test_true_inputs_are_those_of_the_dense_normal_distribution(gap):
    population = Population(MEAN, COV)
    x, std = MEASURED.copy(), STD.copy()
    if gap is not None:
        x[:, gap] = np.nan
    inputs = population.given(x, std**2)
    root = inputs.root
    seen = [j for j in range(3) if j != gap]
    for row in range(0, 40):
        gain = COV[:, seen] @ np.linalg.inv((COV + np.diag(std[row] ** 2))[np.ix_(seen, seen)])
        mean = MEAN + gain @ (x[row, seen] - MEAN[seen])
        cov = COV - gain @ COV[seen]
        np.testing.assert_allclose(inputs.mean[row, seen], mean[seen], atol=1e-7)
        own = np.where(np.outer(std[row] > 0.0, std[row] > 0.0), cov, 0.0)
        if gap is not None:
            own[gap] = own[:, gap] = 0.0
        np.testing.assert_allclose(root[row] @ root[row].T, own, atol=1e-6)
        exact = [j for j in seen if std[row, j] == 0.0]
        np.testing.assert_array_equal(inputs.mean[row, exact], x[row, exact])


def test_predictions_of_measured_rows_are_those_of_their_population():
    line = BayesianLinearRegressor().fit(MEASURED, Y, X_std=STD)
    p = line.predict_dist(MEASURED[:50], X_std=STD[:50])
    weight = line.weights()["mean"]
    centre = MEASURED.mean(axis=0)
    cov = np.cov(MEASURED.T, ddof=0) - np.diag((STD**2).mean(axis=0))
    for row in range(50):
        gain = cov @ np.linalg.inv(cov + np.diag(STD[row] ** 2))
        mean = centre + gain @ (MEASURED[row] - centre)
        assert p.mean[row] == pytest.approx(weight[0] + weight[1:] @ mean, rel=1e-5, abs=1e-6)
        of_inputs = weight[1:] @ (cov - gain @ cov) @ weight[1:]
        exact = line.predict_dist(mean[None])
        assert p.var[row] == pytest.approx(exact.var[0] + of_inputs, rel=2e-3)
    drawn = line.sample_y(MEASURED[:5], 4000, include_noise=True, X_std=STD[:5])
    assert (np.abs(drawn.mean(axis=1) - p.mean[:5]) < 5.0 * p.std[:5] / np.sqrt(4000)).all()


def test_draws_of_inputs_are_those_of_the_posterior_given_the_target():
    """Means and variances over independent draws of the rows of a dense normal distribution."""
    rng, std = np.random.default_rng(2), np.tile([0.7, 0.0, 0.0], (N, 1))
    measured = TRUE + std * rng.normal(size=TRUE.shape)
    cov = np.cov(measured.T, ddof=0) - np.diag(std[0] ** 2)
    gain = cov @ np.linalg.inv(cov + np.diag(std[0] ** 2))
    mean, left = measured.mean(axis=0), (cov - gain @ cov)[0, 0]
    mean = mean + (measured - mean) @ gain.T
    y = Y + rng.normal(size=N)
    # Learnt from means of inputs, so that noise holds what the target varies over them.
    line = BayesianLinearRegressor(noise=1.16 + 4.0 * left).fit(mean, y)
    rows, slope = Rows(measured, y[:, None]), line.weights()["mean"][1]
    fitted = with_population(line.fitted_, rows, std)
    drawn = np.array([drawn_as_learnt(fitted, rows, None, std, seed) for seed in range(80)])
    np.testing.assert_array_equal(drawn[:, :, 1:], np.broadcast_to(measured[:, 1:], (80, N, 2)))
    at = slope * left / (1.16 + 4.0 * left)
    residual, var = y - line.predict(mean), left * (1.0 - at * slope)
    near = np.abs(residual) < 1.5 * np.sqrt(1.16 + 4.0 * left)  # few candidates lie farther out
    own, expected = drawn[:, near, 0], mean[near, 0] + at * residual[near]
    error = (own.mean(axis=0) - expected) / np.sqrt(var)
    assert abs(np.mean(error)) < 4.0 / np.sqrt(80 * len(error)) + 0.01
    assert np.std(error) < 0.3  # 0.11 of independent draws, more of one out of 32 candidates
    assert own.var(axis=0, ddof=1).mean() == pytest.approx(var, rel=0.1)


def curve(x: np.ndarray) -> np.ndarray:
    return 1.2 * np.sin(1.7 * x)


def rows_of(seed: int, n: int, share: float) -> tuple[np.ndarray, ...]:
    """True and measured inputs, their std, and targets.

    share
        Of the variance of the first measured input that is of its errors.
    """
    rng = np.random.default_rng(seed)
    x = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]], n)
    std = np.column_stack([np.full(n, np.sqrt(share / (1.0 - share))), np.zeros(n)])
    y = curve(x[:, 0]) + 0.5 * x[:, 1] + 0.3 * rng.normal(size=n)
    return x, x + std * rng.normal(size=x.shape), std, y


@pytest.mark.parametrize("settings", [{"noise": "evidence"}, {"basis": "polynomial", "degree": 1}])
def test_slopes_and_noise_are_not_attenuated(settings):
    """Closed form of one measured input: naively var(x) / (var(x) + var(error)) of the slope."""
    slopes, noise = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=800)
        w, y = x + 0.8 * rng.normal(size=800), 1.5 * x + 0.4 * rng.normal(size=800)
        measured = BayesianLinearRegressor(**settings).fit(w[:, None], y, X_std=0.8)
        naive = BayesianLinearRegressor(**settings).fit(w[:, None], y)
        p = measured.predict_dist([[-1.0], [1.0]])
        slopes.append([np.diff(one.predict([[-1.0], [1.0]]))[0] / 2 for one in (measured, naive)])
        noise.append(p.noise_var[0])
    error = np.std(slopes, axis=0, ddof=1) / np.sqrt(12)
    assert (np.abs(np.mean(slopes, axis=0) - [1.5, 1.5 / 1.64]) < 4.0 * error).all()
    assert np.mean(noise) == pytest.approx(0.16, abs=4.0 * np.std(noise) / np.sqrt(12))


def test_a_curve_is_less_attenuated_and_predictions_are_better():
    x, _, _, y = rows_of(99, 1500, 0.3)
    _, w, std, new = rows_of(98, 1500, 0.3)
    clean, noisy, noise = [], [], []
    for seed in range(4):
        _, measured, of, target = rows_of(seed, 600, 0.3)
        plain = PBPRegressor(random_state=seed).fit(measured, target)
        model = PBPRegressor(random_state=seed).fit(measured, target, X_std=of)
        p, at_w = model.predict_dist(x), model.predict_dist(w, X_std=std)
        clean.append(plain.predict_dist(x).crps(y).mean() - p.crps(y).mean())
        noisy.append(plain.predict_dist(w).crps(new).mean() - at_w.crps(new).mean())
        noise.append(np.sqrt(p.noise_var.mean()))
        inside = at_w.interval(0.9)
        assert 0.86 < np.mean((inside[:, 0] <= new) & (new <= inside[:, 1])) < 0.95
    assert np.min(clean) > 0.05
    assert np.mean(noisy) > -0.005


def test_files_keep_the_population(tmp_path: Path):
    model = PBPRegressor(n_epochs=3, random_state=0).fit(MEASURED, Y, X_std=STD)
    p = model.predict_dist(MEASURED[:9], X_std=STD[:9])
    model.save(tmp_path / "m.bayesprop")
    again = bayesprop.load(tmp_path / "m.bayesprop").predict_dist(MEASURED[:9], X_std=STD[:9])
    np.testing.assert_array_equal(again.var, p.var)
    np.testing.assert_array_equal(p.gap_share > 0.0, (STD[:9] > 0.0).any(axis=1))


def test_labels_are_learnt_from_true_inputs():
    slopes = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(1500, 1))
        y = rng.random(1500) < special.expit(2.0 * x[:, 0])
        w = x + 0.7 * rng.normal(size=x.shape)
        model = BayesianLogisticClassifier(random_state=seed)
        both = [copy(model.fit(w, y, X_std=std)) for std in (0.7, 0.0)]
        odds = [special.logit(one.predict_proba([[-1.0], [1.0]])[:, 1]) for one in both]
        slopes.append([np.diff(one)[0] / 2 for one in odds])
    corrected, naive = np.mean(slopes, axis=0)
    assert naive < 1.35
    assert corrected > 1.6


def test_no_errors_are_the_plain_fit():
    plain = PBPRegressor(n_epochs=5, random_state=0).fit(MEASURED, Y)
    same = PBPRegressor(n_epochs=5, random_state=0).fit(MEASURED, Y, X_std=np.zeros(3))
    np.testing.assert_array_equal(plain.predict_dist(TRUE).var, same.predict_dist(TRUE).var)
    assert same.encoding_.population is None


def test_gaps_are_drawn_beside():
    x = np.where(np.random.default_rng(1).random(MEASURED.shape) < 0.1, np.nan, MEASURED)
    line = BayesianLinearRegressor(random_state=0)
    plain = np.array(line.fit(x, Y).weights()["mean"])
    line.fit(x, Y, X_std=np.where(np.isnan(x), np.nan, STD))
    errors = [np.abs(m - [1.0, 2.0, -1.0, 0.5])[1:3] for m in (line.weights()["mean"], plain)]
    assert (errors[0] < 0.5 * errors[1]).all()
    p = line.predict_dist(x[:50], X_std=STD[:50])
    assert np.isfinite(p.var).all()
    complete = ~np.isnan(x[:50]).any(axis=1)
    alone = line.predict_dist(x[:50][complete], X_std=STD[:50][complete])
    np.testing.assert_allclose(p.mean[complete], alone.mean, rtol=1e-10)


def test_a_warm_start_is_refused():
    model = PBPRegressor(n_epochs=2, warm_start=True).fit(MEASURED, Y)
    with pytest.raises(ValueError, match="X_std must be None to go on with warm_start"):
        model.fit(MEASURED, Y, X_std=0.1)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("make", "n"), [(BayesianRegressor, 2), (PBPRegressor, 8)])
def test_curves_of_many_seeds(make: Any, n: int):
    x, _, _, y = rows_of(99, 1500, 0.3)
    f, gain = curve(x[:, 0]) + 0.5 * x[:, 1], []
    for seed in range(n):
        _, measured, std, target = rows_of(seed, 400, 0.3)
        models = [make(random_state=seed).fit(measured, target, X_std=one) for one in (std, 0.0)]
        p, naive = (model.predict_dist(x) for model in models)
        slopes = [np.cov(one.mean, f)[0, 1] / np.var(f) for one in (p, naive)]
        gain.append([slopes[0] - slopes[1], naive.crps(y).mean() - p.crps(y).mean()])
    steeper, better = np.transpose(gain)
    assert np.mean(steeper) > 0.04
    assert np.min(better) > 0.01


@pytest.mark.exhaustive
def test_drawn_inputs_count_as_known():
    """Of a line whose inputs are integrated out, the std of the slope is right; else too small."""
    ratio = []
    for settings in ({}, {"basis": "polynomial", "degree": 1}):
        errors, stds = [], []
        for seed in range(60):
            rng = np.random.default_rng(seed)
            x = rng.normal(size=300)
            w, y = x + 0.7 * rng.normal(size=300), x + 0.5 * rng.normal(size=300)
            line = BayesianLinearRegressor(**settings).fit(w[:, None], y, X_std=0.7)
            near, far = (line.predict_dist([[at]]) for at in (-3.0, 3.0))
            errors.append((far.mean[0] - near.mean[0]) / 6.0 - 1.0)
            stds.append(np.sqrt((far.epistemic_var[0] + near.epistemic_var[0]) / 18.0))
        ratio.append(np.mean(stds) / np.std(errors))
    integrated, drawn = ratio
    assert 0.8 < integrated < 1.2
    assert 0.3 < drawn < 0.6
