"""Priors: KL against quadrature, densities against scipy; at settings that are no defaults."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from bayesprop.networks.priors import (
    LaplacePrior,
    NormalPrior,
    ScaleMixturePrior,
)
from bayesprop.numerics.gaussian import Gaussian

PRIORS = [
    (NormalPrior(0.49), stats.norm(0.0, 0.7)),
    (NormalPrior(9.0), stats.norm(0.0, 3.0)),
    (LaplacePrior(0.3), stats.laplace(0.0, 0.3)),
    (LaplacePrior(2.5), stats.laplace(0.0, 2.5)),
]


@pytest.mark.parametrize(("prior", "true"), PRIORS)
@pytest.mark.parametrize(("m", "std"), [(0.0, 0.1), (0.8, 0.5), (-2.0, 0.05), (0.01, 3.0)])
def test_kl_against_quadrature(prior, true, m, std):
    q = stats.norm(m, std)

    def integrand(w):
        return q.pdf(w) * (q.logpdf(w) - true.logpdf(w))

    reach = (m - 12.0 * std, m + 12.0 * std)
    points = [point for point in (0.0, m) if reach[0] < point < reach[1]]
    exact = integrate.quad(integrand, *reach, points=points, epsabs=1e-10)[0]
    q = Gaussian(jnp.asarray([m]), jnp.asarray([std**2]))
    for log_v in (None, jnp.log(q.v)):
        assert float(prior.kl(q, log_v)) == pytest.approx(exact, rel=2e-5, abs=2e-6)


@pytest.mark.parametrize(("prior", "true"), PRIORS)
def test_density(prior, true):
    w = np.linspace(-4.0, 4.0, 9)
    np.testing.assert_allclose(prior.log_prob(jnp.asarray(w)), true.logpdf(w), rtol=2e-6)


def test_scale_mixture_against_its_definition():
    prior = ScaleMixturePrior(share=0.75, wide_std=0.4, narrow_std=0.01)
    w = np.array([0.0, 0.005, 0.03, 0.5, 3.0])
    density = 0.75 * stats.norm(0, 0.4).pdf(w) + 0.25 * stats.norm(0, 0.01).pdf(w)
    np.testing.assert_allclose(prior.log_prob(jnp.asarray(w)), np.log(density), rtol=1e-5)
    assert np.isfinite(prior.log_prob(jnp.asarray([50.0]))).all()
    log_prob = jax.jit(prior.log_prob)
    mass = integrate.quad(lambda x: np.exp(log_prob(x)), -3, 3, points=[0.0], limit=200)[0]
    assert mass == pytest.approx(1.0, abs=1e-5)
