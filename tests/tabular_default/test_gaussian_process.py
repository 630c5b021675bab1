"""The Gaussian process against multivariate normals, finite differences, refits, scikit-learn."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from bayesprop import codec
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import gaussian_process as gp
from bayesprop.tabular_default.gaussian_process import GaussianProcess

LIMITS = gp.Limits(-20.0, 1000)
AT = np.array([0.1, 0.4, -0.3, -1.0, -2.0, -2.5, -1.3])
"""Logarithms: three lengths, variance, noise, linear variance, variance of groups."""
GROUP = np.random.default_rng(8).integers(12, size=60)
BOTH = pytest.mark.parametrize("is_rough", [False, True])


def kernel(process: GaussianProcess):
    """Covariance by scikit-learn."""
    lengths = np.exp(process.log_lengths)
    bent = Matern(lengths, nu=2.5) if process.is_rough else RBF(lengths)
    var, _, linear_var = np.exp(process.logarithms[3:6])
    return ConstantKernel(var) * bent + ConstantKernel(linear_var) * DotProduct(1.0)


@pytest.fixture(scope="module")
def known() -> Rows:
    """Rows of three columns, the last of which says nothing."""
    rng = np.random.default_rng(0)
    x, weight = np.float64(np.float32(rng.standard_normal((60, 3)))), rng.uniform(0.5, 2.0, 60)
    noise = 0.2 / np.sqrt(weight) * rng.standard_normal(60)
    return Rows(x, 0.5 * np.sin(2.0 * x[:, 0]) * x[:, 1] + noise, weight)


@pytest.fixture(scope="module")
def fitted(known) -> gp.Fitted:
    return GaussianProcess.fit(np.random.default_rng(1), known, LIMITS)


def made(known: Rows, *, is_rough: bool, log_noise: float = -2.0) -> GaussianProcess:
    at = np.r_[AT[:4], log_noise, AT[5]]
    return GaussianProcess.of(known._replace(group=None), at, is_rough)


def covariance_of(at: np.ndarray, known: Rows, *, is_rough: bool) -> np.ndarray:
    """Covariance of the targets, whose groups share a number."""
    total = kernel(made(known, is_rough=is_rough))(known.x) + np.diag(np.exp(at[4]) / known.weight)
    if known.group is not None:
        total += np.exp(at[6]) * (known.group[:, None] == known.group)
    return total


@BOTH
@pytest.mark.parametrize("has_groups", [False, True])
def test_evidence_is_a_multivariate_normals_and_its_gradient_a_finite_difference(
    known, is_rough, has_groups
):
    at = AT if has_groups else AT[:6]
    known = known._replace(group=GROUP if has_groups else None)
    value, gradient = gp.negative_log_evidence(at, known, is_rough=is_rough)
    total = covariance_of(at, known, is_rough=is_rough)
    expected = -stats.multivariate_normal(np.zeros(60), total).logpdf(known.y)
    np.testing.assert_allclose(value + 30.0 * np.log(2.0 * np.pi), expected, rtol=1e-8)
    slopes = optimize.approx_fprime(
        at, lambda p: gp.negative_log_evidence(p, known, is_rough=is_rough)[0], 1e-6
    )
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4)


@BOTH
def test_rows_are_left_out_as_if_they_had_never_been_there(known, is_rough):
    process = made(known, is_rough=is_rough)
    _, m, v, _ = process.held_out()
    covariance = kernel(process)
    var, noise_var = np.exp(process.logarithms[3:5])
    noise = noise_var / known.weight + 1e-10 * var
    for i in range(0, 60, 7):
        rest = np.arange(60) != i
        k = covariance(known.x[rest]) + np.diag(noise[rest])
        to = covariance(known.x[i : i + 1], known.x[rest])[0]
        np.testing.assert_allclose(m[i], to @ np.linalg.solve(k, known.y[rest]), rtol=1e-7)
        expected = covariance.diag(known.x[i : i + 1])[0] - to @ np.linalg.solve(k, to)
        np.testing.assert_allclose(v[i], expected, rtol=1e-7, atol=1e-10)


@BOTH
def test_groups_share_a_number_that_a_new_one_has_anew(known, is_rough):
    of_groups = known._replace(group=GROUP)
    covariance = kernel(made(known, is_rough=is_rough))
    total = covariance_of(AT, of_groups, is_rough=is_rough)
    process = GaussianProcess.of(of_groups, AT, is_rough)
    _, m, v, _ = process.held_out()
    total[np.diag_indices(60)] += 1e-10 * np.exp(AT[3])
    k = covariance(known.x)
    for out in (GROUP == 2, GROUP == 7):
        to, rest = k[np.ix_(out, ~out)], total[np.ix_(~out, ~out)]
        np.testing.assert_allclose(m[out], to @ np.linalg.solve(rest, known.y[~out]), rtol=1e-6)
        expected = np.diag(k)[out] - np.sum(to * np.linalg.solve(rest, to.T).T, axis=1)
        np.testing.assert_allclose(v[out], expected, rtol=1e-6, atol=1e-9)
    m, v = process.moments(known.x + 0.3)
    to = covariance(np.float32(known.x + 0.3) / 1.0, known.x)
    np.testing.assert_allclose(m, to @ np.linalg.solve(total, known.y), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(process.log_own_noise, np.log(np.exp(AT[4]) + np.exp(AT[6])))


@pytest.mark.exhaustive
def test_the_evidence_finds_how_groups_differ():
    rng, found = np.random.default_rng(9), []
    for _ in range(5):
        group = np.repeat(np.arange(40), 8)
        x = rng.uniform(-2.0, 2.0, (320, 2))
        y = np.sin(x[:, 0]) + (0.8 * rng.standard_normal(40))[group]
        known = Rows(x, y + 0.3 * rng.standard_normal(320), np.ones(320), group)
        found.append(np.exp(GaussianProcess.fit(rng, known, LIMITS).process.logarithms[-1]))
    # The variance of 40 numbers has a relative standard error of sqrt(2 / 40), of five means half.
    assert abs(np.mean(found) / 0.64 - 1.0) < 3.0 * np.sqrt(2.0 / 40 / 5)


def test_a_row_says_nothing_of_what_is_said_without_it(known, fitted):
    for i in (3, 40):
        y = known.y.copy()
        y[i] += 2.0
        one, other = (
            GaussianProcess.fit(np.random.default_rng(1), known._replace(y=values), LIMITS)
            for values in (known.y, y)
        )
        assert one.process.is_rough == other.process.is_rough
        np.testing.assert_allclose(other.m[i], one.m[i], rtol=1e-9)
        np.testing.assert_allclose(other.v[i], one.v[i], rtol=1e-9)
        assert abs(other.log_density[i] - one.log_density[i]) > 1.0


def test_hyper_parameters_are_the_most_probable(known, fitted):
    best, is_rough = fitted.process.logarithms, fitted.process.is_rough

    def loss(at: np.ndarray) -> float:
        away = at[:3] - 0.5 * np.log(3.0)
        prior = stats.norm(0.0, np.where(away > 0.0, 3.0, 1.5)).logpdf(away)
        prior += np.where(away > 0.0, np.log(2.0), 0.0)  # continuous at the middle
        prior = prior.sum()
        return gp.negative_log_evidence(at, known, is_rough=is_rough)[0] - prior

    lower = optimize.minimize(loss, best, method="Nelder-Mead", options={"xatol": 1e-5})
    assert loss(best) - lower.fun < 1e-3


@pytest.mark.parametrize(("log_noise", "rtol"), [(-2.0, 1e-4), (-6.0, 1e-6)])  # float32, float64
@BOTH
def test_moments_and_draws_are_those_of_scikit_learn(known, is_rough, monkeypatch, log_noise, rtol):
    process = made(known, is_rough=is_rough, log_noise=log_noise)
    noise = np.exp(log_noise) / known.weight
    peer = GaussianProcessRegressor(kernel(process), alpha=noise, optimizer=None)
    peer.fit(known.x, known.y)
    at = np.vstack([known.x[:3], np.float32(np.random.default_rng(2).uniform(-4.0, 4.0, (5, 3)))])
    mean, joint = peer.predict(at, return_cov=True)
    m, v = process.moments(at)
    np.testing.assert_allclose(m, mean, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(v, np.diag(joint), rtol=rtol, atol=0.1 * rtol)
    n = 20_000
    scale = np.sqrt(np.outer(np.diag(joint), np.diag(joint)))
    drawn = process.draw(np.random.default_rng(3), at, n)
    assert (np.abs(drawn.mean(axis=0) - mean) < 5.0 * np.sqrt(v / n)).all()
    assert (np.abs(np.cov(drawn.T) - joint) < 5.0 * np.sqrt(2.0 / n) * scale).all()
    monkeypatch.setattr(gp, "MOST_JOINT", 4)  # the other rows are independent given four
    rough = process.draw(np.random.default_rng(4), at, n)
    assert (np.abs(rough.mean(axis=0) - mean) < 5.0 * np.sqrt(v / n)).all()
    assert (np.abs(rough.var(axis=0) - v) < 5.0 * np.sqrt(2.0 / n) * v).all()
    exact = np.random.default_rng(4).permutation(8)[:4]
    error = np.abs(np.cov(rough.T) - joint)[np.ix_(exact, np.arange(8))]
    assert (error < 5.0 * np.sqrt(2.0 / n) * scale[exact]).all()


def test_rows_left_out_choose_the_covariance():
    rng = np.random.default_rng(6)
    x = rng.uniform(-2.0, 2.0, (400, 1))
    smooth, kinked = np.sin(2.0 * x[:, 0]), np.abs(np.sin(4.0 * x[:, 0]))
    for y, is_rough in ((smooth, False), (kinked, True)):
        found = GaussianProcess.fit(rng, Rows(x, y, np.ones(400)), LIMITS)
        assert found.process.is_rough == is_rough


def test_a_line_is_exact_beyond_the_rows():
    rng = np.random.default_rng(10)
    x, slopes = rng.standard_normal((400, 4)), np.array([0.5, -0.3, 0.7, 0.0])
    known = Rows(x, x @ slopes, np.ones(400))
    process = GaussianProcess.fit(rng, known, LIMITS).process
    far = np.float64(np.float32(5.0 * rng.standard_normal((50, 4))))
    m, v = process.moments(far)
    np.testing.assert_allclose(m, far @ slopes, atol=1e-3)
    assert (np.abs(m - far @ slopes) < 5.0 * np.sqrt(v)).all()


def test_targets_of_nothing_but_zeros_leave_nothing():
    x = np.random.default_rng(6).standard_normal((20, 2))
    zeros = Rows(x, np.zeros(20), np.ones(20))
    fitted = GaussianProcess.fit(np.random.default_rng(7), zeros, LIMITS)
    assert np.abs(fitted.m).max() == 0.0
    assert np.isfinite(fitted.v).all()


def test_a_process_goes_to_a_file_and_back_and_what_does_not_fit_is_refused(fitted, known):
    Process = GaussianProcess
    again = codec.read(Process, codec.write(fitted.process, Process))
    np.testing.assert_array_equal(again.moments(known.x), fitted.process.moments(known.x))
    pickled = pickle.dumps(fitted.process)
    assert len(pickled) < 10_000  # nothing that can be computed again
    again = pickle.loads(pickled)
    np.testing.assert_array_equal(again.held_out()[1:], fitted.process.held_out()[1:])
    for bad in (
        {"y": np.full(60, 1e300)},
        {"weight": -known.weight},
        {"logarithms": np.full(6, -1e30)},
        {"logarithms": np.zeros(7)},
        {"logarithms": np.zeros(9)},
        {"group": np.zeros(60, int)},
    ):
        with pytest.raises(ValueError, match="the process's"):
            codec.read(Process, codec.write(replace(fitted.process, **bad), Process))


def test_of_more_columns_than_rows_those_that_matter_are_found():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((90, 150))
    truth = np.sin(2.0 * x[:, 0])
    known = Rows(x, truth + 0.1 * rng.standard_normal(90), np.ones(90))
    fitted = GaussianProcess.fit(rng, known, LIMITS)
    assert fitted.process.log_lengths.argmin() == 0
    assert np.corrcoef(fitted.m, truth)[0, 1] > 0.8
