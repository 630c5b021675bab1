"""Graves' variational inference against finite differences, sums row by row, and a known answer."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import optimize

from bayesprop.networks.gradient_method import Parameters
from bayesprop.networks.likelihoods import Categorical, KnownNoise
from bayesprop.networks.mlp import init_weights, plain_apply
from bayesprop.numerics.loops import Batch
from bayesprop.sampling import graves_vi
from bayesprop.sampling.mean_field import MeanField, draw_noise


@pytest.fixture(scope="module")
def q():
    m = init_weights(jax.random.key(0), (3, 4, 2))
    rho = jax.tree.map(lambda w: -2.0 + 0.5 * jnp.sin(jnp.arange(w.size)).reshape(w.shape), m)
    return MeanField(m, rho)


@pytest.mark.parametrize("by_layer", [False, True])
def test_prior_minimises_the_kl_to_it(q, by_layer):
    """Against SciPy's minimum of the KL as the textbook has it, over mean and log variance."""
    best = graves_vi.optimal_prior(q, by_layer=by_layer)
    m, rho = ([np.ravel(w).astype(float) for w in part] for part in q)
    v = [np.log1p(np.exp(one)) ** 2 for one in rho]
    if not by_layer:
        m, v = ([np.concatenate(part)] * 2 for part in (m, v))
    least = 0.0
    for layer, (mean, var) in enumerate(zip(m, v, strict=True)):

        def kl(at, mean=mean, var=var):
            s2 = np.exp(at[1])
            return np.sum(np.log(s2 / var) + (var + (mean - at[0]) ** 2) / s2 - 1.0) / 2.0

        found = optimize.minimize(kl, np.zeros(2), options={"gtol": 1e-9}, tol=1e-12)
        assert float(best.m[layer]) == pytest.approx(found.x[0], abs=1e-5)
        assert float(best.v[layer]) == pytest.approx(np.exp(found.x[1]), rel=1e-4)
        least += found.fun if by_layer else 0.5 * found.fun
    assert float(graves_vi.kl_to_prior(q, best)) == pytest.approx(least, rel=1e-5)


def test_slopes_are_summed_row_by_row(q):
    x = jax.random.normal(jax.random.key(1), (6, 3))
    y = jnp.array([0, 1, 1, 0, 1, 0])
    weight = jnp.array([1.0, 2.0, 0.0, 1.0, 0.5, 1.0])
    batch = Batch(x, y, weight, jnp.asarray(0), 1, jnp.sum(weight))
    slopes = jax.jit(partial(graves_vi.row_slopes, plain_apply, Categorical(2)))
    found = slopes(q.m, (), batch)

    @jax.jit
    def log_p(w, row):
        return jax.nn.log_softmax(plain_apply(w, x[row]))[y[row]]

    slope = jax.jit(jax.grad(log_p))
    rows = [slope(q.m, row) for row in range(6)]
    for layer in range(2):
        by_row = np.stack([np.asarray(row[layer], np.float64) for row in rows])
        w = np.asarray(weight, np.float64)[:, None, None]
        np.testing.assert_allclose(found.of_weights[layer], (w * by_row).sum(0), atol=1e-5)
        np.testing.assert_allclose(found.squared[layer], (w * by_row**2).sum(0), atol=1e-5)
    total = sum(float(weight[row] * log_p(q.m, row)) for row in range(6))
    assert float(found.total) == pytest.approx(total, rel=1e-5)


PRIORS = {
    "network": lambda q: [(m.mean(), v.mean() + m.var()) for m, v in [_flat(q, (0, 1))] * 2],
    "layer": lambda q: [(m.mean(), v.mean() + m.var()) for m, v in (_flat(q, [k]) for k in (0, 1))],
    (0.2, 3.0): lambda _: [(0.0, 0.2), (0.0, 3.0)],
    0.7: lambda _: [(0.0, 0.7)] * 2,
}


def _flat(q, layers):
    m, rho = (np.concatenate([np.ravel(part[k]) for k in layers]).astype(float) for part in q)
    return m, np.log1p(np.exp(rho)) ** 2


@pytest.mark.parametrize("prior_var", PRIORS)
def test_update_is_the_published_one(q, prior_var):
    """With sgd of step 1, in numpy: the mean by the gradient, the variance by its square."""
    x, y = jnp.array([[0.5, -1.0, 2.0]]), jnp.array([[0.3, -0.2]])
    batch = Batch(x, y, jnp.ones(1), jnp.asarray(0), 4, jnp.asarray(4.0))
    how = KnownNoise(2, 0.5), optax.sgd(1.0)
    method = graves_vi.graves_vi(plain_apply, *how, prior_var=prior_var)
    start = method.init(jax.random.key(0), q.m)._replace(params=Parameters(q, ()))
    key = jax.random.key(9)
    moved, _ = jax.jit(method.update)(key, start, batch)
    after = moved.params.weights
    noise, stds = draw_noise(key, q.m), q.std
    w = jax.tree.map(lambda m, std, e: m + std * e, q.m, stds, noise)

    def cost(w):
        return jnp.sum((plain_apply(w, x[0]) - y[0]) ** 2) / (2.0 * 0.5)

    slope = jax.jit(jax.grad(cost))(w)
    for layer, (mu, s2) in enumerate(PRIORS[prior_var](q)):
        m, rho, std, g = (np.asarray(t[layer], np.float64) for t in (q.m, q.rho, stds, slope))
        to_m = g + 0.25 * (m - mu) / s2
        to_v = 0.5 * g**2 + 0.25 * 0.5 * (1.0 / s2 - 1.0 / std**2)
        dv_drho = 2.0 * std / (1.0 + np.exp(-rho))
        np.testing.assert_allclose(q.m[layer] - after.m[layer], to_m, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(
            q.rho[layer] - after.rho[layer], to_v * dv_drho, rtol=1e-3, atol=1e-5
        )
