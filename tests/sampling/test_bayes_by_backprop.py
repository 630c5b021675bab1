"""Bayes by Backprop against exact posteriors, quadrature, and the paper's equations by hand."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import integrate, special, stats

from bayesprop.networks.gradient_method import Parameters
from bayesprop.networks.likelihoods import Categorical, KnownNoise
from bayesprop.networks.mlp import init_weights, plain_apply
from bayesprop.networks.priors import (
    ClosedPrior,
    LaplacePrior,
    NormalPrior,
    ScaleMixturePrior,
    log_prior,
)
from bayesprop.numerics.loops import Batch
from bayesprop.sampling import bayes_by_backprop as bbb
from bayesprop.sampling import mean_field
from bayesprop.sampling.bayes_by_backprop import bayes_by_backprop
from bayesprop.sampling.mean_field import MeanField, draw_noise, weights_at

MIXTURE = ScaleMixturePrior(0.25, 0.6, 0.02)


def linear_apply(weights, x):
    return weights @ x


def whole(x, y, weight=None):
    """One batch that is the whole data set."""
    n = len(x)
    weight = jnp.ones(n) if weight is None else weight
    return Batch(x, y, weight, jnp.asarray(0), 1, jnp.sum(weight))


@pytest.fixture(scope="module")
def linear():
    """Orthogonal inputs, so that the exact posterior is diagonal, and everything about it."""
    rng = np.random.default_rng(0)
    x = np.linalg.qr(rng.normal(size=(12, 3)))[0] * np.sqrt(12) * np.array([1.0, 0.5, 2.0])
    noise_var, weight_var = 0.3, 0.8
    y = x @ np.array([0.5, -1.0, 0.2]) + rng.normal(size=12) * np.sqrt(noise_var)
    v = 1.0 / (np.sum(x**2, axis=0) / noise_var + 1.0 / weight_var)
    m = v * (x.T @ y) / noise_var
    cov = noise_var * np.eye(12) + weight_var * x @ x.T
    log_evidence = stats.multivariate_normal.logpdf(y, np.zeros(12), cov)
    batch = whole(jnp.asarray(x, jnp.float32), jnp.asarray(y[:, None], jnp.float32))
    rho = np.log(np.expm1(np.sqrt(v)))
    q = MeanField(*(jnp.asarray(part[None], jnp.float32) for part in (m, rho)))
    known = {"noise_var": noise_var, "weight_var": weight_var}
    return {"batch": batch, "q": q, "log_evidence": log_evidence} | known


def linear_free_energy(linear, q, key, kl):
    noise = draw_noise(key, q.m)
    likelihood = KnownNoise(1, linear["noise_var"])
    outputs = jax.vmap(partial(linear_apply, weights_at(q, noise)))(linear["batch"].x)
    return bbb.free_energy(
        NormalPrior(linear["weight_var"]), likelihood, Parameters(q, ()), noise, outputs,
        linear["batch"], kl=kl, share=1.0,
    )  # fmt: skip


def test_free_energy_at_the_exact_posterior_is_minus_the_log_evidence(linear):
    keys = jax.random.split(jax.random.key(0), 2000)
    sampled = jax.vmap(lambda key: linear_free_energy(linear, linear["q"], key, "sampled").value)
    closed = jax.vmap(lambda key: linear_free_energy(linear, linear["q"], key, "closed").value)
    # With q exact, log q - log p(y, w) is minus the log evidence at every draw.
    np.testing.assert_allclose(sampled(keys), -linear["log_evidence"], rtol=1e-4)
    values = np.asarray(closed(keys), np.float64)
    se = values.std() / np.sqrt(len(values))
    assert abs(values.mean() + linear["log_evidence"]) < 4.0 * se


@pytest.mark.parametrize("kl", ["closed", "sampled"])
@pytest.mark.parametrize("n_samples", [1, 4])
def test_gradient_is_unbiased(linear, kl, n_samples):
    """With sgd of step 1 an update shows the gradient; the exact one follows by hand.

    A mixture of twice the same Gaussian is that Gaussian, without a closed KL.
    """
    q = MeanField(linear["q"].m + 0.3, linear["q"].rho + 0.7)
    likelihood = KnownNoise(1, linear["noise_var"])
    prior, std = NormalPrior(linear["weight_var"]), np.sqrt(linear["weight_var"])
    if kl == "sampled":
        prior = ScaleMixturePrior(0.5, std, std)
    method = bayes_by_backprop(linear_apply, likelihood, prior, optax.sgd(1.0), n_samples=n_samples)
    start = method.init(jax.random.key(0), q.m)._replace(params=Parameters(q, ()))
    keys = jax.random.split(jax.random.key(5), 4000)
    after = jax.jit(
        jax.vmap(lambda key: method.update(key, start, linear["batch"])[0].params.weights)
    )(keys)
    x, y = (np.asarray(a, np.float64) for a in (linear["batch"].x, linear["batch"].y[:, 0]))
    m, rho = (np.asarray(a, np.float64)[0] for a in q)
    std, slope = np.log1p(np.exp(rho)), special.expit(rho)
    of_m = x.T @ (x @ m - y) / linear["noise_var"] + m / linear["weight_var"]
    curvature = np.sum(x**2, axis=0) / linear["noise_var"] + 1.0 / linear["weight_var"]
    exact = {"m": of_m, "rho": (std * curvature - 1.0 / std) * slope}
    for name, truth in exact.items():
        before, moved = (np.asarray(getattr(p, name), np.float64) for p in (q, after))
        found = (before - moved)[:, 0] * len(x)
        se = found.std(axis=0) / np.sqrt(len(keys))
        assert (np.abs(found.mean(axis=0) - truth) < 4.5 * se + 1e-3 * np.abs(truth)).all(), name


def test_gradient_equals_equations_3_and_4():
    """Of the mixture prior, at one draw: numpy, with the slope of the mixture by its densities."""
    key = jax.random.key(1)
    q = mean_field.from_weights(init_weights(key, (3, 5, 2)), std=0.05)
    x = jax.random.normal(jax.random.key(2), (7, 3))
    y = jnp.arange(7) % 2
    noise, likelihood, share = draw_noise(jax.random.key(3), q.m), Categorical(2), 0.3

    def cost(q):
        outputs = jax.vmap(partial(plain_apply, weights_at(q, noise)))(x)
        return bbb.free_energy(
            MIXTURE, likelihood, Parameters(q, ()), noise, outputs, whole(x, y), kl="sampled",
            share=share,
        ).value  # fmt: skip

    found = jax.jit(jax.grad(cost))(q)
    w = weights_at(q, noise)

    def log_likelihood(w):
        return jnp.sum(jax.nn.log_softmax(jax.vmap(partial(plain_apply, w))(x))[jnp.arange(7), y])

    slope_of_data = jax.jit(jax.grad(log_likelihood))(w)
    for layer in range(2):
        w_l, e, rho = (np.asarray(t[layer], np.float64) for t in (w, noise, q.rho))
        std = np.log1p(np.exp(rho))
        wide, narrow = stats.norm.pdf(w_l, 0.0, 0.6), stats.norm.pdf(w_l, 0.0, 0.02)
        both = 0.25 * wide + 0.75 * narrow
        slope = (-w_l / 0.36 * 0.25 * wide - w_l / 4e-4 * 0.75 * narrow) / both
        df_dw = -share * (e / std + slope) - np.asarray(slope_of_data[layer], np.float64)
        df_dm = share * e / std
        df_drho = share * (e**2 - 1.0) / std * special.expit(rho)
        np.testing.assert_allclose(found.m[layer], df_dw + df_dm, rtol=2e-3, atol=2e-4)
        np.testing.assert_allclose(
            found.rho[layer], df_dw * e * special.expit(rho) + df_drho, rtol=2e-3, atol=2e-4
        )


def mixture_density(w):
    return 0.25 * stats.norm.pdf(w, 0, 0.6) + 0.75 * stats.norm.pdf(w, 0, 0.02)


@pytest.mark.parametrize(
    ("prior", "density"),
    [
        (NormalPrior(0.4), stats.norm(0.0, np.sqrt(0.4)).pdf),
        (LaplacePrior(0.3), stats.laplace(0.0, 0.3).pdf),
        (MIXTURE, mixture_density),
    ],
    ids=["normal", "laplace", "mixture"],
)
def test_sampled_kl_averages_to_the_kl_by_quadrature(prior, density):
    m, std = 0.15, 0.08
    q = MeanField(jnp.full(1, m), jnp.full(1, mean_field.rho_of(std)))

    def integrand(w):
        return stats.norm.pdf(w, m, std) * (stats.norm.logpdf(w, m, std) - np.log(density(w)))

    exact = integrate.quad(integrand, m - 9 * std, m + 9 * std, points=[0.0, m], limit=400)[0]
    batch = whole(jnp.zeros((1, 1)), jnp.zeros((1, 1)), jnp.zeros(1))

    def one(key, kl):
        noise = draw_noise(key, q.m)
        likelihood = KnownNoise(1)
        return bbb.free_energy(
            prior, likelihood, Parameters(q, ()), noise, jnp.zeros((1, 1)), batch, kl=kl, share=0.5
        ).value

    keys = jax.random.split(jax.random.key(0), 40_000)
    values = np.asarray(jax.jit(jax.vmap(partial(one, kl="sampled")))(keys), np.float64)
    se = values.std() / np.sqrt(len(values))
    assert abs(values.mean() - 0.5 * exact) < 4.0 * se
    if isinstance(prior, ClosedPrior):
        assert float(one(keys[0], "closed")) == pytest.approx(0.5 * exact, rel=1e-4)


def test_a_prior_of_each_layer_is_that_of_its_weights():
    """KL and log density weight by weight, by quadrature and by SciPy's normal density."""
    rng, stds = np.random.default_rng(4), (0.3, 2.0)
    shapes = (3, 2), (3, 1)
    m = tuple(rng.standard_normal(shape) for shape in shapes)
    std = tuple(rng.uniform(0.2, 0.9, shape) for shape in shapes)
    kl, log_p = 0.0, 0.0
    for of_layer, spreads, prior_std in zip(m, std, stds, strict=True):
        p = stats.norm(0.0, prior_std)
        log_p += p.logpdf(of_layer).sum()
        for mean, spread in zip(of_layer.ravel(), spreads.ravel(), strict=True):
            q = stats.norm(mean, spread)
            reach = mean - 12 * spread, mean + 12 * spread
            kl += integrate.quad(lambda w: q.pdf(w) * (q.logpdf(w) - p.logpdf(w)), *reach)[0]  # noqa: B023
    prior = NormalPrior(tuple(s**2 for s in stds))
    q = MeanField(m, tuple(np.log(np.expm1(s)) for s in std))
    q = jax.tree.map(lambda part: jnp.asarray(part, jnp.float32), q)
    assert float(mean_field.kl(prior, q)) == pytest.approx(kl, rel=1e-5)
    assert float(log_prior(prior, q.m)) == pytest.approx(log_p, rel=1e-5)


