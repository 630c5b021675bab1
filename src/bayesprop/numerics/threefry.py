"""Standard normals of random bits by Threefry-2x32 (Salmon et al. 2011), computed without a loop.

On a CPU JAX computes the twenty rounds in a loop of small operations, which costs as much as the
rest of a step of Bayes by Backprop. Unrolled they are one operation, which the compiler fuses with
what uses the numbers. `normal` stops after 13 rounds, the fewest that pass BigCrush (table 2), and
uses both words, for radius and angle of a pair (Box & Muller 1958).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA
ROUNDS = 13
LANES = 32
"""The count is rounded up to this: the compiler turns no odd count into vector instructions."""

# sin(2 pi u) / u and cos(2 pi u) as polynomials in u² on [0, 1/4], interpolated at the Chebyshev
# nodes: powers of u², highest first; right to 3e-9 and 2e-8.
SINE = (
    3.23778009, -14.8995784, 42.0258515, -76.7030056, 81.6051308, -41.3417004, 6.2831853,
)  # fmt: skip
COSINE = (
    6.52770596, -25.9668846, 60.1674298, -85.4501134, 64.9391159, -19.7392045, 0.999999989,
)  # fmt: skip


def encrypted(
    key: UInt32[Array, "2"],
    high: UInt32[Array, "..."],
    low: UInt32[Array, "..."],
) -> tuple[UInt32[Array, "..."], UInt32[Array, "..."]]:
    """Encrypt counters of 64 bits, given in two halves (section 3.2)."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    x, y = high + schedule[0], low + schedule[1]
    for r in range(ROUNDS):
        turn = _ROTATIONS[r % 8]
        x = x + y
        y = ((y << turn) | (y >> (32 - turn))) ^ x
        if r % 4 == 3:
            injection = r // 4 + 1
            x = x + schedule[injection % 3]
            y = y + schedule[(injection + 1) % 3] + jnp.uint32(injection)
    return x, y


def normal(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Draw independent N(0, 1), float32, |value| at most 5.8.

    key
        A key of any kind; another one gives other numbers than `jax.random.normal` would.
    shape
        Fewer than 2**32 numbers.
    """
    n = math.prod(shape)
    if n >= 2**32:
        raise ValueError(f"shape must hold fewer than 2**32 numbers, got {shape}")
    n_pairs = -(-n // (2 * LANES)) * LANES
    counter = jnp.arange(n_pairs, dtype=jnp.uint32)
    words = encrypted(_words(key), counter, jnp.zeros_like(counter))
    flat = jax.lax.optimization_barrier(jnp.stack(pairs(*words)).reshape(-1))
    return flat[:n].reshape(shape)


def _words(key: PRNGKeyArray) -> UInt32[Array, "2"]:
    """Return two words of a key behind a branch, which the compiler does not look beyond.

    What computed them would otherwise be computed again for every number, one at a time: twenty
    times the cost.
    """
    data = jax.random.key_data(key)
    words = data if data.shape == (2,) else jax.random.bits(key, (2,), jnp.uint32)
    return jax.lax.cond(words[0] == words[1], lambda same: same + 0, lambda same: same, words)


def pairs(
    first: UInt32[Array, " n"], second: UInt32[Array, " n"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Turn random words into pairs of normals, the radius of one word and the angle of the other.

    Radius sqrt(-2 log u) times cosine and sine of an angle of v turns (Box & Muller 1958).

    u in (0, 1) and v in [-1/2, 1/2), 2**23 equally spaced values each.
    """
    u = _between_one_and_two(first) - (1.0 - 2.0**-24)
    v = _between_one_and_two(second) - 1.5
    radius = jnp.sqrt(-2.0 * jnp.log(u))
    return radius * _horner(COSINE, v * v), radius * (v * _horner(SINE, v * v))


def _between_one_and_two(word: UInt32[Array, " n"]) -> Float[Array, " n"]:
    """Take the upper 23 bits for the fraction of a float."""
    return jax.lax.bitcast_convert_type((word >> 9) | jnp.uint32(0x3F800000), jnp.float32)


def _horner(powers: tuple[float, ...], x: Float[Array, " n"]) -> Float[Array, " n"]:
    total = jnp.full_like(x, powers[0])
    for power in powers[1:]:
        total = total * x + power
    return total
