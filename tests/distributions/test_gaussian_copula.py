"""Drawn inputs against conditional normal distributions, thresholds and what is known of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayesprop import codec
from bayesprop.distributions.gaussian_copula import COMPLETIONS, GaussianCopula, KnownInputs

CORRELATION = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.5], [0.3, 0.5, 1.0]])


def normals(n, seed):
    return np.random.default_rng(seed).multivariate_normal(np.zeros(3), CORRELATION, n)


@pytest.mark.parametrize("known", [[0], [0, 2], []])
def test_gaussian_columns_are_drawn_from_their_conditional_distribution(known):
    # Marginals are exponentials: the copula sees through them.
    model = GaussianCopula.fit(np.exp(normals(2000, 0)))
    z = normals(400, 1)
    missing = [j for j in range(3) if j not in known]
    gaps = np.exp(z)
    gaps[:, missing] = np.nan
    drawn = np.log(model.completions(gaps, 200))
    np.testing.assert_allclose(drawn[:, :, known], np.repeat(z[:, None, known], 200, axis=1))
    gain = np.zeros((len(missing), 0))
    if known:
        within = CORRELATION[np.ix_(known, known)]
        gain = CORRELATION[np.ix_(missing, known)] @ np.linalg.inv(within)
    left = CORRELATION[np.ix_(missing, missing)] - gain @ CORRELATION[np.ix_(known, missing)]
    off = drawn[:, :, missing] - (z[:, known] @ gain.T)[:, None]
    # Of 2000 rows correlations are known to .02 and quantiles to a hundredth of their range.
    assert np.abs(off.mean(axis=(0, 1))).max() < 0.06
    found = np.mean([np.cov(row.T, ddof=0) for row in off], axis=0)
    np.testing.assert_allclose(found, left, atol=0.07)


def test_levels_are_drawn_one_a_row_and_by_their_probability():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((4000, 2))
    z[:, 1] = 0.7 * z[:, 0] + 0.714 * z[:, 1]
    level = np.digitize(z[:, 1], [-0.5, 0.8])
    X = np.column_stack([z[:, 0], np.eye(3)[level]])
    model = GaussianCopula.fit(X[:2000])
    assert model.block.tolist() == [0, 1, 1, 1]
    gaps = X[2000:].copy()
    gaps[:, 1:] = np.nan
    drawn = model.completions(gaps)[:, :, 1:]
    np.testing.assert_array_equal(drawn.sum(axis=2), 1.0)
    edges = stats.norm.cdf((np.array([-0.5, 0.8]) - 0.7 * gaps[:, :1]) / 0.714)
    truth = np.diff(np.column_stack([0.0 * edges[:, :1], edges, 0.0 * edges[:, :1] + 1.0]))
    # Scores of 0 and 1 are less correlated than what they were cut from: duller, never absurd.
    assert np.abs(drawn.mean(axis=1) - truth).mean() < 0.12
    np.testing.assert_allclose(drawn.mean(axis=(0, 1)), truth.mean(axis=0), atol=0.05)
    surprise = -np.log(np.maximum(drawn.mean(axis=1)[np.arange(2000), level[2000:]], 0.5 / 32))
    of_shares = -np.log(truth.mean(axis=0))[level[2000:]]
    assert surprise.mean() < of_shares.mean() - 0.1


def test_a_level_that_is_known_leaves_no_other():
    X = np.eye(3)[np.arange(60) % 3]
    model = GaussianCopula.fit(X)
    row = np.array([[1.0, np.nan, np.nan], [0.0, np.nan, 0.0], [np.nan, 0.0, np.nan]])
    drawn = model.completions(row)
    np.testing.assert_array_equal(drawn[0], np.tile([1.0, 0.0, 0.0], (COMPLETIONS, 1)))
    np.testing.assert_array_equal(drawn[1], np.tile([0.0, 1.0, 0.0], (COMPLETIONS, 1)))
    np.testing.assert_array_equal(drawn[2].sum(axis=1), 1.0)
    assert 0.2 < drawn[2, :, 0].mean() < 0.8


def test_what_is_drawn_was_seen():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.poisson(3.0, 300), rng.integers(0, 2, 300), rng.normal(size=300)])
    gaps = np.where(rng.random((50, 3)) < 0.6, np.nan, X[:50])
    drawn = GaussianCopula.fit(X).completions(gaps)
    for j in range(3):
        assert np.isin(drawn[..., j], X[:, j]).all()


def test_gaps_in_the_rows_learnt_do_not_hide_how_columns_go_together():
    X = normals(2000, 2)
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.4, np.nan, X)
    loadings = GaussianCopula.fit(gaps).loadings
    np.testing.assert_allclose((loadings @ loadings.T)[0, 1:], CORRELATION[0, 1:], atol=0.08)


def test_few_rows_claim_no_correlations():
    rng = np.random.default_rng(0)
    model = GaussianCopula.fit(rng.standard_normal((12, 30)))
    assert (
        np.abs(model.loadings @ model.loadings.T - np.eye(30))[~np.eye(30, dtype=bool)].max() < 0.4
    )
    two = GaussianCopula.fit(np.array([[0.0, 1.0], [1.0, 2.0]]))
    np.testing.assert_allclose(two.loadings @ two.loadings.T, 0.0, atol=1e-12)


def test_a_row_is_completed_alike_in_any_company():
    X = normals(200, 4)
    gaps = np.where(np.random.default_rng(1).random(X.shape) < 0.5, np.nan, X)
    model = GaussianCopula.fit(X)
    whole = model.completions(gaps)
    np.testing.assert_array_equal(model.completions(gaps[7:8])[0], whole[7])


def test_columns_left_out_are_integrated_out():
    model = GaussianCopula.fit(normals(2000, 5))
    rows = np.array([[1.5, np.nan, np.nan], [-1.0, np.nan, np.nan]])
    without = model.of_columns(2).completions(rows[:, :2], 400)[:, :, 1]
    with_all = model.completions(rows, 400)[:, :, 1]
    np.testing.assert_allclose(without.mean(axis=1), with_all.mean(axis=1), atol=0.05)
    np.testing.assert_allclose(without.std(axis=1), with_all.std(axis=1), atol=0.05)


@pytest.mark.parametrize(
    "X",
    [
        np.ones((5, 2)),
        np.arange(6.0)[:, None],
        np.random.default_rng(0).standard_normal((20, 1100)),
        np.array([[1e-300, 1e150], [2e-300, -1e150], [0.0, 3.0]]),
        np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, np.nan]]),
        np.array([[3.0, 1.0]]),
    ],
)
def test_odd_columns(X):
    model = GaussianCopula.fit(X)
    drawn = model.completions(np.full((2, X.shape[1]), np.nan))
    assert np.isfinite(drawn).all()
    assert np.isin(drawn[0, :, 0], X[:, 0]).all()


def test_stored_and_read():
    model = GaussianCopula.fit(normals(50, 0))
    again = codec.read(GaussianCopula, codec.write(model, GaussianCopula))
    gaps = np.array([[np.nan, 1.0, np.nan]])
    np.testing.assert_array_equal(again.completions(gaps), model.completions(gaps))


def test_a_value_that_few_rows_have_is_among_those_kept():
    X = np.column_stack([np.arange(9000.0), np.full(9000, np.nan)])
    X[1234, 1] = 5.0
    known = KnownInputs.of_rows(X, lambda at: X[at, :1], None)
    assert known.model.knots[:, 1].tolist() == [5.0] * 128
    weight = np.where(np.arange(9000) % 9 == 0, 1.0, 0.0)
    model = KnownInputs.of_rows(X[:, :1], lambda at: X[at, :1], weight).model
    assert np.isin(model.knots, X[weight > 0.0, 0]).all()
    assert KnownInputs(None, model).model is model
