"""Standard normals from a counter, cheap enough for one a weight and a step.

`jax.random.normal` computes Threefry-2x32 with 20 rounds in a loop over whole arrays, which on a
CPU costs as much as the rest of a step of Bayes by Backprop. Here the block function is written
out, so that the compiler fuses it with what uses the numbers, and stops after 13 rounds, the fewest
that pass BigCrush (Salmon et al. 2011, table 2).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

_ROUNDS = 13
_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA

# Giles (2010), "Approximating the erfinv function", single precision: powers of log terms, highest
# first, for the centre and for the tails.
_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def normal(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Draw independent N(0, 1), float32, |value| at most 5.3.

    key
        A key of any kind; another one gives other numbers than `jax.random.normal` would.
    shape
        Fewer than 2**32 numbers.
    """
    if math.prod(shape) >= 2**32:
        raise ValueError(f"shape must hold fewer than 2**32 numbers, got {shape}")
    first, second = jax.random.bits(key, (2,), jnp.uint32)
    counter = jnp.arange(math.prod(shape), dtype=jnp.uint32)
    return _standard_normal(_threefry(first, second, counter)).reshape(shape)


def _threefry(
    first: UInt32[Array, ""], second: UInt32[Array, ""], counter: UInt32[Array, " n"]
) -> UInt32[Array, " n"]:
    """First word of Threefry-2x32-13 at the counters (i, 0) (Salmon et al. 2011, section 3.2)."""
    words = (first, second, first ^ second ^ jnp.uint32(_PARITY))
    x, y = counter + words[0], jnp.full_like(counter, 0) + words[1]
    for r in range(_ROUNDS):
        turn = _ROTATIONS[r % 8]
        x = x + y
        y = ((y << turn) | (y >> (32 - turn))) ^ x
        if r % 4 == 3:
            injection = r // 4 + 1
            x = x + words[injection % 3]
            y = y + words[(injection + 1) % 3] + jnp.uint32(injection)
    return x


def _standard_normal(bits: UInt32[Array, " n"]) -> Float[Array, " n"]:
    """Quantile of N(0, 1) at the middles of 2**23 equal probabilities."""
    u = ((bits >> 9).astype(jnp.float32) + 0.5) * 2.0**-22 - 1.0
    w = -jnp.log((1.0 - u) * (1.0 + u))
    ratio = jnp.where(w < 5.0, _horner(_CENTRE, w - 2.5), _horner(_TAIL, jnp.sqrt(w) - 3.0))
    return math.sqrt(2.0) * u * ratio


def _horner(powers: tuple[float, ...], x: Float[Array, " n"]) -> Float[Array, " n"]:
    total = jnp.full_like(x, powers[0])
    for power in powers[1:]:
        total = total * x + power
    return total
