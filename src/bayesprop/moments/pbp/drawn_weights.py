"""Functions drawn from the posterior: weights once, outputs everywhere."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesprop.model.networks import mlp_apply
from bayesprop.moments.pbp.state import PBPState
from bayesprop.numerics.precision import in_float64


@in_float64
def sample_functions(
    rng: np.random.Generator | np.random.RandomState,
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    n_samples: int,
    *,
    activation: str,
) -> Float[np.ndarray, "s n o"]:
    """Draw weights from q and evaluate each network at the standardised rows x."""

    @jax.jit
    def evaluate(weights: tuple, x: Float[jax.Array, "n d"]) -> jax.Array:
        return jax.vmap(lambda row: mlp_apply(weights, row, activation_name=activation))(x)

    rows = jnp.asarray(x)
    out = np.empty((n_samples, len(x), state.m[-1].shape[1]))
    for s in range(n_samples):
        weights = tuple(
            jnp.asarray(m + np.sqrt(v) * rng.standard_normal(m.shape))
            for m, v in zip(state.m, state.v, strict=True)
        )
        out[s] = evaluate(weights, rows)
    return out
