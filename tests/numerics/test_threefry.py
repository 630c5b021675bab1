"""The unrolled generator against JAX's, bit for bit."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from bayesprop.numerics.threefry import unrolled

DRAWS = {
    "split": lambda key: jax.random.key_data(jax.random.split(key, (2, 5))),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 4_000_000_000)),
    "bits": lambda key: jax.random.bits(key, (7, 3)),
    "few bits": lambda key: jax.random.bits(key, (9,), "uint8"),
    "normal": lambda key: jax.random.normal(key, (11,)),
    "integers": lambda key: jax.random.randint(key, (5,), -3, 1000),
    "one": jax.random.uniform,
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("seed", [0, 7, 2**31 - 1])
def test_bits_are_those_of_jax(draw, seed):
    key = jax.random.key(seed)
    np.testing.assert_array_equal(draw(unrolled(key)), draw(key))


def test_so_are_those_of_float64():
    with jax.enable_x64(True):
        key = jax.random.key(3)
        found, expected = (jax.random.normal(k, (5,), float) for k in (unrolled(key), key))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected)


def test_another_generator_is_left_alone():
    key = jax.random.key(0, impl="rbg")
    assert unrolled(key) is key
