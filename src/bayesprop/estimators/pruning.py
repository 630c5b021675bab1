"""Smaller fitted estimators: weights of low signal-to-noise become exactly zero.

Works on every estimator whose posterior is an independent Gaussian a weight. Those that mix in
`PrunableNetwork` are also saved small once they are pruned: a bit a weight, and numbers only for
the weights that are left.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import jax
import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.network import NetworkFitting
from bayesprop.estimators.pruned import Pruned
from bayesprop.estimators.stored_network import network_header, restore_network
from bayesprop.model import mean_field, pruning
from bayesprop.model.method import Prunes, WeightGaussians

_NO_STD = -200.0  # softplus and exp of it are 0 in float32, and it is a number that can be stored
_M, _RHO, _KEPT = ".q.m", ".q.rho", "kept"


class _Gaussians(NamedTuple):
    """Means and standard deviations of the weights, and how to keep only some of them."""

    m: Any
    std: Any
    masked: Callable[[Any], Any]


def prune(estimator: Any, share: float, *, by_layer: bool = False) -> Any:
    """Return a fitted copy whose weights of lowest signal-to-noise are exactly zero.

    estimator
        Fitted, with an independent Gaussian a weight: Bayes by Backprop, Graves, closed-form VI or
        PBP.
    share
        Of all weights, from 0 to 1. Blundell et al. (2015, Table 2) remove .5 to .98.
    by_layer
        Whether every layer loses that share of its own weights.

    The copy predicts as its class does, in mean and draws; its `pruned_` says what was removed. It
    cannot be trained further: `fit` starts afresh, `partial_fit` and warm starts are refused.
    Raises ValueError for another share, TypeError
    for another estimator.
    """
    check_is_fitted(estimator)
    shelled = hasattr(estimator, "method_class")
    if shelled:
        before: Any = _gaussians_of(estimator)
    else:
        before = _gaussians(estimator)
    masks = pruning.keep(before.m, before.std, share, per_layer=by_layer)
    small = copy.copy(estimator)
    if shelled:
        learned = estimator.learned_
        state = estimator.fitted_.method.masked(learned.state, masks)
        small.learned_ = learned._replace(state=state)
    else:
        small.state_ = before.masked(masks)
    sizes = [(mask.size, np.count_nonzero(mask)) for mask in jax.tree.leaves(masks)]
    n_weights, n_left = (int(sum(column)) for column in zip(*sizes, strict=True))
    cut = pruning.threshold(before.m, before.std, share)
    small.pruned_ = Pruned(float(share), bool(by_layer), n_weights, n_weights - n_left, cut)
    return small


def _gaussians_of(estimator: Any) -> WeightGaussians:
    method = estimator.fitted_.method
    if not isinstance(method, Prunes):
        raise TypeError(
            "estimator must have an independent Gaussian a weight (bayes-by-backprop, graves-vi, "
            f"closed-form-vi, pbp), got {type(estimator).__name__}"
        )
    return method.gaussians(estimator.state_)


def _gaussians(estimator: Any) -> _Gaussians:
    state = estimator.state_
    if isinstance(estimator, PrunableNetwork):
        std = mean_field.stds(state.q)
        return _Gaussians(state.q.m, std, lambda masks: _without(state, masks))
    if hasattr(state, "site_prec"):
        std = tuple(np.sqrt(v) for v in state.v)
        return _Gaussians(
            state.m,
            std,
            lambda masks: state._replace(m=_zeroed(state.m, masks), v=_zeroed(state.v, masks)),
        )
    raise TypeError(
        "estimator must have an independent Gaussian a weight (bayes-by-backprop, graves-vi, "
        f"closed-form-vi, pbp), got {type(estimator).__name__}"
    )


def _zeroed(values: Any, masks: Any, to: float = 0.0) -> Any:
    return jax.tree.map(lambda w, mask: np.where(mask, w, np.asarray(to, w.dtype)), values, masks)


def _without(state: Any, masks: Any) -> Any:
    q = type(state.q)(_zeroed(state.q.m, masks), _zeroed(state.q.rho, masks, to=_NO_STD))
    return state._replace(q=jax.tree.map(jax.numpy.asarray, q), optimizer=())


class PrunableNetwork(NetworkFitting):
    """Mixed into estimators whose state has a `MeanField` q and an `optimizer`: stored small."""

    def _to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything that `_from_stored` needs: a JSON-ready header and named arrays."""
        header, arrays = network_header(self)
        if not hasattr(self, "pruned_"):
            return header, arrays
        header["shapes"] = {name: list(a.shape) for name, a in arrays.items()}
        return header, _packed(arrays)

    @classmethod
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild a fitted estimator from what `_to_stored` gave."""

        def shape_of_state(model: Any) -> Any:
            state = jax.eval_shape(lambda: model._initial_state(model._build()))
            return state._replace(optimizer=()) if "pruned" in header else state

        if "pruned" not in header:
            return restore_network(cls, header, arrays, shape_of_state)
        dense = _unpacked(arrays, header["shapes"])
        return restore_network(cls, header, dense, shape_of_state)


def _packed(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Replace means and rhos by the numbers that are left, and a bit a weight."""
    packed = {}
    for name, values in arrays.items():
        if name.startswith(_M):
            rho = arrays[_RHO + name.removeprefix(_M)]
            mask = rho != _NO_STD
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
        dense = np.full(size, 0.0 if is_mean else _NO_STD, values.dtype)
        dense[mask] = values
        arrays[name] = dense.reshape(shape)
    return arrays
