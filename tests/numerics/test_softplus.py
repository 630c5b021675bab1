"""The softplus of training: against NumPy in double precision, with its slope."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from bayesprop.numerics.softplus import softplus

X = np.concatenate([[-200.0, 200.0], np.linspace(-80.0, 80.0, 641)])


def test_value_and_slope_are_accurate_relative_to_themselves():
    value, slope = jax.vmap(jax.value_and_grad(softplus))(jnp.asarray(X, jnp.float32))
    inner = np.abs(X) < 100.0  # further out float32 has no number
    np.testing.assert_allclose(value[inner], np.logaddexp(0.0, X)[inner], rtol=5e-7)
    np.testing.assert_allclose(slope[inner], special.expit(X)[inner], rtol=5e-7)
    np.testing.assert_array_equal(value[~inner], [0.0, 200.0])
    np.testing.assert_array_equal(slope[~inner], [0.0, 1.0])
