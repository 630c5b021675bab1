"""Maximum a posteriori against ridge regression, logistic regression, and closed forms."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn.linear_model import LogisticRegression

from bayesprop.networks.likelihoods import Categorical, KnownNoise, LearnedNoise
from bayesprop.networks.mlp import init_weights, plain_apply
from bayesprop.networks.priors import LaplacePrior, NormalPrior
from bayesprop.numerics import loops
from bayesprop.numerics.loops import Batch
from bayesprop.numerics.rows import Rows
from bayesprop.sampling.bayes_by_backprop import bayes_by_backprop
from bayesprop.sampling.graves_vi import graves_vi
from bayesprop.sampling.point_network import point_network

N, D = 60, 3


def regression(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, D))
    y = x @ np.array([[1.0], [-2.0], [0.5]]) + 0.3 + 0.4 * rng.standard_normal((N, 1))
    return x, y


def rows(x, y, weight=None):
    kind = jnp.int32 if np.issubdtype(np.asarray(y).dtype, np.integer) else jnp.float32
    weight = np.ones(len(x)) if weight is None else weight
    return Rows(jnp.asarray(x, jnp.float32), jnp.asarray(y, kind), jnp.asarray(weight, jnp.float32))


def trained(method, data, sizes, n_epochs, batch_size):
    state = method.init(jax.random.key(0), init_weights(jax.random.key(1), sizes))
    for epoch in range(n_epochs):
        key = jax.random.fold_in(jax.random.key(2), epoch)
        state, info = loops.epoch(method.update, state, key, data, batch_size=batch_size)
    return state, info


def test_linear_network_is_ridge_regression():
    """(X'WX / v + decay I)^-1 X'Wy / v, the bias with a prior like all others."""
    x, y = regression()
    weight, noise_var, decay = np.linspace(0.0, 2.0, N), 0.25, 20.0
    prior = NormalPrior(1.0 / decay)
    method = point_network(plain_apply, KnownNoise(1, noise_var), optax.sgd(0.05), prior=prior)
    state, _ = trained(method, rows(x, y, weight), (D, 1), 300, N)
    design = np.column_stack([x, np.ones(N)])
    precision = (design.T * weight) @ design / noise_var + decay * np.eye(D + 1)
    exact = np.linalg.solve(precision, (design.T * weight) @ y / noise_var)
    np.testing.assert_allclose(state.params.weights[0], exact, atol=1e-4)


def test_classes_are_logistic_regression():
    """liblinear shrinks the bias, too; two columns of logits share the penalty of one."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((N, D))
    y = (x[:, 0] - x[:, 1] + rng.logistic(size=N) > 0).astype(int)
    decay = 2.0
    prior = NormalPrior(1.0 / decay)
    method = point_network(plain_apply, Categorical(2), optax.adam(0.03), prior=prior)
    state, _ = trained(method, rows(x, y), (D, 2), 400, N)
    w = np.asarray(state.params.weights[0])
    oracle = LogisticRegression(C=2.0 / decay, solver="liblinear", tol=1e-8).fit(x, y)
    found = w[:, 1] - w[:, 0]
    np.testing.assert_allclose(found, [*oracle.coef_[0], oracle.intercept_[0]], atol=2e-3)


def test_learnt_noise_is_the_residual_variance():
    x, y = regression()
    method = point_network(plain_apply, LearnedNoise(1), optax.adam(0.02))
    state, _ = trained(method, rows(x, y), (D, 1), 600, N)
    design = np.column_stack([x, np.ones(N)])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    assert float(jnp.exp(state.params.likelihood[0])) == pytest.approx(
        np.mean(residual**2), rel=2e-3
    )


@pytest.mark.parametrize(
    "batch_size", [20, 1, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (60, 7))]
)
@pytest.mark.parametrize("prior", [None, NormalPrior(0.5), LaplacePrior(0.3)])
def test_epoch_loss_does_not_depend_on_the_batch_size(prior, batch_size):
    """Without steps, the mean over batches is (-log p(w) - sum log p) / total weight."""
    x, y = regression()
    weight = np.linspace(0.5, 1.5, N)
    method = point_network(plain_apply, KnownNoise(1, 0.7), optax.sgd(0.0), prior=prior)
    state, info = trained(method, rows(x, y, weight), (D, 4, 1), 1, batch_size)
    f = np.asarray(
        jax.vmap(lambda row: plain_apply(state.params.weights, row))(rows(x, y).x), np.float64
    )
    log_p = -0.5 * (np.log(2.0 * np.pi * 0.7) + (y - f) ** 2 / 0.7)[:, 0]
    w, minus_log_prior = np.concatenate([np.ravel(w) for w in state.params.weights]), 0.0
    if isinstance(prior, NormalPrior):
        minus_log_prior = np.sum(0.5 * np.log(2 * np.pi * 0.5) + w**2 / (2 * 0.5))
    elif isinstance(prior, LaplacePrior):
        minus_log_prior = np.sum(np.log(2 * 0.3) + np.abs(w) / 0.3)
    expected = (minus_log_prior - np.sum(weight * log_p)) / weight.sum()
    assert float(info.loss) == pytest.approx(float(expected), rel=2e-5)
    assert float(info.kl) == pytest.approx(float(minus_log_prior), rel=1e-5, abs=1e-6)