@pytest.mark.parametrize("n_batches", [1, 2, 10, 391, 1000])
@pytest.mark.parametrize("weights", ["uniform", "geometric"])
def test_shares_of_the_kl_sum_to_one(weights, n_batches):
    shares = jax.vmap(lambda place: bbb.kl_share(weights, place, n_batches))(jnp.arange(n_batches))
    assert shares.dtype == jnp.float32
    assert np.isfinite(shares).all()
    assert float(np.sum(np.asarray(shares, np.float64))) == pytest.approx(1.0, rel=1e-6)
    if weights == "geometric":
        first = range(1, min(n_batches, 60) + 1)
        exact = [2 ** (n_batches - i) / (2**n_batches - 1) for i in first]
        np.testing.assert_allclose(shares[: len(exact)], exact, rtol=1e-5)


@pytest.fixture(
    scope="module",
    params=[NormalPrior(1.0), ScaleMixturePrior(0.4, 1.0, 0.2)],
    ids=["normal", "mixture"],
)
def both(request):
    x = jax.random.normal(jax.random.key(0), (16, 3))
    batch = whole(x, jnp.sin(x[:, :1]))
    start = init_weights(jax.random.key(2), (3, 6, 1))

    def steps(local):
        method = bayes_by_backprop(
            plain_apply, KnownNoise(1, 0.3), request.param, optax.sgd(1.0), init_std=0.3,
            local_reparameterisation=local,
        )  # fmt: skip
        state = method.init(jax.random.key(1), start)

        def one(key):
            after, info = method.update(key, state, batch)
            return jax.tree.map(
                jnp.subtract, state.params.weights, after.params.weights
            ), info.mean_log_likelihood

        keys = jax.random.split(jax.random.key(7), 4000)
        return jax.jit(jax.vmap(one))(keys)

    return {local: steps(local) for local in (False, True)}


