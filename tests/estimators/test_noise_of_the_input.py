"""Networks that learn how noise depends on the input, from rows of which a few lie far out."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from bayesprop.catalogue import make
from bayesprop.model.gradient_method import clipped
from bayesprop.model.network_likelihoods import InputNoise, LearnedNoise

METHODS = ("deep-ensemble", "network", "mc-dropout", "bayes-by-backprop", "closed-form-vi")


def _wide_table(n_rows: int = 900) -> tuple[np.ndarray, np.ndarray]:
    """Twenty numbers, and 200 flags of which a few rows have each: forty deviations far."""
    rng = np.random.default_rng(0)
    flags = rng.random((n_rows, 200)) < 0.003
    X = np.hstack([rng.standard_normal((n_rows, 20)), flags])
    return X, X[:, 0] + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(n_rows)


@pytest.mark.parametrize("name", METHODS)
def test_far_rows_of_training_do_not_throw_the_network_away(name):
    X, y = _wide_table()
    train, test = slice(600), slice(600, None)
    model = make(name, random_state=0).set_params(noise="input").fit(X[train], y[train])
    constant = stats.norm.logpdf(y[test], y[train].mean(), y[train].std()).mean()
    assert model.log_likelihood(X[test], y[test]) > constant


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
