"""Gaussians: moment matching against quadrature, natural forms against inverses and products."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import integrate, stats

from bayesprop.numerics.gaussian import (
    Gaussian,
    Joint,
    Natural,
    from_natural,
    joint,
    match_moments,
    natural_of_joint,
    site,
)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def test_vectors_go_there_and_back_as_by_the_inverse():
    half = np.random.default_rng(0).normal(size=(2, 3, 3))
    cov = half @ half.transpose(0, 2, 1) + np.eye(3)
    m = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    found = natural_of_joint(Joint(m, cov))
    np.testing.assert_allclose(found.precision, np.linalg.inv(cov), rtol=1e-9)
    back = joint(found)
    np.testing.assert_allclose(back.m, m, atol=1e-12)
    np.testing.assert_allclose(back.cov, cov, rtol=1e-9)


def test_what_is_improper_shows_as_nan():
    assert np.isnan(joint(Natural(-np.eye(2), np.zeros(2))).cov).all()


def test_a_site_times_its_cavity_has_the_moments_of_the_match():
    rest = Natural(np.array([0.5, 4.0]), np.array([1.0, -2.0]))
    match = Gaussian(np.array([3.0, 0.1]), np.array([0.7, 0.4]))
    for limit, v in (({}, match.v), ({"least": 0.0}, [0.7, 0.25])):
        found = site(match, rest, **limit)
        product = from_natural(Natural(found.precision + rest.precision, found.shift + rest.shift))
        np.testing.assert_allclose(product, (match.m, v), rtol=1e-12)


def test_match_moments_is_the_tilted_distribution():
    def moment(k, m, v):
        """Integrate the prior times a factor; any positive function will do."""
        tilted = lambda w: stats.logistic.cdf(3 * w - 1) * stats.norm.pdf(w, m, np.sqrt(v))  # noqa: E731
        return integrate.quad(lambda w: w**k * tilted(w), -9, 9, epsabs=1e-13)[0]

    m, v, h = 0.3, 0.8, 1e-4
    d_m = np.log(moment(0, m + h, v) / moment(0, m - h, v)) / (2 * h)
    d_v = np.log(moment(0, m, v + h) / moment(0, m, v - h)) / (2 * h)
    mean, square = (moment(k, m, v) / moment(0, m, v) for k in (1, 2))
    got = match_moments(Gaussian(m, v), d_m, d_v)
    assert got.m == pytest.approx(mean, abs=1e-7)
    assert got.v == pytest.approx(square - mean**2, abs=1e-6)
