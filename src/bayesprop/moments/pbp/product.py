"""Products of posteriors of probabilistic backpropagation: natural parameters add.

A posterior is the prior's factors times what its rows say. What rows say multiplies, to powers; the
prior's factors are there once, those of the first posterior. So one machine's part of the rows is a
site of expectation propagation (Hasenclever et al. 2017, "Distributed Bayesian learning with
stochastic natural gradient expectation propagation and the posterior server"; Vehtari et al. 2020,
"Expectation propagation as a way of life", section 3), and q(gamma) of the noise likewise:
(shape - 1, rate) are its natural parameters up to sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayesprop.moments.pbp.state import PBPInfo, PBPState


class Weights(NamedTuple):
    """Means and variances of a layer's weights, and how many stayed those of the first part."""

    m: np.ndarray
    v: np.ndarray
    n_undone: int


def product(states: Sequence[PBPState], powers: Sequence[float]) -> tuple[PBPState, PBPInfo]:
    """Multiply posteriors to powers that add up to 1, with the prior's factors of the first.

    Where a variance would be negative, or a Gamma improper, those of the first part stand.
    """
    first = states[0]
    layers = [_weights(states, powers, layer) for layer in range(len(first.m))]
    shape = _sum([state.noise_shape for state in states], powers)
    rate = _sum([state.noise_rate for state in states], powers)
    is_gamma = (shape > 1.0) & (rate > 0.0) & np.isfinite(shape) & np.isfinite(rate)
    state = first.without_average_factor()._replace(
        m=tuple(layer.m for layer in layers),
        v=tuple(layer.v for layer in layers),
        noise_shape=np.where(is_gamma, shape, first.noise_shape),
        noise_rate=np.where(is_gamma, rate, first.noise_rate),
    )
    n_undone = sum(layer.n_undone for layer in layers)
    return state, PBPInfo(weights_undone=n_undone, noise_kept=int(np.sum(~is_gamma)))


def _weights(states: Sequence[PBPState], powers: Sequence[float], layer: int) -> Weights:
    """Add up precisions and precision-means of what rows say, and of the first prior factor."""
    first = states[0]
    precs = [1.0 / one.v[layer] - one.site_prec[layer] for one in states]
    slopes = [one.m[layer] / one.v[layer] - one.site_prec_mean[layer] for one in states]
    prec = first.site_prec[layer] + _sum(precs, powers)
    slope = first.site_prec_mean[layer] + _sum(slopes, powers)
    is_proper = (prec > 0.0) & np.isfinite(prec) & np.isfinite(slope)
    v = np.where(is_proper, 1.0 / np.where(is_proper, prec, 1.0), first.v[layer])
    m = np.where(is_proper, v * slope, first.m[layer])
    return Weights(m, v, int(np.sum(~is_proper)))


def _sum(arrays: Sequence[np.ndarray], powers: Sequence[float]) -> np.ndarray:
    """Add up arrays times powers, in their order."""
    return np.sum([power * array for array, power in zip(arrays, powers, strict=True)], axis=0)