def test_adversarial_rows_are_where_a_linear_network_is_worst():
    """Along the sign of the gradient, |error| grows by step times the sum of |w|."""
    x, y = regression()
    step, v = 0.05, 0.25
    method = point_network(plain_apply, KnownNoise(1, v), optax.sgd(0.0), adversarial_step=step)
    weights = init_weights(jax.random.key(1), (D, 1))
    data = rows(x, y)
    batch = Batch(*data[:3], jnp.zeros((), jnp.int32), 1, jnp.float32(N))
    state = method.init(jax.random.key(0), weights)
    _, info = jax.jit(method.update)(jax.random.key(0), state, batch)
    w = np.asarray(weights[0], np.float64)
    error = np.abs(y - x @ w[:-1] - w[-1])[:, 0]
    worst = error + step * np.abs(w[:-1]).sum()
    constant = 0.5 * np.log(2.0 * np.pi * v)
    expected = constant + 0.5 * np.mean(0.5 * error**2 / v + 0.5 * worst**2 / v)
    assert float(info.loss) == pytest.approx(expected, rel=1e-5)
    clean = -constant - np.mean(0.5 * error**2 / v)
    assert float(info.mean_log_likelihood) == pytest.approx(clean, rel=1e-5)


CERTAIN = {"init_std": 1e-7}
BBB = partial(bayes_by_backprop, prior=NormalPrior(1.0), **CERTAIN)
FROZEN = [point_network, partial(graves_vi, **CERTAIN)]
FROZEN += [
    pytest.param(partial(BBB, kl_weights=weights), marks=pytest.mark.exhaustive)
    for weights in ("uniform", "geometric")
]


@pytest.mark.parametrize("make", FROZEN, ids=["point", "graves", "bbb", "bbb-geometric"])
def test_every_row_counts_once_in_the_trace_whatever_the_batches(make):
    """Frozen and certain, the mean log-likelihood is that of the rows, also with a short batch."""
    x, y = regression()
    weight = np.linspace(0.5, 1.5, N)
    frozen = make(plain_apply, KnownNoise(1, 0.25), optimizer=optax.sgd(0.0))
    state = frozen.init(jax.random.key(0), init_weights(jax.random.key(1), (D, 1)))
    residual = y - np.column_stack([x, np.ones(N)]) @ np.asarray(frozen.mean(state).weights[0])
    log_p = -0.5 * (np.log(2.0 * np.pi * 0.25) + residual[:, 0] ** 2 / 0.25)
    data, losses = rows(x, y, weight), []
    for size in (N, N - 1, 7, 1):
        _, info = loops.epoch(frozen.update, state, jax.random.key(2), data, batch_size=size)
        found = float(info.mean_log_likelihood)
        assert found == pytest.approx(np.average(log_p, weights=weight), rel=1e-4)
        losses.append(float(info.loss))
    np.testing.assert_allclose(losses, losses[0], rtol=1e-4)
