"""Precisions of the prior that the evidence prefers: against scipy, quadrature and brute force."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import optimize

from bayesprop.linear import logistic
from bayesprop.linear.logistic_vi import variational
from bayesprop.numerics.rows import Rows

from .test_logistic_vi import grid_log_evidence

SHARED = np.array([-1, 0, 0])


def n_logits(data):
    return logistic.n_logits(len(set(data.y)))


def table(n=60, d=2, c=2, slope=2.0, seed=0):
    """Columns, the first a constant; only the second says anything about the class."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    codes = np.digitize(slope * x[:, 0] + rng.logistic(size=n), np.linspace(-1, 1, c + 1)[1:-1])
    return Rows(np.hstack([np.ones((n, 1)), x]), codes)


def bound(data, prec, **settings):
    prior = logistic.isotropic_prior(np.asarray(prec, float), n_logits(data))
    return variational(data, prior, **settings).log_evidence


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("c", [2, 3])
def test_no_other_precision_has_a_higher_bound(c, covariance):
    data = table(c=c)
    how = {"covariance": covariance, "tolerance": 1e-8}
    approximate, fixed = partial(variational, **how), np.full(3, 0.01)
    found = logistic.maximise(data, fixed, SHARED, approximate, n_logits(data), tolerance=1e-5)
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
    data = table(n=200)
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
        data, np.ones(2), np.array([0, 0]), approximate, n_logits(data), is_bound=is_bound
    )
    assert np.log(found.prior_prec[0]) == pytest.approx(best.x, abs=apart)
    assert loss(np.log(found.prior_prec[0])) < best.fun + 0.01


def test_idle_columns_lose_their_weight():
    data = table(n=300, d=4)
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
            data, fixed, groups, approximate, n_logits(data), is_bound=is_bound
        )
        assert found.converged
        least, chosen = logistic.LEAST, found.prior_prec[1]
        assert least <= chosen < 2.0 * least if is_widest else chosen > 3.0
        assert found.n_widest == (chosen == least)


@pytest.mark.parametrize("c", [2, 3])
@pytest.mark.parametrize("approximate", [variational, logistic.laplace])
def test_where_a_search_starts_does_not_matter(approximate, c):
    data = table(c=c)
    one, other = (logistic.isotropic_prior(np.array([0.01, a, a]), n_logits(data)) for a in (1, 9))
    settings = {"tolerance": 1e-10} if approximate is variational else {}
    cold = approximate(data, one, **settings)
    warm = approximate(data, one, start=approximate(data, other).posterior, **settings)
    assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-5)
    np.testing.assert_allclose(warm.posterior.mean, cold.posterior.mean, atol=1e-5)
