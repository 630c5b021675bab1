"""Networks with an independent Gaussian a weight: they can be pruned, and are then small.

Bayes by Backprop and Graves. A pruned state has no memory of the optimiser, and is stored with a
bit a weight and numbers only for the weights that are left.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesprop.model import mean_field
from bayesprop.model.mean_field import MeanField
from bayesprop.model.method import Stored, WeightGaussians
from bayesprop.model.pruning import NO_LOG_STD, zeroed
from bayesprop.model.trained_network import NetworkState, TrainedNetwork, from_named_leaves

_M, _RHO, _KEPT = ".q.m", ".q.rho", "kept"


class PrunableNetwork(TrainedNetwork):
    """A network whose state has a `MeanField` q and an `optimizer`."""

    def gaussians(self, state: NetworkState) -> WeightGaussians:
        """Return the posterior of the weights."""
        q = state.network.q
        return WeightGaussians(q.m, mean_field.stds(q))

    def masked(self, state: NetworkState, keep: Any) -> NetworkState:
        """Return the state with every weight exactly zero whose mask is False."""
        q = state.network.q
        kept = MeanField(zeroed(q.m, keep), zeroed(q.rho, keep, to=NO_LOG_STD))
        network = state.network._replace(q=jax.tree.map(jnp.asarray, kept), optimizer=())
        return state._replace(network=network)

    def to_stored(self, state: NetworkState) -> Stored:
        """Return seed and arrays, of a pruned state only what is left."""
        stored = super().to_stored(state)
        if state.network.optimizer != ():
            return stored
        shapes = {name: list(array.shape) for name, array in stored.arrays.items()}
        return Stored(stored.header | {"shapes": shapes}, _packed(stored.arrays))

    def from_stored(self, stored: Stored) -> NetworkState:
        """Rebuild what `to_stored` gave; ValueError where it does not fit this network."""
        if "shapes" not in stored.header:
            return super().from_stored(stored)
        like = jax.eval_shape(partial(self.started, 0))._replace(optimizer=())
        arrays = _unpacked(stored.arrays, stored.header["shapes"])
        return NetworkState(from_named_leaves(like, arrays), int(stored.header["seed"]))


def _packed(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Replace means and rhos by the numbers that are left, and a bit a weight."""
    packed = {}
    for name, values in arrays.items():
        if name.startswith(_M):
            rho = arrays[_RHO + name.removeprefix(_M)]
            mask = rho != NO_LOG_STD
            packed[name] = values[mask]
            packed[_RHO + name.removeprefix(_M)] = rho[mask]
            packed[_KEPT + name.removeprefix(_M)] = np.packbits(mask)
        elif not name.startswith(_RHO):
            packed[name] = values
    return packed


def _unpacked(packed: dict[str, np.ndarray], shapes: dict[str, list[int]]) -> dict[str, np.ndarray]:
    """Undo `_packed`; ValueError where bits, numbers and shapes do not fit together."""
    arrays = {}
    for name, values in packed.items():
        shape = tuple(int(size) for size in shapes.get(name, ()))
        if name.startswith(_KEPT):
            continue
        if not name.startswith((_M, _RHO)):
            arrays[name] = values
            continue
        is_mean = name.startswith(_M)
        bits = packed[_KEPT + name.removeprefix(_M if is_mean else _RHO)]
        size = int(np.prod(shape))
        mask = np.unpackbits(bits)[:size].astype(bool)
        if mask.size != size or np.count_nonzero(mask) != values.size:
            raise ValueError(f"array {name} does not fit its bits")
        dense = np.full(size, 0.0 if is_mean else NO_LOG_STD, values.dtype)
        dense[mask] = values
        arrays[name] = dense.reshape(shape)
    return arrays
