"""The generator against its authors' vector, bit for bit; normals against N(0, 1)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayesprop.numerics import threefry
from bayesprop.numerics.threefry import encrypted

N = 400_000


def test_threefry_13_equals_published_vectors():
    # "threefry2x32 13" of kat_vectors in the Random123 distribution (counter, key, result).
    nothing = jnp.zeros(1, jnp.uint32)
    words = encrypted(jnp.zeros(2, jnp.uint32), nothing, nothing)
    assert [int(word[0]) for word in words] == [0x9D1C5EC6, 0x8BD50731]


@pytest.fixture(scope="module")
def draws():
    return np.asarray(threefry.normal(jax.random.key(3), (N,)), np.float64)


def test_pairs_are_those_of_box_and_muller_to_single_precision():
    rng = np.random.default_rng(0)
    ends = np.array([0, 2**32 - 1, 2**31, 2**31 - 1, 2**9 - 1, 2**9], np.uint32)
    first, second = (
        np.concatenate([np.repeat(ends, 6), rng.integers(0, 2**32, 100_000, np.uint32)])
        for _ in range(2)
    )
    second[:36] = np.tile(ends, 6)
    ours = threefry.pairs(jnp.asarray(first), jnp.asarray(second))
    u = ((first >> 9).astype(np.float64) + 0.5) * 2.0**-23
    angle = 2.0 * np.pi * ((second >> 9) * 2.0**-23 - 0.5)
    radius = np.sqrt(-2.0 * np.log(u))
    np.testing.assert_allclose(ours[0], radius * np.cos(angle), rtol=0, atol=3e-6)
    np.testing.assert_allclose(ours[1], radius * np.sin(angle), rtol=0, atol=3e-6)


def test_distribution(draws):
    assert stats.kstest(draws, "norm").pvalue > 1e-4
    for power, mean, std in ((1, 0.0, 1.0), (2, 1.0, 2**0.5), (3, 0.0, 15**0.5), (4, 3.0, 96**0.5)):
        assert abs(np.mean(draws**power) - mean) < 4.5 * std / N**0.5


def test_neighbours_and_keys_are_uncorrelated(draws):
    other = np.asarray(threefry.normal(jax.random.key(4), (N,)), np.float64)
    shifted = [np.roll(draws, lag) for lag in (1, 2, 7, 1200)]
    for second in (*shifted, other):
        assert abs(np.mean(draws * second)) < 4.5 / N**0.5
        assert abs(np.mean((draws**2 - 1.0) * (second**2 - 1.0))) < 4.5 * 2.0 / N**0.5


def test_shape_and_key_kind():
    flat = threefry.normal(jax.random.key(1), (12,))
    square = threefry.normal(jax.random.key(1), (3, 4))
    np.testing.assert_allclose(square, flat.reshape(3, 4), rtol=1e-5)
    other = threefry.normal(jax.random.key(1, impl="rbg"), (5,))
    assert other.shape == (5,)
    assert threefry.normal(jax.random.key(1), ()).shape == ()
    with pytest.raises(ValueError, match="fewer than"):
        threefry.normal(jax.random.key(1), (2**16, 2**16))
