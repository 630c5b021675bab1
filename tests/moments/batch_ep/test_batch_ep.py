"""Batch EP as a whole: order, copies, rows left out, and NUTS on the same posterior."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from bayesprop.moments import batch_ep as ep
from bayesprop.sampling.mcmc import Plan, sample_chains

PRIOR = ep.Prior.of((1.0, 0.5**0.5), 4.0, (-3.0, 0.5**0.5))
RNG = np.random.default_rng(3)
X = RNG.normal(size=(16, 1))
Y = np.tanh(2.0 * X) + 0.2 * RNG.normal(size=X.shape)
ONES = np.ones(16)
GRID = np.linspace(-2.5, 2.5, 11)[:, None]


def fitted(x=X, y=Y, weight=ONES, **settings):
    sizes = (x.shape[1], 3, y.shape[1])
    settings = {"n_epochs": 120, "damping": 0.5, "tol": 1e-9} | settings
    method = ep.BatchEPNetwork(sizes, PRIOR, **settings, n_starts=1, per_input=False)
    sites = ep.init(jax.random.key(0), PRIOR, len(x), *sizes)
    return method.sweep(sites, x, y, weight)


@pytest.fixture(scope="module")
def posterior():
    return fitted()


def assert_alike(q, other, **tolerance):
    for a, b in zip(jax.tree.leaves(q), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


def test_the_order_of_rows_is_irrelevant(posterior):
    order = np.random.default_rng(0).permutation(16)
    assert_alike(posterior[0], fitted(X[order], Y[order])[0], rtol=1e-6, atol=1e-8)


def test_a_weight_is_a_number_of_copies_and_none_is_no_row(posterior):
    weight = np.concatenate([np.full(3, 2.0), np.ones(10), np.zeros(3)])
    copied = np.concatenate([X[:3], X[:13]]), np.concatenate([Y[:3], Y[:13]])
    found, sweeps = fitted(weight=weight)
    assert_alike(found, fitted(*copied)[0], rtol=1e-6, atol=1e-8)
    assert sweeps.skipped.sum() == 0


def test_it_settles_where_every_site_is_matched(posterior):
    _, sweeps = posterior
    assert sweeps.change[-1] < 1e-5
    assert sweeps.skipped.sum() == 0
    assert sweeps.damping.min() == 0.5


def log_p_of_row(q, row):
    """Log predictive density of a training row, nats, by adaptive quadrature over log noise."""
    m, v = (float(part[0, 0]) for part in ep.predict(q, X[row : row + 1]))
    noise = stats.norm(float(q.noise.m[0]), np.sqrt(float(q.noise.v[0])))

    def integrand(theta):
        return stats.norm.pdf(Y[row, 0], m, np.sqrt(v + np.exp(theta))) * noise.pdf(theta)

    return np.log(integrate.quad(integrand, -12, 6)[0])


def test_the_probability_of_a_row_given_the_others_is_that_of_a_fit_without_it(posterior):
    """A cavity is the posterior without a row, but for what the other sites would become then.

    That is of second order in what the row says; a row's own mark on its prediction is of first.
    """
    q, sweeps = posterior
    seen = np.mean([log_p_of_row(q, row) for row in range(16)])
    without = [fitted(weight=ONES - np.eye(16)[row], tol=1e-2)[0] for row in range(16)]
    left_out = np.mean([log_p_of_row(q, row) for row, q in enumerate(without)])
    assert seen - left_out > 0.1
    assert abs(sweeps.log_z[-1] - left_out) < 0.25 * (seen - left_out)


def log_density(position, x, y):
    """The model, written down once more."""
    w, v, phi, theta = position["w"], position["v"], position["phi"], position["theta"]
    a = jnp.concatenate([x, jnp.ones((len(x), 1))], 1) @ w / np.sqrt(2)
    z = jnp.concatenate([jax.scipy.special.erf(a), jnp.ones((len(x), 1))], 1) / np.sqrt(4)
    return (
        jax.scipy.stats.norm.logpdf(y[:, 0], z @ v, jnp.exp(theta / 2)).sum()
        + jax.scipy.stats.norm.logpdf(w, 0, jnp.exp(phi / 2)).sum()
        + jax.scipy.stats.norm.logpdf(v, 0, 2.0).sum()
        + jax.scipy.stats.norm.logpdf(phi, 1.0, np.sqrt(0.5))
        + jax.scipy.stats.norm.logpdf(theta, -3.0, np.sqrt(0.5))
    )


@pytest.mark.exhaustive
def test_predictions_are_near_those_of_long_chains(posterior):
    """What is left is that sites are Gaussian and units independent: bounded, not zero."""
    keys = jax.random.split(jax.random.key(4), 2)
    starts = [
        {
            "w": jax.random.normal(key, (2, 3)),
            "v": jax.random.normal(key, (4,)),
            "phi": jnp.zeros(()),
            "theta": jnp.full((), -2.0),
        }
        for key in keys
    ]
    data = jnp.asarray(X, jnp.float32), jnp.asarray(Y, jnp.float32)
    plan = Plan("nuts", n_warmup=300, n_draws=700)
    drawn = sample_chains(log_density, starts, jax.random.key(1), plan, data=data).pooled()
    x = np.column_stack([GRID, np.ones(len(GRID))]) / np.sqrt(2)
    z = np.asarray(jax.scipy.special.erf(jnp.einsum("nd,sdk->snk", x, drawn["w"])))
    z = np.concatenate([z, np.ones((*z.shape[:2], 1))], axis=2) / 2
    f = np.einsum("snk,sk->sn", z, drawn["v"])
    q = posterior[0]
    m, v = (np.asarray(part)[:, 0] for part in ep.predict(q, GRID))
    within = np.abs(GRID[:, 0]) < 1.6
    assert np.abs(m - f.mean(0))[within].max() < 0.5 * f.std(0)[within].min() + 0.05
    ratio = np.sqrt(v) / f.std(0)
    assert 0.7 < ratio.min() <= ratio.max() < 2.0
    assert abs(float(q.noise.m[0]) - drawn["theta"].mean()) < 0.3


def test_draws_have_the_moments_that_are_predicted(posterior):
    q, n = posterior[0], 20_000
    drawn = ep.sample_functions(np.random.RandomState(0), q, GRID, n)[..., 0]
    m, v = (np.asarray(part)[:, 0] for part in ep.predict(q, GRID))
    np.testing.assert_array_less(np.abs(drawn.mean(0) - m), 4 * np.sqrt(v / n))
    spread = (drawn - m) ** 2
    np.testing.assert_array_less(np.abs(spread.mean(0) - v), 4 * spread.std(0) / np.sqrt(n))
