"""Natural forms against NumPy's inverses and products of densities."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.natural import Joint, Natural, gaussian, joint, natural_of_joint, site


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
    found = site(match, rest)
    product = gaussian(Natural(found.precision + rest.precision, found.shift + rest.shift))
    np.testing.assert_allclose(product, match, rtol=1e-12)
    limited = site(match, rest, least=0.0)
    product = gaussian(Natural(limited.precision + rest.precision, limited.shift + rest.shift))
    np.testing.assert_allclose(product.m, match.m, rtol=1e-12)
    np.testing.assert_allclose(product.v, [0.7, 0.25], rtol=1e-12)
