"""Logistic regression: mode, Laplace, variational posterior, predictives, the prior's precision."""

from __future__ import annotations

import tracemalloc
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats
from sklearn.linear_model import LogisticRegression

from bayesprop.linear import logistic, logistic_vi
from bayesprop.linear.logistic import Gaussian
from bayesprop.linear.logistic_vi import variational
from bayesprop.numerics.gaussian_logits import Logits, logit_nodes, probit, probit_cdf, quadrature
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


def test_the_lectures_probit_is_the_average_of_the_normal_cdf():
    """E[Phi(sqrt(pi / 8) a)] for a ~ N(m, v), by Gauss-Hermite points."""
    m, v = (a.ravel() for a in np.meshgrid(np.linspace(-6, 6, 13), [0.0, 0.1, 1.0, 4.0]))
    z, weight = np.polynomial.hermite_e.hermegauss(120)
    a = m[:, None] + np.sqrt(v)[:, None] * z
    expected = stats.norm.cdf(np.sqrt(np.pi / 8) * a) @ weight / weight.sum()
    found = probit_cdf(Logits(m[:, None], v[:, None, None])).proba
    np.testing.assert_allclose(found[:, 1], expected, atol=1e-8)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


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
    full = variational(data, prior)
    field = variational(data, prior, covariance="diagonal")
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
    found = variational(data, prior, covariance=covariance, tolerance=1e-8)
    assert found.converged
    sooner = variational(data, prior, covariance=covariance)
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


SHARED = np.array([-1, 0, 0])


def n_logits_of(data):
    return logistic.n_logits(len(set(data.y)))


def ordered_table(n=60, d=2, c=2, slope=2.0, seed=0):
    """Columns, the first a constant; only the second says anything about the class."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    codes = np.digitize(slope * x[:, 0] + rng.logistic(size=n), np.linspace(-1, 1, c + 1)[1:-1])
    return Rows(np.hstack([np.ones((n, 1)), x]), codes)


def bound(data, prec, **settings):
    prior = logistic.isotropic_prior(np.asarray(prec, float), n_logits_of(data))
    return variational(data, prior, **settings).log_evidence


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("c", [2, 3])
def test_no_other_precision_has_a_higher_bound(c, covariance):
    data = ordered_table(c=c)
    how = {"covariance": covariance, "tolerance": 1e-8}
    approximate, fixed = partial(variational, **how), np.full(3, 0.01)
    found = logistic.maximise(data, fixed, SHARED, approximate, n_logits_of(data), tolerance=1e-5)
    assert found.converged
    assert found.prior_prec[0] == 0.01
    assert (np.diff(found.ascent.trace) > -1e-5).all()

    def loss(log_prec):
        return -bound(data, [0.01, *[np.exp(log_prec)] * 2], **how)

    best = optimize.minimize_scalar(loss, bounds=(-4, 4), method="bounded", options={"xatol": 1e-4})
    assert found.fitted.log_evidence == pytest.approx(-best.fun, abs=1e-4)
    assert np.log(found.prior_prec[1]) == pytest.approx(best.x, abs=0.02)
    assert found.prior_prec[1] == found.prior_prec[2]


@pytest.fixture(scope="module")
def by_quadrature():
    data = ordered_table(n=200)
    data = data._replace(x=data.x[:, 1:])

    def loss(log_prec):
        prior = logistic.isotropic_prior(np.full(2, np.exp(log_prec)), 1)
        return -grid_log_evidence(data, prior)[0]

    return data, loss, optimize.minimize_scalar(loss, bounds=(-5, 5))


@pytest.mark.parametrize(("approximate", "apart"), [(variational, 0.1), (logistic.laplace, 0.2)])
def test_is_near_the_maximum_of_the_evidence_by_quadrature(by_quadrature, approximate, apart):
    data, loss, best = by_quadrature
    is_bound = approximate is variational
    found = logistic.maximise(
        data, np.ones(2), np.array([0, 0]), approximate, n_logits_of(data), is_bound=is_bound
    )
    assert np.log(found.prior_prec[0]) == pytest.approx(best.x, abs=apart)
    assert loss(np.log(found.prior_prec[0])) < best.fun + 0.01


def test_idle_columns_lose_their_weight():
    data = ordered_table(n=300, d=4)
    found = logistic.maximise(data, np.full(5, 0.01), np.arange(-1, 4), variational, 1)
    assert found.converged
    assert found.prior_prec[2:].min() > 10 * found.prior_prec[1]
    mean = found.fitted.posterior.mean
    assert np.abs(mean[2:]).max() < 0.2 * np.abs(mean[1])
    together = logistic.maximise(data, np.full(5, 0.01), np.r_[-1, 0, 0, 0, 0], variational, 1)
    assert found.ascent.trace[-1] > together.ascent.trace[-1]


@pytest.mark.parametrize("approximate", [variational, logistic.laplace])
def test_separable_classes_have_the_widest_prior_and_noise_a_narrow_one(approximate):
    x = np.linspace(-2.0, 2.0, 30)
    phi = np.column_stack([np.ones(30), x])
    is_bound = approximate is variational
    for codes, is_widest in (((x > 0.9).astype(int), True), (np.arange(30) % 2, False)):
        data = Rows(phi, codes)
        fixed, groups = np.full(2, 0.01), np.array([-1, 0])
        found = logistic.maximise(
            data, fixed, groups, approximate, n_logits_of(data), is_bound=is_bound
        )
        assert found.converged
        least, chosen = logistic.LEAST, found.prior_prec[1]
        assert least <= chosen < 2.0 * least if is_widest else chosen > 3.0
        assert found.n_widest == (chosen == least)


@pytest.mark.parametrize("c", [2, 3])
@pytest.mark.parametrize("approximate", [variational, logistic.laplace])
def test_where_a_search_starts_does_not_matter(approximate, c):
    data = ordered_table(c=c)
    k = n_logits_of(data)
    one, other = (logistic.isotropic_prior(np.array([0.01, a, a]), k) for a in (1, 9))
    settings = {"tolerance": 1e-10} if approximate is variational else {}
    cold = approximate(data, one, **settings)
    warm = approximate(data, one, start=approximate(data, other).posterior, **settings)
    assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-5)
    np.testing.assert_allclose(warm.posterior.mean, cold.posterior.mean, atol=1e-5)


def test_memory_does_not_grow_with_rows_times_classes_squared():
    n, c, k = 6000, 150, 2
    x, codes = table(n=n, d=k, c=c)
    data, prior = Rows(x, codes), logistic.isotropic_prior(np.ones(k), c)
    tracemalloc.start()
    logistic.laplace(data, prior, max_steps=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * c**2 / 4


def test_rows_in_parts_have_the_bound_of_the_whole(monkeypatch):
    data, prior = problem(c=3)
    whole = variational(data, prior, max_steps=5)
    monkeypatch.setattr(
        logistic_vi, "chunks", lambda n, _: [slice(i, i + 7) for i in range(0, n, 7)]
    )
    parts = variational(data, prior, max_steps=5)
    np.testing.assert_allclose(parts.trace, whole.trace, rtol=1e-12)
    np.testing.assert_allclose(parts.posterior.prec, whole.posterior.prec, rtol=1e-9)
