"""Inputs with standard errors, against closed forms and quadrature; every method by Monte Carlo.

The latter is in `test_every_method.py`, which has a fit of each.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bayesprop import BayesianLinearRegressor, BayesianLogisticClassifier
from bayesprop.distributions.gaussian_copula import even_normals
from bayesprop.distributions.imputed import n_ways

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) * [1.0, 2.0, 5.0] + [0.0, 1.0, 9.0]
Y = X @ [1.0, -2.0, 0.3] + RNG.normal(size=60)
ROWS = X[:5]
STD = np.array([[0.5, 0, 2.0], [0, 0, 0], [1.0, 1.0, 1.0], [0, 0.1, 0], [3.0, 0, 9.0]])
NODES = np.linspace(-8.0, 8.0, 401)
WEIGHTS = np.exp(-0.5 * NODES**2)


@pytest.fixture(scope="module")
def line():
    return BayesianLinearRegressor().fit(X, Y)


@pytest.fixture(scope="module")
def odds():
    return BayesianLogisticClassifier().fit(X, np.where(Y > -1.0, "above", "below"))


def test_moments_of_a_line_are_exact(line):
    p, sure = line.predict_dist(ROWS, X_std=STD), line.predict_dist(ROWS)
    # f(x + e) has the variance x' V x + 2 x' V e + e' V e given e, so that only the diagonal of V
    # counts: half the second difference of the epistemic variance. It adds the variance of w e.
    v = [
        line.predict_dist(ROWS + side * np.eye(3)[j]).epistemic_var
        for j in range(3)
        for side in (-1, 1)
    ]
    second = 0.5 * (np.reshape(v, (3, 2, -1)).sum(axis=1) - 2.0 * sure.epistemic_var)
    w = line.predict(np.eye(3)) - line.predict(np.zeros((3, 3)))
    of_inputs, epistemic_var = STD**2 @ w**2, sure.epistemic_var + np.sum(STD**2 * second.T, axis=1)
    np.testing.assert_allclose(p.mean, sure.mean, rtol=1e-9)
    np.testing.assert_allclose(p.epistemic_var, epistemic_var, rtol=1e-8)
    np.testing.assert_allclose(p.var, epistemic_var + sure.noise_var + of_inputs, rtol=1e-8)
    np.testing.assert_allclose(p.gap_share, of_inputs / p.var, rtol=1e-8)


def test_a_distribution_is_the_integral_over_the_input(line):
    row, y = ROWS[:1], ROWS[:1] @ [1.0, -2.0, 0.3]
    p = line.predict_dist(row, X_std=[2.0, 0.0, 0.0])
    many = line.predict_dist(row + 2.0 * np.outer(NODES, [1.0, 0.0, 0.0]))
    for at in (y - 4.0, y - 1.0, y, y + 3.0):
        cdf = WEIGHTS @ many.cdf(np.full(401, at[0])) / WEIGHTS.sum()
        np.testing.assert_allclose(p.cdf(at), cdf, atol=0.002)


def test_intervals_and_draws_take_it(line):
    p = line.predict_dist(ROWS, X_std=STD)
    np.testing.assert_array_equal(line.predict_interval(ROWS, 0.8, X_std=STD), p.interval(0.8))
    own = line.predict_quantiles(ROWS, (0.1, 0.5), X_std=STD)
    np.testing.assert_array_equal(own, p.quantile(np.array([0.1, 0.5])))
    n = 20_000
    y = line.sample_y(ROWS, n, include_noise=True, X_std=STD)
    assert (np.abs(y.mean(axis=1) - p.mean) < 4.0 * p.std / np.sqrt(n)).all()
    squared = (y - p.mean[:, None]) ** 2
    assert (np.abs(squared.mean(axis=1) - p.var) < 4.0 * squared.std(axis=1) / np.sqrt(n)).all()
    gaps = np.where(np.arange(15).reshape(5, 3) % 7 == 1, np.nan, ROWS)
    both = line.sample_y(gaps, 200, X_std=STD)
    assert np.isfinite(both).all()


def test_probabilities_are_averaged(odds):
    p = odds.predict_dist(ROWS[:1], X_std=[0.0, 1.5, 0.0])
    many = odds.predict_dist(ROWS[:1] + 1.5 * np.outer(NODES, [0.0, 1.0, 0.0]))
    mean = WEIGHTS @ many.proba / WEIGHTS.sum()
    np.testing.assert_allclose(p.proba[0], mean, atol=0.002)
    removed = -mean @ np.log(mean) - WEIGHTS @ many.entropy / WEIGHTS.sum()
    np.testing.assert_allclose(p.gap_share * p.entropy, removed, atol=0.005)
    np.testing.assert_array_equal(odds.predict_proba(ROWS[:1], X_std=[0.0, 1.5, 0.0]), p.proba)


def test_a_row_is_predicted_alike_in_any_company(line):
    gaps = np.where(np.arange(15).reshape(5, 3) % 7 == 1, np.nan, ROWS)
    together = line.predict_dist(gaps, X_std=STD)
    for k in range(len(gaps)):
        alone = line.predict_dist(gaps[k : k + 1], X_std=STD[k])
        np.testing.assert_allclose(alone.mean, together.mean[[k]])
        np.testing.assert_allclose(alone.var, together.var[[k]])
    np.testing.assert_allclose(together.mean[1], line.predict(gaps)[1])


def test_a_gap_and_an_error_add_up(line):
    row, std = np.array([[np.nan, 1.0, 9.0]]), np.array([0.0, 1.0, 4.0])
    completed = line.inputs_.model.of_columns(3).completions(row, 64)[0]
    w = line.predict(np.eye(3)) - line.predict(np.zeros((3, 3)))
    expected = np.var(completed @ w) + std**2 @ w**2
    p = line.predict_dist(row, X_std=std)
    np.testing.assert_allclose(p.gap_share * p.var, expected, rtol=0.02)
    # A missing value is drawn given the others: a std of it is not read, and may be missing, too.
    np.testing.assert_array_equal(line.predict_dist(row, X_std=[np.nan, 1.0, 4.0]).var, p.var)


def test_a_frame_of_errors_goes_by_name():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = BayesianLinearRegressor().fit(frame, Y)
    std = pd.DataFrame(STD, columns=["a", "b", "c"])
    _, spread = model.predict(frame[:5], return_std=True, X_std=std)
    np.testing.assert_allclose(spread, model.predict_dist(frame[:5], X_std=STD).std)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[:5], X_std=std[["c", "b", "a"]])


@pytest.mark.parametrize(
    ("std", "told"),
    [
        (-1.0, "got -1 in row 0, column 0"),
        ([1.0, np.nan, 1.0], "0 where a value is exact, got nan in row 0, column 1"),
        (np.inf, "got inf"),
        (1e80, "at most .* got 1e[+]80"),
        (np.ones(4), "one of each column .3,. or of each value .5, 3., got the shape .4,."),
        ("much", "X_std must hold numbers, got str"),
        ({}, "X_std must hold numbers, got dict"),
    ],
)
def test_what_is_no_standard_deviation_is_refused(line, std, told):
    with pytest.raises(ValueError, match=told):
        line.predict(ROWS, X_std=std)


def test_exposures_are_exact():
    counts = RNG.poisson(np.exp(0.2 * X[:, 1]) + 1.0)
    x = np.column_stack([RNG.uniform(1.0, 2.0, 60), X[:, 1]])
    model = BayesianLinearRegressor(target_kind="count", exposure=0).fit(x, counts)
    with pytest.raises(ValueError, match="must be 0 in the column of exposures"):
        model.predict(x[:2], X_std=0.1)
    p = model.predict_dist(x[:2], X_std=[0.0, 1.0])
    assert (p.var > model.predict_dist(x[:2]).var).all()
    assert (p.gap_share > 0.0).all()


def test_points_have_exact_moments():
    for n, d in ((64, 3), (64, 32), (128, 50)):
        z = even_normals(n, d)
        np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(z.T @ z / n, np.eye(d), atol=1e-12)
        assert abs(np.mean(z**4) - 3.0) < 0.3  # of a normal
    x, std = np.zeros((4, 100)), np.zeros((4, 100))
    x[0, 0] = np.nan
    std[1, :40], std[2, :3] = 1.0, 1.0
    assert n_ways(x, std).tolist() == [16, 128, 64, 1]
