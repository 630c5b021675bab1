"""The two views of a network agree: moments against Monte Carlo over weights."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprop.networks.mlp import dense_propagate, mlp_apply, mlp_propagate
from bayesprop.numerics.gaussian import Gaussian


def random_weights(sizes, seed):
    rng = np.random.default_rng(seed)
    shapes = [(a + 1, b) for a, b in pairwise(sizes)]
    return (
        tuple(jnp.asarray(rng.normal(size=s)) for s in shapes),
        tuple(jnp.asarray(rng.uniform(0.05, 0.4, size=s)) for s in shapes),
    )


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "erf", "identity"])
def test_moments_of_one_hidden_layer_are_exact(name: str):
    # One hidden layer: given the hidden units the output is linear, and the units are independent.
    with jax.enable_x64(True):
        m, v = random_weights((3, 4, 2), seed=1)
        x = jnp.array([0.3, -1.2, 0.8])
        got = jax.jit(partial(mlp_propagate, activation_name=name))(m, v, x)
        rng = np.random.default_rng(7)
        draws = tuple(
            jnp.asarray(rng.normal(w, np.sqrt(s), size=(50_000, *w.shape)))
            for w, s in zip(m, v, strict=True)
        )
        apply = jax.jit(jax.vmap(lambda w: mlp_apply(w, x, activation_name=name)))
        f = np.asarray(apply(draws))
        got = jax.tree.map(np.asarray, got)
    mean_se = f.std(axis=0) / np.sqrt(len(f))
    squares = (f - f.mean(axis=0)) ** 2
    var_se = squares.std(axis=0) / np.sqrt(len(f))
    assert (np.abs(f.mean(axis=0) - got.m) < 4 * mean_se).all()
    assert (np.abs(f.var(axis=0) - got.v) < 4 * var_se).all()


def test_a_dense_layer_by_hand():
    with jax.enable_x64(True):
        w = Gaussian(jnp.array([[2.0], [0.5]]), jnp.array([[0.3], [0.1]]))
        z = Gaussian(jnp.array([1.5]), jnp.array([0.2]))
        got = dense_propagate(w, z)
    assert float(got.m[0]) == pytest.approx((2.0 * 1.5 + 0.5) / np.sqrt(2))
    assert float(got.v[0]) == pytest.approx((4 * 0.2 + 0.3 * 1.5**2 + 0.3 * 0.2 + 0.1) / 2)
