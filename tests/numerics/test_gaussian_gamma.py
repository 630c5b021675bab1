"""Moment matching against quadrature, conjugacy and high precision."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from bayesprop.numerics import gamma, gaussian
from bayesprop.numerics.gamma import Gamma
from bayesprop.numerics.gaussian import Gaussian


def test_match_moments_is_the_tilted_distribution():
    m, v = 0.3, 0.8
    factor = lambda w: stats.logistic.cdf(3 * w - 1)  # noqa: E731  any positive function will do
    prior = lambda m, v: stats.norm(m, np.sqrt(v)).pdf  # noqa: E731
    z = lambda m, v: integrate.quad(lambda w: factor(w) * prior(m, v)(w), -9, 9, epsabs=1e-13)[0]  # noqa: E731
    h = 1e-4
    d_m = (np.log(z(m + h, v)) - np.log(z(m - h, v))) / (2 * h)
    d_v = (np.log(z(m, v + h)) - np.log(z(m, v - h))) / (2 * h)
    moment = lambda k: (  # noqa: E731
        integrate.quad(lambda w: w**k * factor(w) * prior(m, v)(w), -9, 9, epsabs=1e-13)[0]
        / z(m, v)
    )
    got = gaussian.match_moments(Gaussian(m, v), d_m, d_v)
    assert got.m == pytest.approx(moment(1), abs=1e-7)
    assert got.v == pytest.approx(moment(2) - moment(1) ** 2, abs=1e-6)


def exact_gamma_match(shape, rate, v, resid):
    """Eq. 9-10 as printed, with 60 digits."""
    mp.mp.dps = 60
    shape, rate, v, resid = map(mp.mpf, (shape, rate, v, resid))
    z = [mp.npdf(resid, 0, mp.sqrt(v + rate / (shape - 1 + i))) for i in range(3)]
    new_shape = 1 / (z[0] * z[2] / z[1] ** 2 * (shape + 1) / shape - 1)
    new_rate = 1 / (z[2] / z[1] * (shape + 1) / rate - z[1] / z[0] * shape / rate)
    return float(new_shape), float(new_rate)


@pytest.mark.parametrize("shape", [1.5, 6.0, 300.0, 1e6, 1e9])
@pytest.mark.parametrize(("v", "resid"), [(0.0, 0.3), (0.2, 1.5), (3.0, 0.0)])
def test_gamma_match_keeps_its_digits(shape: float, v: float, resid: float):
    with jax.enable_x64(True):
        got = gamma.match_moments(Gamma(jnp.float64(shape), jnp.float64(shape * 0.7)), v, resid)
    shape_1, rate_1 = exact_gamma_match(shape, shape * 0.7, v, resid)
    # The increments are of order one: compare them, not the sums they vanish in.
    tolerance = 1e-13 * shape + 1e-12
    assert float(got.shape) - shape == pytest.approx(shape_1 - shape, abs=tolerance)
    assert float(got.rate) - shape * 0.7 == pytest.approx(rate_1 - shape * 0.7, abs=tolerance)


def test_gamma_match_is_conjugate_for_many_observations_of_certain_outputs():
    # With v = 0 the exact posterior adds 1/2 and resid²/2; eq. 11-12 approach that as shape grows.
    with jax.enable_x64(True):
        got = gamma.match_moments(Gamma(jnp.float64(1e6), jnp.float64(1e6)), 0.0, 1.3)
    assert float(got.shape) - 1e6 == pytest.approx(0.5, abs=2e-3)
    assert float(got.rate) - 1e6 == pytest.approx(0.5 * 1.3**2, abs=2e-3)


@pytest.mark.parametrize(("shape", "tolerance"), [(6.0, 0.06), (600.0, 6e-4)])
def test_gaussian_for_student_t_errs_less_with_more_data(shape: float, tolerance: float):
    # Supplement section 3: the approximation in eq. 12 improves with the degrees of freedom.
    t = stats.t(2 * shape, 0.0, np.sqrt(0.7))
    f = stats.norm(0.5, np.sqrt(0.4))
    exact = np.log(integrate.quad(lambda x: t.pdf(1.2 - x) * f.pdf(x), -8, 8)[0])
    with jax.enable_x64(True):
        noise_var = gamma.expected_variance(Gamma(jnp.float64(shape), jnp.float64(0.7 * shape)))
        got = gaussian.log_pdf(jnp.float64(1.2), 0.5, 0.4 + noise_var)
    assert float(got) == pytest.approx(exact, abs=tolerance)


def test_log_partitions_are_log_integrals():
    got = float(gaussian.log_partition(jnp.float32(0.4), jnp.float32(0.9)))
    area = integrate.quad(lambda w: np.exp(w * 0.4 / 0.9 - 0.5 * w * w / 0.9), -12, 12)[0]
    assert got == pytest.approx(np.log(area), rel=1e-5)
    got = float(gamma.log_partition(Gamma(jnp.float32(3.2), jnp.float32(1.7))))
    area = integrate.quad(lambda g: g**2.2 * np.exp(-1.7 * g), 0, 60)[0]
    assert got == pytest.approx(np.log(area), rel=1e-5)
