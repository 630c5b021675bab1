"""The softplus of training: against NumPy in double precision, with its slope."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from bayesprop.numerics.softplus import softplus

X = np.linspace(-80.0, 80.0, 641)


def test_value_and_slope_are_accurate_relative_to_themselves():
    value, slope = jax.vmap(jax.value_and_grad(softplus))(jnp.asarray(X, jnp.float32))
    np.testing.assert_allclose(value, np.logaddexp(0.0, X), rtol=5e-7)
    np.testing.assert_allclose(slope, special.expit(X), rtol=5e-7)


def test_far_out_it_is_a_number():
    far = jnp.array([-200.0, 200.0, 0.0], jnp.float32)
    value, slope = jax.vmap(jax.value_and_grad(softplus))(far)
    np.testing.assert_allclose(value, [0.0, 200.0, np.log(2.0)], rtol=1e-6)
    np.testing.assert_allclose(slope, [0.0, 1.0, 0.5])
