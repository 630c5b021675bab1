"""The residual process against multivariate normals, finite differences, refits, scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from bayesprop.moments.network_ensemble import residual_process as rp


def squared(lengths: np.ndarray, var: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Covariance by scikit-learn."""
    return (ConstantKernel(var) * RBF(lengths))(a, b)


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows of three columns, the last of which says nothing; residuals, noise, weights."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    noise_var = rng.uniform(0.01, 0.09, 60)
    e = 0.5 * np.sin(2.0 * x[:, 0]) * x[:, 1] + np.sqrt(noise_var) * rng.standard_normal(60)
    return x, e, noise_var, rng.uniform(0.5, 2.0, 60)


@pytest.fixture(scope="module")
def fitted(rows) -> rp.Fitted:
    return rp.fit(np.random.default_rng(1), *rows)


def test_evidence_is_a_multivariate_normals_and_its_gradient_a_finite_difference(rows):
    x, e, noise_var, _ = rows
    at, log_s = np.array([0.1, 0.4, -0.3, -1.0, -2.0]), 0.5 * np.log(noise_var)
    value, gradient = rp.negative_log_evidence(at, x, e, log_s)
    total = squared(np.exp(at[:3]), np.exp(at[3]), x, x)
    total += np.diag(np.exp(at[4] + log_s) + 1e-4 * np.exp(at[3]))
    want = -stats.multivariate_normal(np.zeros(60), total).logpdf(e)
    np.testing.assert_allclose(value + 30.0 * np.log(2.0 * np.pi), want, rtol=1e-10)
    slopes = optimize.approx_fprime(at, lambda p: rp.negative_log_evidence(p, x, e, log_s)[0], 1e-6)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4)


def test_rows_are_left_out_as_if_they_had_never_been_there(rows):
    x, e, noise_var, weight = rows
    log_s = 0.5 * np.log(noise_var) - np.log(weight)
    fitted = rp._condition(x, e, log_s, np.array([0.1, 0.4, -0.3, -1.0, -2.0]))
    lengths, var = np.exp(fitted.log_lengths), np.exp(fitted.log_var)
    shares = fitted.noise_var - 1e-4 * var
    np.testing.assert_allclose(
        shares / shares[0], np.sqrt(noise_var / noise_var[0]) * weight[0] / weight, rtol=1e-9
    )
    for i in range(0, 60, 7):
        rest = np.arange(60) != i
        k = squared(lengths, var, x[rest], x[rest]) + np.diag(fitted.noise_var[rest])
        to = squared(lengths, var, x[i : i + 1], x[rest])[0]
        np.testing.assert_allclose(fitted.m[i], to @ np.linalg.solve(k, e[rest]), rtol=1e-8)
        v = var - to @ np.linalg.solve(k, to)
        np.testing.assert_allclose(fitted.v[i], v, rtol=1e-8, atol=1e-10)


def test_a_row_says_nothing_of_what_is_said_without_it(rows, fitted):
    x, e, noise_var, weight = rows
    for i in (3, 40):
        changed = e.copy()
        changed[i] += 2.0
        other = rp.fit(np.random.default_rng(1), x, changed, noise_var, weight)
        np.testing.assert_allclose(other.m[i], fitted.m[i], rtol=1e-9)
        np.testing.assert_allclose(other.v[i], fitted.v[i], rtol=1e-9)
        assert not np.array_equal(other.log_lengths, fitted.log_lengths)


def test_lengths_are_the_most_probable(rows, fitted):
    x, e, noise_var, weight = rows
    log_s = 0.5 * np.log(noise_var)
    log_s -= log_s.mean() + np.log(weight)
    found = np.r_[fitted.log_lengths, fitted.log_var]
    c = np.log(fitted.noise_var[0] - 1e-4 * np.exp(fitted.log_var)) - log_s[0]

    def loss(at: np.ndarray) -> float:
        prior = stats.norm(np.log(np.sqrt(3.0 / 8.0)), 1.0).logpdf(at[:3]).sum()
        return rp.negative_log_evidence(at, x, e, log_s)[0] - prior

    best = optimize.minimize(loss, np.r_[found, c], method="Nelder-Mead", options={"xatol": 1e-5})
    assert loss(np.r_[found, c]) - best.fun < 1e-3