class TestLocalReparameterisation:
    def test_expected_loss_and_gradient_of_two_layers_are_the_same(self, both):
        (slopes, log_lik), (slopes_local, log_lik_local) = both[False], both[True]
        pairs = [(log_lik, log_lik_local)]
        for a, b in zip(jax.tree.leaves(slopes), jax.tree.leaves(slopes_local), strict=True):
            pairs += [(a.reshape(len(a), -1)[:, i], b.reshape(len(b), -1)[:, i]) for i in (0, 3)]
        for a, b in pairs:
            a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
            se = np.hypot(a.std(), b.std()) / np.sqrt(len(a))
            assert abs(a.mean() - b.mean()) < 4.5 * se + 1e-6

    def test_gradient_has_less_variance(self, both):
        shared, local = (
            sum(np.var(np.asarray(leaf, float), axis=0).sum() for leaf in jax.tree.leaves(slopes))
            for slopes, _ in (both[False], both[True])
        )
        assert local < 0.6 * shared

    def test_other_networks_are_refused(self):
        with pytest.raises(ValueError, match="local_reparameterisation must be False for apply"):
            bayes_by_backprop(
                linear_apply, KnownNoise(1), NormalPrior(), optax.sgd(1.0),
                local_reparameterisation=True,
            )  # fmt: skip

    def test_activation_is_that_of_apply(self):
        method = bayes_by_backprop(
            partial(plain_apply, activation_name="identity"), KnownNoise(1), NormalPrior(),
            optax.sgd(0.0), local_reparameterisation=True, init_std=1e-6,
        )  # fmt: skip
        w = init_weights(jax.random.key(0), (2, 3, 1))
        x, y = jnp.array([[1.0, -2.0]]), jnp.array([[0.5]])
        state = method.init(jax.random.key(2), w)
        info = jax.jit(method.update)(jax.random.key(1), state, whole(x, y))[1]
        inner = np.append(x[0], 1.0) @ np.asarray(w[0])
        f = (np.append(inner, 1.0) @ np.asarray(w[1]))[0]
        expected = stats.norm.logpdf(0.5, f, 1.0)
        assert float(info.mean_log_likelihood) == pytest.approx(expected, abs=1e-3)
