"""Logistic regression: the mode, Laplace, and the predictives, each against an outside oracle."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats
from sklearn.linear_model import LogisticRegression

from bayesprop.linear import logistic
from bayesprop.linear.logistic import Gaussian
from bayesprop.numerics.gaussian_logits import Logits, logit_nodes, probit, quadrature
from bayesprop.numerics.rows import Rows


def table(n=60, d=3, c=2, seed=0, sharpness=2.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    score = sharpness * x @ rng.normal(size=(d, c)) + rng.gumbel(size=(n, c))
    return x, score.argmax(axis=1)


def problem(c=2, prior_prec=0.7, **kwargs):
    x, codes = table(c=c, **kwargs)
    data = Rows(x, codes)
    return data, logistic.isotropic_prior(
        np.full(x.shape[1], prior_prec), logistic.n_logits(len(set(data.y)))
    )


@pytest.mark.parametrize("c", [2, 3])
def test_mode_is_that_of_scikit_learn(c):
    data, prior = problem(c)
    mode = logistic.laplace(data, prior)
    assert mode.converged
    theirs = LogisticRegression(C=1 / 0.7, fit_intercept=False, tol=1e-10, max_iter=10_000)
    theirs.fit(data.x, data.y)
    np.testing.assert_allclose(mode.posterior.mean.reshape(-1, 3), theirs.coef_, atol=1e-5)
    assert (np.diff(mode.trace) > -1e-9).all()


@pytest.mark.parametrize("c", [2, 3])
def test_precision_is_the_finite_difference_hessian(c):
    data, prior = problem(c)
    mode = logistic.laplace(data, prior)
    p, step = len(mode.posterior.mean), 1e-4
    hessian = np.zeros((p, p))
    for i, j in product(range(p), repeat=2):
        for a, b in product((-1, 1), repeat=2):
            at = mode.posterior.mean + step * (a * np.eye(p)[i] + b * np.eye(p)[j])
            hessian[i, j] += a * b * logistic.log_joint(data, prior, at) / (4 * step**2)
    np.testing.assert_allclose(mode.posterior.prec, -hessian, atol=1e-5)
    np.testing.assert_allclose(mode.posterior.cov @ -hessian, np.eye(p), atol=1e-4)
    diagonal = logistic.laplace(data, prior, covariance="diagonal").posterior
    np.testing.assert_allclose(diagonal.cov, np.diag(-1 / np.diag(hessian)), atol=1e-5)


def test_laplace_evidence_approaches_the_integral():
    """With many rows the posterior of one weight is Gaussian."""
    data, prior = problem(n=3000, d=1)

    def density(w):
        joint = logistic.log_joint(data, prior, np.array([w]))
        return np.exp(joint - mode.trace[-1]) * np.sqrt(0.7 / (2 * np.pi))

    mode = logistic.laplace(data, prior)
    std = mode.posterior.prec[0, 0] ** -0.5
    mass = integrate.quad(
        density, mode.posterior.mean[0] - 8 * std, mode.posterior.mean[0] + 8 * std
    )[0]
    exact = np.log(mass) + mode.trace[-1]
    assert mode.log_evidence == pytest.approx(exact, abs=2e-3)


def test_prior_may_be_any_gaussian():
    """Two halves in turn, the first posterior as the prior: the optimum of what they add up to."""
    data, prior = problem()
    rng = np.random.default_rng(1)
    root = rng.normal(size=(3, 3))
    prior = Gaussian(rng.normal(size=3), root @ root.T + np.eye(3))
    mode = logistic.laplace(data, prior)
    best = optimize.minimize(lambda w: -logistic.log_joint(data, prior, w), np.zeros(3), tol=1e-8)
    np.testing.assert_allclose(mode.posterior.mean, best.x, atol=1e-4)


@pytest.mark.parametrize("c", [2, 3])
def test_a_search_from_far_out_ends_at_the_mode(c):
    """A whole Newton step from where probabilities are 0 and 1 leads further away."""
    data, prior = problem(c, prior_prec=0.01)
    mode = logistic.laplace(data, prior)
    far = Gaussian(40.0 - mode.posterior.mean, np.eye(len(mode.posterior.mean)))
    reached = logistic.laplace(data, prior, start=far)
    assert reached.converged
    np.testing.assert_allclose(reached.posterior.mean, mode.posterior.mean, atol=1e-5)


def gaussian_logits(c, n, std=1.0):
    rng = np.random.default_rng(0)
    root = std * rng.normal(size=(n, c, c))
    return Logits(2.0 * rng.normal(size=(n, c)), root @ root.transpose(0, 2, 1))


def test_probit_is_near_quadrature():
    m, v = (a.ravel() for a in np.meshgrid(np.linspace(-8, 8, 41), np.geomspace(1e-3, 100, 25)))
    at = Logits(m[:, None], v[:, None, None])
    lecture = stats.norm.cdf(m / np.sqrt(8 / np.pi + v))
    off = np.abs([probit(at).proba[:, 1], lecture] - quadrature(at).proba[:, 1])
    assert off.max() < 0.025
    assert off[0, v < 2e-3].max() < 1e-4


@pytest.mark.parametrize("c", [3, 6])
def test_quadrature_of_several_classes_is_the_average_of_draws(c):
    at, n = gaussian_logits(c, 6), 40_000
    found = quadrature(at)
    rng = np.random.default_rng(7)
    for i in range(len(at.mean)):
        p = special.softmax(rng.multivariate_normal(at.mean[i], at.cov[i], size=n), axis=1)
        se = p.std(axis=0) / np.sqrt(n)
        assert (np.abs(found.proba[i] - p.mean(axis=0)) < 4 * se + 1.5e-2).all()
        entropy = special.entr(p).sum(axis=1)
        assert abs(found.expected_entropy[i] - entropy.mean()) < 2e-2
    common = Logits(at.mean + 5.0, at.cov + 100.0)
    np.testing.assert_allclose(probit(common).proba, probit(at).proba, atol=1e-9)


@pytest.mark.parametrize("c", [2, 3])
def test_monte_carlo_agrees_with_quadrature(c):
    data, prior = problem(c)
    q = logistic.laplace(data, prior).posterior
    n = 4000
    drawn = logistic.monte_carlo(q.sample(np.random.RandomState(0), n), data.x)
    exact = quadrature(logistic.logit_moments(q, data.x))
    assert np.abs(drawn.proba - exact.proba).max() < 4 * 0.5 / np.sqrt(n)
    assert np.abs(drawn.expected_entropy - exact.expected_entropy).max() < 4 * 0.7 / np.sqrt(n)


def test_certain_weights_predict_as_the_mode():
    data, prior = problem(3)
    mode = logistic.laplace(data, prior)
    q = Gaussian(mode.posterior.mean, 1e40 * mode.posterior.prec)
    plain = special.softmax(logistic.logits(mode.posterior.mean, data.x), axis=1)
    for integral in (quadrature, probit):
        found = integral(logistic.logit_moments(q, data.x))
        np.testing.assert_allclose(found.proba, plain, atol=1e-12)
        np.testing.assert_allclose(found.expected_entropy, special.entr(plain).sum(axis=1))


@pytest.mark.parametrize("c", [3, 6])
@pytest.mark.parametrize(
    ("std", "of_nodes", "of_probit"), [(0.3, 5e-4, 0.02), (1, 5e-3, 0.11), (3, 0.015, 0.25)]
)
def test_errors_are_those_that_the_documentation_tells(c, std, of_nodes, of_probit):
    """Forty rows of random logits, against ten thousand pairs of points."""
    at = gaussian_logits(c, 40, std / np.sqrt(c))
    exact = special.softmax(logit_nodes(at, 10_000), axis=-1).mean(axis=1)
    assert np.abs(quadrature(at).proba - exact).max() < of_nodes
    assert np.abs(probit(at).proba - exact).max() < of_probit
