"""Priors of the weights: adaptive in the mean networks, fixed in the noise networks.

The variance of a group of weights has an inverse-gamma prior and takes its best value in closed
form: maximising over it costs no parameter and no step size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesprop.moments.network_ensemble.gaussian_network import Layers, n_units_below

SHAPE = 4.48
"""Shape of the inverse-gamma prior of a weight variance."""

DEAD_BELOW = 0.1
"""Nats a weight, on average over those that leave a hidden unit, below which it is called dead."""

LOG_WIDTH, WIDTH_PRECISION = float(np.log(0.5)), 0.3
"""Mean and precision of the Gaussian prior of the log width of a kink."""


class Priors(NamedTuple):
    """How far weights may lie from 0: variances times the fan-in of a layer. Those of biases are 1.

    mean
        Mode of the prior of a variance in a mean network.
    noise, last_noise
        Variance in a noise network, below its last layer and in it.
    """

    mean: float = 4.0
    noise: float = 4.0
    last_noise: float = 9.0


def group_variance(squares: np.ndarray, *, axes: tuple[int, ...], mode: float) -> np.ndarray:
    """Prior variance v* of every group; the axes of a group are kept with length 1.

    v* = (S + 2 rate) / (n + 2 SHAPE + 2), S the sum of E[w²] over the n weights of a group, is
    where the KL, and the price InvGamma(v* | SHAPE, rate = (SHAPE + 1) mode), are least together.
    """
    n = int(np.prod([squares.shape[axis] for axis in axes]))
    half = 0.5 * squares.sum(axis=axes, keepdims=True) + (SHAPE + 1.0) * mode
    return half / (0.5 * n + SHAPE + 1.0)


def _groups(layers: Layers, depth: int) -> list[tuple[slice, tuple[int, ...]]]:
    """Rows of a layer's weights, and the axes of one group among them.

    Each input's row in the first layer (automatic relevance), the whole matrix between, and on top
    each output's columns, of the hidden units and of the inputs that the last layer takes.
    """
    rows = slice(len(layers[depth].w_m))
    if depth < len(layers) - 1:
        return [(rows, (1,) if depth == 0 else (0, 1))]
    n_units = n_units_below(layers, depth)
    parts = slice(n_units), slice(n_units, rows.stop)
    return [(part, (0,)) for part in parts if part.start != part.stop]


def prior_variances(layers: Layers, spread: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Best prior variance of every weight, (i, o), and bias, (o,); `spread` as in Priors."""
    variances = []
    for depth, layer in enumerate(layers):
        squares = _expected_squares(layer.w_m, layer.w_log_std)
        parts = []
        for rows, axes in _groups(layers, depth):
            part = squares[rows]
            of_group = group_variance(part, axes=axes, mode=spread / len(part))
            parts.append(np.broadcast_to(of_group, part.shape))
        biases = _expected_squares(layer.b_m, layer.b_log_std)
        of_biases = group_variance(biases, axes=(0,), mode=1.0)
        variances.append((np.vstack(parts), np.broadcast_to(of_biases, biases.shape)))
    return variances


def _expected_squares(m: np.ndarray, log_std: np.ndarray) -> np.ndarray:
    return np.square(m, dtype=np.float64) + np.exp(2.0 * np.asarray(log_std, np.float64))


def weight_information(layers: Layers, spread: float) -> list[np.ndarray]:
    """KL of every weight to its group's best prior, nats, layer by layer; `spread` as in Priors."""
    information = []
    for layer, (prior_var, _) in zip(layers, prior_variances(layers, spread), strict=True):
        ratio = _expected_squares(layer.w_m, layer.w_log_std) / prior_var
        information.append(0.5 * (ratio - 1.0 + np.log(prior_var)) - layer.w_log_std)
    return information


def dead_units(layers: Layers, spread: float) -> list[bool]:
    """Say of every hidden unit whether the weights that leave it kept their prior.

    spread
        `Priors.mean`.
    """
    return [
        bool(unit)
        for depth, information in enumerate(weight_information(layers, spread))
        if depth > 0
        for unit in np.asarray(information)[: n_units_below(layers, depth)].mean(axis=-1)
        < DEAD_BELOW
    ]
