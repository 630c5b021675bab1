"""The multilayer perceptron with Gaussian weights, sampled by its activations.

Local reparameterisation (Kingma, Salimans & Welling 2015): every row has its own noise, at the cost
of one number a unit instead of one a weight, and with less variance in the gradient.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.model.gradient_method import Apply
from bayesprop.model.mean_field import MeanField, variances
from bayesprop.model.networks import Activation, plain_activation
from bayesprop.numerics.fast_normal import normal
from bayesprop.numerics.gaussian import Gaussian


def activation_of(apply: Apply) -> Activation:
    """Return the nonlinearity of `plain_apply` or a partial of it.

    Raises ValueError for any other network, whose layers are unknown here.
    """
    found = plain_activation(apply)
    if found is not None:
        return found
    raise ValueError(
        "local_reparameterisation must be False for apply other than plain_apply or a partial of "
        f"it, because it needs to know the layers; got {apply!r}"
    )


def sample_outputs(
    key: PRNGKeyArray, q: MeanField, x: Float[Array, "b d"], nonlinearity: Activation
) -> Float[Array, "b k"]:
    """Draw the outputs of every row through freshly drawn activations.

    a ~ N(z m, z² v) for every unit and row, z the inputs of its layer (Kingma et al. 2015, eq. 6).
    """
    keys = jax.random.split(key, len(q.m))
    layers = zip(keys, q.m, variances(q), strict=True)
    z = x
    for place, (key_layer, m, v) in enumerate(layers):
        z = nonlinearity.apply(z) if place else z
        # One product with a column of ones: to cut the biases off would copy the weights.
        z = jnp.concatenate([z, jnp.ones_like(z[:, :1])], axis=1)
        a = Gaussian(z @ m, (z * z) @ v)
        z = a.m + jnp.sqrt(a.v) * normal(key_layer, a.m.shape)
    return z
