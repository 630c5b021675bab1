"""Expectations of the logistic function against scipy's adaptive quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

from bayesprop.numerics.gaussian_logits import gaussian_nodes, logistic_entropy, logistic_moments


def brute(f, m, v):
    def density(z):
        return f(m + np.sqrt(v) * z) * stats.norm.pdf(z)

    kink = np.clip(-m / np.sqrt(v), -12, 12)
    return sum(
        integrate.quad(density, a, b, epsabs=1e-11, epsrel=1e-11, limit=400)[0]
        for a, b in ((-14, kink), (kink, 14))
    )


@pytest.mark.parametrize("v", [1e-8, 0.999, 1.001, 9.0, 1e4])
def test_moments_and_entropy(v):
    m = np.array([-30.0, 0.7, 12.0])
    found = logistic_moments(m, np.full(3, v))
    entropy = logistic_entropy(m, np.full(3, v), found)
    oracles = (
        (found.softplus, lambda a: np.logaddexp(0.0, a)),
        (found.proba, special.expit),
        (found.slope, lambda a: special.expit(a) * special.expit(-a)),
        (entropy, lambda a: special.entr(special.expit(a)) + special.entr(special.expit(-a))),
    )
    for values, f in oracles:
        np.testing.assert_allclose(values, [brute(f, one, v) for one in m], rtol=1e-8, atol=2e-9)


def test_certain_logits_are_the_function_itself():
    m = np.array([-800.0, 0.0, 800.0])
    found = logistic_moments(m, np.zeros(3))
    np.testing.assert_allclose(found.proba, [0, 0.5, 1], atol=1e-15)
    np.testing.assert_allclose(found.softplus, [0, np.log(2), 800])
    assert (logistic_entropy(m, np.zeros(3), found) >= 0).all()


@pytest.mark.parametrize("d", [1, 3, 10, 40])
def test_nodes_integrate_cubics_exactly(d):
    z = gaussian_nodes(d, 64)
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(d), atol=1e-12)
    np.testing.assert_allclose(np.mean(z[:, 0] ** 2 * z[:, -1]), 0.0, atol=1e-12)


def test_nodes_are_nearly_gaussian():
    z = gaussian_nodes(2, 256)
    estimate = np.mean(np.exp(0.7 * z[:, 0] - 0.4 * z[:, 1]))
    assert estimate == pytest.approx(np.exp(0.5 * (0.49 + 0.16)), rel=5e-3)
