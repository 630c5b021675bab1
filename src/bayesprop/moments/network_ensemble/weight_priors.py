"""Priors of the weights in the noise-network recipe: adaptive for the mean, fixed for the noise.

The variance of a group of weights has an inverse-gamma prior and takes its best value in closed
form: maximising over it costs no parameter and no step size.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

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


def _squares(m: Array, log_std: Array) -> Array:
    return m * m + jnp.exp(2.0 * log_std)


def _grouped_kl(
    squares: Array, log_std: Array, *, axes: tuple[int, ...], mode: float
) -> Float[Array, ""]:
    """KL(q | N(0, v*)) - log InvGamma(v* | SHAPE, (SHAPE + 1) mode) + constant, over groups.

    v* = (S + 2 rate) / (n + 2 SHAPE + 2), S the sum of E[w²] over the n weights of a group, is
    where the two terms are least, so that its derivative need not be followed.
    """
    n = int(np.prod([squares.shape[axis] for axis in axes]))
    half = 0.5 * jnp.sum(squares, axis=axes) + (SHAPE + 1.0) * mode
    strength = 0.5 * n + SHAPE + 1.0
    return jnp.sum(strength * (jnp.log(half / strength) + 1.0)) - jnp.sum(log_std)


def group_variance(squares: np.ndarray, *, axes: tuple[int, ...], mode: float) -> np.ndarray:
    """Prior variance v* of every group; the axes of a group are kept with length 1."""
    n = int(np.prod([squares.shape[axis] for axis in axes]))
    half = 0.5 * squares.sum(axis=axes, keepdims=True) + (SHAPE + 1.0) * mode
    return half / (0.5 * n + SHAPE + 1.0)


def _groups(layers: Layers, depth: int) -> list[tuple[slice, tuple[int, ...]]]:
    """Rows of a layer's weights, and the axes of one group among them.

    A row per input below, a column per output on top, of the hidden units and of the inputs that
    the last layer takes; else the matrix.
    """
    rows = slice(len(layers[depth].w_m))
    if depth < len(layers) - 1:
        return [(rows, (1,) if depth == 0 else (0, 1))]
    n_units = n_units_below(layers, depth)
    parts = slice(n_units), slice(n_units, rows.stop)
    return [(part, (0,)) for part in parts if part.start != part.stop]


def adaptive_kl(layers: Layers, spread: float) -> Float[Array, ""]:
    """KL of all weights to their groups' best priors, with the price of those, nats + constant.

    Groups are each input's row in the first layer (automatic relevance), the whole matrix between,
    each output's columns in the last layer, of hidden units and of inputs, and a layer's biases.
    """
    total = jnp.zeros(())
    for depth, layer in enumerate(layers):
        squares = _squares(layer.w_m, layer.w_log_std)
        for rows, axes in _groups(layers, depth):
            mode = spread / len(layer.w_m[rows])
            total += _grouped_kl(squares[rows], layer.w_log_std[rows], axes=axes, mode=mode)
        bias_squares = _squares(layer.b_m, layer.b_log_std)
        total += _grouped_kl(bias_squares, layer.b_log_std, axes=(0,), mode=1.0)
    return total


def width_price(log_widths: tuple[Array, ...]) -> Float[Array, ""]:
    """-log prior of the widths of all kinks, nats + constant: their most probable values."""
    squares = [jnp.sum((each - LOG_WIDTH) ** 2) for each in log_widths]
    return 0.5 * WIDTH_PRECISION * sum(squares, start=jnp.zeros(()))


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


def _fixed_kl(m: Array, log_std: Array, prior_var: float) -> Float[Array, ""]:
    ratio = _squares(m, log_std) / prior_var
    return jnp.sum(0.5 * (ratio - 1.0 + np.log(prior_var)) - log_std)


def noise_kl(layers: Layers, priors: Priors) -> Float[Array, ""]:
    """KL of a noise network to its fixed prior, nats."""
    total = jnp.zeros(())
    for depth, layer in enumerate(layers):
        is_last = depth == len(layers) - 1
        spread = priors.last_noise if is_last else priors.noise
        total += _fixed_kl(layer.w_m, layer.w_log_std, spread / layer.w_m.shape[0])
        total += _fixed_kl(layer.b_m, layer.b_log_std, 1.0)
    return total
