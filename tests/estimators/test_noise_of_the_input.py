"""Networks that learn how noise depends on the input, from rows of which a few lie far out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from bayesprop.catalogue import make
from bayesprop.networks import gradient_method
from bayesprop.networks.gradient_method import clipped
from bayesprop.networks.likelihoods import InputNoise, LearnedNoise

METHODS = ("deep-ensemble", "network", "mc-dropout", "bayes-by-backprop", "closed-form-vi")


def _wide_table(n_rows: int = 900) -> tuple[np.ndarray, np.ndarray]:
    """Twenty numbers, and 200 flags of which a few rows have each: forty deviations far."""
    rng = np.random.default_rng(0)
    flags = rng.random((n_rows, 200)) < 0.003
    X = np.hstack([rng.standard_normal((n_rows, 20)), flags])
    return X, X[:, 0] + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(n_rows)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", METHODS)
def test_far_rows_of_training_do_not_throw_the_network_away(name):
    X, y = _wide_table()
    train, test = slice(600), slice(600, None)
    model = make(name, random_state=0).set_params(noise="input").fit(X[train], y[train])
    constant = stats.norm.logpdf(y[test], y[train].mean(), y[train].std()).mean()
    assert model.log_likelihood(X[test], y[test]) > constant


@pytest.mark.parametrize("name", [*METHODS, "graves-vi", "laplace"])
def test_every_method_bounds_its_gradients(name, monkeypatch):
    """After a step Adam's first moment is a tenth of the gradient, which any bound so low cuts."""
    monkeypatch.setattr(gradient_method, "_LONGEST_GRADIENT", 1e-3)
    X, y = _wide_table(200)
    model = make(name, random_state=0).set_params(n_epochs=1, batch_size=200)
    model.set_params(noise="input", learning_rate=0.0123)  # a program of its own, for this bound
    model.fit(X, y)

    def is_adam(part):
        return isinstance(part, optax.ScaleByAdamState)

    (adam,) = filter(is_adam, jax.tree.leaves(model.state_, is_leaf=is_adam))
    n_networks = getattr(model, "n_members", 1)
    parts = [np.reshape(part, (n_networks, -1)) for part in jax.tree.leaves(adam.mu)]
    lengths = np.linalg.norm(np.hstack(parts), axis=1)
    np.testing.assert_allclose(lengths, 0.1 * 1e-3, rtol=1e-4)


@pytest.mark.parametrize("length", [3.0, 10.0, 1e6])
def test_gradients_are_bounded_where_noise_depends_on_the_input(length):
    gradients = (jnp.array([0.6 * length]), jnp.array([0.0, -0.8 * length]))
    step = optax.sgd(1.0)
    bounded, plain = clipped(step, InputNoise(1)), clipped(step, LearnedNoise(1))
    share = min(1.0, 10.0 / length)
    for optimizer, times in ((bounded, share), (plain, 1.0)):
        steps, _ = optimizer.update(gradients, optimizer.init(gradients), gradients)
        for moved, gradient in zip(steps, gradients, strict=True):
            np.testing.assert_allclose(moved, -times * gradient, rtol=1e-6)
