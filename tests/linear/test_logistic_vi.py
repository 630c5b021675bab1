"""The variational posterior against brute-force quadrature, scipy, and importance sampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special, stats

from bayesprop.linear import logistic, logistic_vi
from bayesprop.linear.logistic import Gaussian

from .test_logistic import problem


def grid_log_evidence(data, prior, reach=9.0, n=101):
    """Integrate over two weights on a grid; the trapezoidal rule converges exponentially."""
    mode = logistic.laplace(data, prior).posterior
    root = mode.root
    u = np.linspace(-reach, reach, n)
    points = mode.mean + np.stack(np.meshgrid(u, u), axis=-1).reshape(-1, 2) @ root.T
    f = points @ data.x.T
    log_lik = -np.logaddexp(0.0, np.where(data.y == 1, -f, f)) @ data.weights
    log_prior = stats.multivariate_normal(prior.mean, np.linalg.inv(prior.prec)).logpdf(points)
    joint = log_lik + log_prior
    log_cell = 2 * np.log(u[1] - u[0]) + np.linalg.slogdet(root)[1]
    weights = np.exp(joint - special.logsumexp(joint))
    mean = weights @ points
    cov = (points - mean).T @ (weights[:, None] * (points - mean))
    return special.logsumexp(joint) + log_cell, mean, cov


@pytest.mark.parametrize("n", [8, 60])
def test_two_weights_against_the_grid(n):
    data, prior = problem(n=n, d=2)
    exact, mean, cov = grid_log_evidence(data, prior)
    full = logistic_vi.variational(data, prior)
    field = logistic_vi.variational(data, prior, covariance="diagonal")
    assert full.converged
    assert field.converged
    assert field.log_evidence <= full.log_evidence <= exact
    assert exact - full.log_evidence < 0.05
    std = np.sqrt(np.diag(cov))
    assert (np.abs(full.posterior.mean - mean) < 0.15 * std).all()
    np.testing.assert_allclose(np.sqrt(np.diag(full.posterior.cov)), std, rtol=0.1)
    off = field.posterior.cov - np.diag(np.diag(field.posterior.cov))
    np.testing.assert_array_equal(off, 0.0)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("c", [2, 3])
def test_no_other_gaussian_has_a_higher_bound(c, covariance):
    data, prior = problem(c, d=2, n=30)
    found = logistic_vi.variational(data, prior, covariance=covariance, tolerance=1e-8)
    assert found.converged
    sooner = logistic_vi.variational(data, prior, covariance=covariance)
    assert sooner.converged
    assert abs(sooner.log_evidence - found.log_evidence) < 1e-3 * 30
    assert (np.diff(found.trace) > (-1e-6 if c == 2 else -1e-2)).all()
    p = len(found.posterior.mean)
    below = np.tril_indices(p) if covariance == "full" else np.diag_indices(p)

    def loss(theta):
        root = np.zeros((p, p))
        root[below] = theta[p:]
        return -logistic_vi.elbo(data, prior, Gaussian(theta[:p], np.linalg.inv(root @ root.T)))

    start = np.concatenate([found.posterior.mean, np.linalg.cholesky(found.posterior.cov)[below]])
    best = optimize.minimize(loss, start, options={"maxiter": 15})
    assert loss(start) == pytest.approx(-found.log_evidence, abs=1e-9)
    assert -best.fun - found.log_evidence < (1e-6 if c == 2 else 5e-3)


def test_expected_log_likelihood_of_a_row_is_that_of_draws():
    data, prior = problem(3)
    q = logistic.laplace(data, prior).posterior
    n = 4000
    drawn = [logistic.log_likelihood(data, w) for w in q.sample(np.random.RandomState(1), n)]
    ours = logistic_vi.elbo(data, prior, q) + logistic_vi.kl(q, prior)
    assert abs(np.mean(drawn) - ours) < 4 * np.std(drawn) / np.sqrt(n) + 0.02
