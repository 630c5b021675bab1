"""JAX's own random bits, its Threefry-2x32 (Salmon et al. 2011), without a loop.

On a CPU JAX computes the twenty rounds in a loop of small operations, which costs more than the
numbers of a Markov chain on a small network do. Unrolled they are one operation; the bits are the
same.
"""

from __future__ import annotations

import math

import jax
import jax.extend.random
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, UInt32

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA


def unrolled(key: PRNGKeyArray) -> PRNGKeyArray:
    """Return the key with the same bits, computed faster; one of another generator as it is."""
    if jax.random.key_impl(key) != "threefry2x32":
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_IMPLEMENTATION)


def encrypted(
    key: UInt32[Array, "2"],
    high: UInt32[Array, "..."],
    low: UInt32[Array, "..."],
    *,
    rounds: int = 20,
) -> tuple[UInt32[Array, "..."], UInt32[Array, "..."]]:
    """Encrypt counters of 64 bits, given in two halves (section 3.2)."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    x, y = high + schedule[0], low + schedule[1]
    for r in range(rounds):
        turn = _ROTATIONS[r % 8]
        x = x + y
        y = ((y << turn) | (y >> (32 - turn))) ^ x
        if r % 4 == 3:
            injection = r // 4 + 1
            x = x + schedule[injection % 3]
            y = y + schedule[(injection + 1) % 3] + jnp.uint32(injection)
    return x, y


def _counters(shape: tuple[int, ...]) -> tuple[Array, Array]:
    n = math.prod(shape)
    return jnp.zeros(shape, jnp.uint32), jnp.arange(n, dtype=jnp.uint32).reshape(shape)


def _seed(seed: Array) -> Array:
    low = jnp.asarray(seed).astype(jnp.uint32)
    return jnp.stack([jnp.zeros_like(low), low])


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    return jnp.stack(encrypted(key, *_counters(shape)), axis=-1)


def _fold_in(key: Array, data: Array | int) -> Array:
    low = jnp.asarray(data).astype(jnp.uint32)
    return jnp.stack(encrypted(key, jnp.zeros_like(low), low))


def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    high, low = encrypted(key, *_counters(shape))
    if bit_width == 64:
        return (high.astype(jnp.uint64) << jnp.uint64(32)) | low.astype(jnp.uint64)
    return (high ^ low).astype(f"uint{bit_width}")


_IMPLEMENTATION = jax.extend.random.define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="threefry2x32_unrolled",
    tag="tfu",
)
