"""Fits to inputs with errors: closed form in one dimension, quadrature, evidence, coverage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayesprop
from bayesprop import BayesianLinearRegressor
from bayesprop.distributions.measured import Population, TrueInputs

RNG = np.random.default_rng(0)
N = 150
TRUE = RNG.normal(3.0, 2.0, N)
MEASURED = TRUE + RNG.normal(size=N)
Y = 1.0 + 1.5 * TRUE + 0.5 * RNG.normal(size=N)
FLAT: dict[str, Any] = {"prior_prec": 1e-9, "intercept_prec": 1e-9}


def line_of(x: np.ndarray, e: np.ndarray) -> np.ndarray:
    return 1.0 + 2.0 * x[:, 0] - x[:, 1] + 0.5 * e


def true_inputs(measured: np.ndarray, error_var: np.ndarray) -> TrueInputs:
    weight = np.ones(len(measured))
    return Population.of_rows(measured, error_var, weight).given(measured, error_var)


def test_equal_errors_have_the_closed_form():
    model = BayesianLinearRegressor(noise="evidence", **FLAT).fit(MEASURED[:, None], Y, X_std=1.0)
    cov = np.cov(MEASURED, Y, ddof=0)
    slope = cov[0, 1] / (cov[0, 0] - 1.0)
    assert model.weights()["mean"][1] == pytest.approx(slope, rel=1e-6)
    intercept = Y.mean() - slope * MEASURED.mean()
    assert model.weights()["mean"][0] == pytest.approx(intercept, rel=1e-5)
    true_var = cov[0, 0] - 1.0
    all_noise = N / (N - 2) * (cov[1, 1] - cov[0, 1] ** 2 / cov[0, 0])
    slope_var = all_noise / (N * true_var**2 / cov[0, 0])
    noise_var = all_noise - (slope**2 + slope_var) * true_var / cov[0, 0]
    assert model.predict_dist(TRUE[:1, None]).noise_var == pytest.approx(noise_var, rel=1e-4)


def test_moments_given_a_measurement_are_those_of_quadrature():
    std = RNG.uniform(0.0, 1.5, (N, 1))
    inputs = true_inputs(MEASURED[:, None], std**2)
    mean, var = MEASURED.mean(), MEASURED.var() - np.mean(std**2)
    at = np.linspace(-15.0, 20.0, 200_001)
    for row in range(1, 40, 9):
        density = stats.norm.pdf(at, mean, np.sqrt(var))
        density *= stats.norm.pdf(MEASURED[row], at, std[row])
        density /= density.sum()
        assert inputs.mean[row, 0] == pytest.approx(density @ at, rel=1e-6)
        expected = density @ (at - density @ at) ** 2
        assert inputs.cov[inputs.kind[row], 0, 0] == pytest.approx(expected, rel=1e-5)


def test_exact_columns_stay_and_inform():
    x = RNG.multivariate_normal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]], 5000)
    measured = x + [0.0, 1.0] * RNG.normal(size=x.shape)
    inputs = true_inputs(measured, np.tile([0.0, 1.0], (5000, 1)))
    np.testing.assert_array_equal(inputs.mean[:, 0], measured[:, 0])
    # Given both: precision 1 / .36 about .8 of the first, and 1 about the measured value.
    expected = (measured[:, 0] * 0.8 / 0.36 + measured[:, 1]) / (1.0 / 0.36 + 1.0)
    assert np.sqrt(np.mean((inputs.mean[:, 1] - expected) ** 2)) < 0.05
    np.testing.assert_allclose(inputs.cov[0], [[0.36 / 1.36]], atol=0.03)


def test_the_evidence_is_that_of_the_dense_normal_distribution():
    std = RNG.uniform(0.0, 1.5, (N, 1))
    model = BayesianLinearRegressor(prior_prec=2.0, noise=0.3).fit(MEASURED[:, None], Y, X_std=std)
    x, scale = (MEASURED[:, None] - MEASURED.mean()) / MEASURED.std(), Y.std()
    inputs = true_inputs(x, (std / MEASURED.std()) ** 2)
    w, root = model.posterior_.mean[0], model.posterior_.root[0]
    square = w[1] ** 2 + (root @ root.T)[1, 1]
    noise_var = 0.3 / scale**2 + square * inputs.cov[inputs.kind, 0, 0]
    phi = np.column_stack([np.ones(N), inputs.mean])
    cov = phi @ np.diag([1e4, 0.5]) @ phi.T + np.diag(noise_var)
    y = (Y - Y.mean()) / scale
    normal: Any = stats.multivariate_normal
    expected = normal.logpdf(y, cov=cov) - N * np.log(scale)
    assert model.log_evidence_ == pytest.approx(expected, rel=1e-7)
    assert model.predict_dist(TRUE[:1, None]).noise_var == pytest.approx(0.3)


def test_slopes_are_not_attenuated_and_intervals_hold_their_share():
    slopes, naive, inside = [], [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x = rng.multivariate_normal([0.0, 1.0], [[1.0, 0.5], [0.5, 2.0]], 800)
        std = np.column_stack([rng.uniform(0.0, 1.2, 800), np.zeros(800)])
        measured, y = x + std * rng.normal(size=x.shape), line_of(x, rng.normal(size=800))
        fit, new = slice(400), slice(400, 800)
        model = BayesianLinearRegressor().fit(measured[fit], y[fit], X_std=std[fit])
        slopes.append(model.weights()["mean"][1:])
        plain = BayesianLinearRegressor().fit(measured[fit], y[fit])
        naive.append(plain.weights()["mean"][1:])
        exact = model.predict_interval(x[new])
        for low, high in (exact.T, model.predict_interval(measured[new], X_std=std[new]).T):
            inside.append(np.mean((low <= y[new]) & (y[new] <= high)))
    error = np.std(slopes, axis=0) / np.sqrt(30)
    assert (np.abs(np.mean(slopes, axis=0) - [2.0, -1.0]) < 4.0 * error).all()
    assert np.mean(naive, axis=0)[0] < 1.6
    of_both = np.reshape(inside, (30, 2))
    assert (np.abs(of_both.mean(axis=0) - 0.9) < 0.015).all()


def test_no_errors_change_nothing_and_files_keep_the_fit(tmp_path: Path):
    plain = BayesianLinearRegressor().fit(MEASURED[:, None], Y)
    same = BayesianLinearRegressor().fit(MEASURED[:, None], Y, X_std=0.0)
    rows = TRUE[:9, None]
    np.testing.assert_array_equal(same.predict_dist(rows).var, plain.predict_dist(rows).var)
    model = BayesianLinearRegressor().fit(MEASURED[:, None], Y, X_std=1.0)
    model.save(tmp_path / "m.bayesprop")
    loaded = bayesprop.load(tmp_path / "m.bayesprop")
    np.testing.assert_array_equal(loaded.predict_dist(rows).var, model.predict_dist(rows).var)
    with pytest.raises(
        ValueError, match=r"learnt from inputs with errors .* fit all rows together"
    ):
        loaded.partial_fit(rows, Y[:9])


@pytest.mark.parametrize(
    ("std", "words"),
    [
        (9.0, "smaller than the standard deviation of the column"),
        (-1.0, "X_std must be a standard deviation"),
        (pd.DataFrame({"b": np.ones(N)}), "X_std must have the columns of X"),
    ],
)
def test_what_cannot_be_learnt_is_refused(std, words):
    with pytest.raises(ValueError, match=words):
        BayesianLinearRegressor().fit(MEASURED[:, None], Y, X_std=std)


def test_errors_that_explain_all_noise_are_reported():
    y = 1.5 * MEASURED + 0.1 * RNG.normal(size=N)
    with pytest.warns(UserWarning, match="check whether X_std is too large"):
        BayesianLinearRegressor().fit(MEASURED[:, None], y, X_std=1.0)


def test_a_weight_of_two_is_a_row_met_twice():
    std, twice = RNG.uniform(0.0, 1.5, (N, 1)), np.arange(N) % 3 == 0
    own: dict[str, Any] = {"noise": "evidence"} | FLAT
    of = [*range(N), *np.flatnonzero(twice)]
    x, y = MEASURED[:, None], Y
    weighted = BayesianLinearRegressor(**own).fit(x, y, 1.0 + twice, X_std=std)
    repeated = BayesianLinearRegressor(**own).fit(x[of], y[of], X_std=std[of])
    expected = repeated.weights()["mean"]
    np.testing.assert_allclose(weighted.weights()["mean"], expected, rtol=1e-6)
