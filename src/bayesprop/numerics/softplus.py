"""log(1 + exp(x)) and its slope from one exponential: `jax.nn.softplus` takes three."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@jax.custom_jvp
def softplus(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """max(x, 0) + log(1 + exp(-|x|)), accurate relative to the result on both sides."""
    return jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


@softplus.defjvp
def _softplus_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """Slope 1 / (1 + exp(-x)), of the same exponential."""
    (x,), (dx,) = primals, tangents
    small = jnp.exp(-jnp.abs(x))
    value = jnp.maximum(x, 0.0) + jnp.log1p(small)
    return value, jnp.where(x > 0.0, 1.0, small) / (1.0 + small) * dx
