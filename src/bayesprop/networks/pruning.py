"""Which weights a network can lose: those of low signal-to-noise, |m| / std.

Blundell et al. (2015), section 5.1 and Table 2; Graves (2011), section 6. Plain NumPy, for pytrees
of arrays of any shapes, and at the end the networks that can be pruned.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from bayesprop import codec
from bayesprop.model.method import WeightGaussians
from bayesprop.networks.training import BlockNetwork, NetworkState

NO_LOG_STD = -200.0
"""Of a weight that is gone: softplus and exp of it are 0 in float32, and it can be stored."""


def signal_to_noise(m: PyTree, std: PyTree) -> PyTree:
    """|m| / std of every weight; infinite where std is 0 and m is not, 0 where both are."""

    def one(m: PyTree, std: PyTree) -> np.ndarray:
        size, noise = np.abs(np.asarray(m, np.float64)), np.asarray(std, np.float64)
        certain = np.where(size > 0.0, np.inf, 0.0)
        return np.divide(size, noise, out=certain, where=noise > 0.0)

    return jax.tree.map(one, m, std)


def keep(m: PyTree, std: PyTree, share: float, *, per_layer: bool = False) -> PyTree:
    """Masks of the weights that stay when a share of them is removed.

    m, std
        Pytrees of one structure.
    share
        Of the weights, those of lowest signal-to-noise, from 0 to 1: round(share n) are removed.
    per_layer
        Whether every array loses that share of its own, instead of all arrays together.

    Raises ValueError for a share outside 0 to 1.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share must be from 0 to 1, got {share!r}")
    ratios, structure = jax.tree.flatten(signal_to_noise(m, std))
    if per_layer:
        kept = [_highest(ratio.ravel(), share) for ratio in ratios]
    else:
        together = _highest(np.concatenate([ratio.ravel() for ratio in ratios]), share)
        kept = np.split(together, np.cumsum([ratio.size for ratio in ratios])[:-1])
    masks = [part.reshape(ratio.shape) for part, ratio in zip(kept, ratios, strict=True)]
    return structure.unflatten(masks)


def threshold(m: PyTree, std: PyTree, share: float) -> float:
    """Signal-to-noise below which a share of all weights lies."""
    ratios = jax.tree.leaves(signal_to_noise(m, std))
    return float(np.quantile(np.concatenate([ratio.ravel() for ratio in ratios]), share))


def zeroed(values: PyTree, masks: PyTree, to: float = 0.0) -> PyTree:
    """Return arrays with `to` wherever a mask is False."""
    return jax.tree.map(lambda w, mask: np.where(mask, w, np.asarray(to, w.dtype)), values, masks)


def _highest(ratio: np.ndarray, share: float) -> np.ndarray:
    """Mask all but the round(share n) lowest; of equals, the first go."""
    n_removed = round(share * ratio.size)
    mask = np.ones(ratio.size, bool)
    mask[np.argsort(ratio, kind="stable")[:n_removed]] = False
    return mask


@dataclass(frozen=True)
class PrunableNetwork(BlockNetwork):
    """A network whose weights have independent Gaussian posteriors.

    Its state has `params` and `optimizer`. Their `weights` are a record of two pytrees, the means
    `m` and what goes to minus infinity as a standard deviation goes to zero, with a property `std`.
    """

    def gaussians(self, state: NetworkState) -> WeightGaussians:
        """Return the posterior of the weights."""
        q = state.network.params.weights
        return WeightGaussians(q.m, q.std)

    def masked(self, state: NetworkState, keep: PyTree) -> NetworkState:
        """Return the state with every weight exactly zero whose mask is False.

        Its optimiser has no memory: nothing trains it further.
        """
        params = state.network.params
        m, log_std = params.weights
        kept = type(params.weights)(zeroed(m, keep), zeroed(log_std, keep, to=NO_LOG_STD))
        pruned = params._replace(weights=jax.tree.map(jnp.asarray, kept))
        return state._replace(network=state.network._replace(params=pruned, optimizer=None))

    @property
    def state_kind(self) -> NetworkState:
        """A state of the shapes of this network, with a memory unless it is pruned."""
        example = super().state_kind
        memory = codec.OrNone(example.network.optimizer)
        return example._replace(network=example.network._replace(optimizer=memory))