def test_moments_and_draws_are_those_of_scikit_learn(rows, fitted):
    x, e, _, _ = rows
    kernel = ConstantKernel(np.exp(fitted.log_var)) * RBF(np.exp(fitted.log_lengths))
    peer = GaussianProcessRegressor(kernel, alpha=fitted.noise_var, optimizer=None).fit(x, e)
    at = np.vstack([x[:3], np.random.default_rng(2).uniform(-4.0, 4.0, (5, 3))])
    mean, covariance = peer.predict(at, return_cov=True)
    found, several = [], [rp.process(np.random.default_rng(s), x, [fitted]) for s in range(400)]
    for one in several:
        m, v = one.moments(at)
        np.testing.assert_allclose(m[:, 0], mean, rtol=1e-3, atol=1e-4)
        found.append(v[:, 0])
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - np.diag(covariance)) < 5.0 * error + 1e-6).all()
    drawn = np.vstack([one.draw(np.random.default_rng(3), at, 20)[..., 0] for one in several])
    off = (drawn - mean)[:, :, None] * (drawn - mean)[:, None, :]
    error = off.reshape(len(several), 20, 8, 8).mean(axis=1).std(axis=0) / np.sqrt(len(several))
    assert (np.abs(off.mean(axis=0) - covariance) < 5.0 * error + 1e-6).all()
    one = several[0]
    many = one.draw(np.random.default_rng(4), at, 20_000)[..., 0]
    m, v = (part[:, 0] for part in one.moments(at))
    assert (np.abs(many.mean(axis=0) - m) < 5.0 * np.sqrt(v / 20_000) + 1e-6).all()
    np.testing.assert_allclose(many.var(axis=0), v, rtol=5.0 * np.sqrt(2.0 / 20_000), atol=1e-7)


def test_lengths_tell_inputs_that_matter():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((300, 3))
    e = np.sin(3.0 * x[:, 0]) + 0.1 * rng.standard_normal(300)
    found = rp.fit(rng, x, e, np.full(300, 0.01), np.ones(300))
    assert found.log_lengths[0] < 0.5 < 1.5 < found.log_lengths[1:].min()
    assert np.exp(found.log_var) <= np.mean(e**2) * (1.0 + 1e-6)


def test_residuals_of_nothing_but_zeros_leave_nothing():
    x = np.random.default_rng(6).standard_normal((20, 2))
    found = rp.fit(np.random.default_rng(7), x, np.zeros(20), np.full(20, 1e-6), np.ones(20))
    assert np.abs(found.m).max() == 0.0
    assert np.isfinite(found.v).all()


def test_outputs_with_nothing_left_stay_as_they_are(rows, fitted):
    x = rows[0]
    nothing = rp.process(np.random.default_rng(8), x, [None, None])
    assert len(nothing.rows) == 0
    for part in (*nothing.moments(x), nothing.draw(np.random.default_rng(9), x, 2)):
        assert not part.any()
    one = rp.process(np.random.default_rng(8), x, [None, fitted])
    m, v = one.moments(x)
    assert not m[:, 0].any()
    assert not v[:, 0].any()
    assert m[:, 1].any()
    assert not one.draw(np.random.default_rng(9), x, 2)[..., 0].any()
    one.check(3, 2)
    for bad in (one._replace(pulls=one.pulls[:, 1:]), one._replace(phases=one.phases[1:])):
        with pytest.raises(ValueError, match=r"residual process's .* must have shape"):
            bad.check(3, 2)
    for name in ("log_lengths", "log_var"):
        bad = one._replace(**{name: getattr(one, name) - 1e30})
        with pytest.raises(ValueError, match="from -60 to 60"):
            bad.check(3, 2)


def test_of_more_columns_than_rows_those_that_matter_are_found():
    rng = np.random.default_rng(7)
    x, noise = rng.standard_normal((90, 150)), np.full(90, 0.01)
    truth = np.sin(2.0 * x[:, 0])
    fitted = rp.fit(rng, x, truth + 0.1 * rng.standard_normal(90), noise, np.ones(90))
    assert fitted.log_lengths.argmin() == 0
    assert np.corrcoef(fitted.m, truth)[0, 1] > 0.8
