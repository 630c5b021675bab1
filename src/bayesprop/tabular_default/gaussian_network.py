"""Networks of independent Gaussian weights and rectifiers: their start, draws of them, priors.

Priors are adaptive in the mean networks, fixed in the noise networks: the variance of a group of
weights has an inverse-gamma prior and takes its best value in closed form. Maximising over it costs
no parameter and no step size.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32
from scipy import special

_LOG_2PI = float(np.log(2.0 * np.pi))
_FIRST_STD, _BIAS_STD = 0.01, 0.5  # of weights, as a share of their spread; of hidden biases

SHAPE = 4.48
"""Shape of the inverse-gamma prior of a weight variance."""

DEAD_BELOW = 0.1
"""Nats a weight, on average over those that leave a hidden unit, below which it is called dead."""

LOG_WIDTH, WIDTH_PRECISION = float(np.log(0.5)), 0.3
"""Mean and precision of the Gaussian prior of the log width of a kink."""

Values = Any
"""An array of NumPy."""


class GaussianLayer(NamedTuple):
    """Independent Gaussian weights of one layer, float32.

    w_m, w_log_std
        Mean and log standard deviation of the weights, (i, o).
    b_m, b_log_std
        The same of the biases, (o,).
    """

    w_m: Float32[np.ndarray, "i o"]
    w_log_std: Float32[np.ndarray, "i o"]
    b_m: Float32[np.ndarray, " o"]
    b_log_std: Float32[np.ndarray, " o"]


Layers = tuple[GaussianLayer, ...]


def init_layers(
    rng: np.random.Generator,
    sizes: tuple[int, ...],
    *,
    zero_output: bool = False,
    is_direct: bool = False,
) -> Layers:
    """Draw initial means and almost no variance.

    Means are N(0, 2 / fan_in) below a rectifier and N(0, 1 / fan_in) in the last layer.

    zero_output
        Whether the means of the last layer start at zero.
    is_direct
        Whether the last layer takes the inputs too, in rows behind those of the hidden units, so
        that a network with every unit asleep is a linear model. These means start at zero.
    """
    layers = []
    for depth, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        is_last = depth == len(sizes) - 2
        spread = np.sqrt((1.0 if is_last else 2.0) / fan_in)
        w_m = spread * rng.standard_normal((fan_in, fan_out))
        b_m = _BIAS_STD * rng.standard_normal(fan_out)
        log_std = np.log(_FIRST_STD * spread)
        values = (
            0.0 * w_m if is_last and zero_output else w_m,
            np.full_like(w_m, log_std),
            0.0 * b_m if is_last else b_m,
            np.full_like(b_m, log_std),
        )
        layers.append(GaussianLayer(*(np.asarray(v, np.float32) for v in values)))
    if is_direct:
        w_m, w_log_std, *biases = layers[-1]
        shape = (sizes[0], sizes[-1])
        log_std = np.full(shape, np.log(_FIRST_STD / np.sqrt(sizes[0])), np.float32)
        weights = np.vstack([w_m, np.zeros(shape, np.float32)]), np.vstack([w_log_std, log_std])
        layers[-1] = GaussianLayer(*weights, *biases)
    return tuple(layers)


def n_units_below(layers: Layers, depth: int) -> int:
    """Count the inputs of a layer that the layer below puts out; those behind are the network's."""
    return layers[depth].w_m.shape[-2] if depth == 0 else layers[depth - 1].b_m.shape[-1]


def draw(rng: np.random.Generator, layers: Layers) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draw one network: weights and biases of every layer."""
    drawn = []
    for layer in layers:
        w_m, w_log_std, b_m, b_log_std = (np.asarray(part, np.float64) for part in layer)
        drawn.append(
            (
                w_m + np.exp(w_log_std) * rng.standard_normal(w_m.shape),
                b_m + np.exp(b_log_std) * rng.standard_normal(b_m.shape),
            )
        )
    return drawn


def apply(
    drawn: list[tuple[np.ndarray, np.ndarray]],
    x: Float[np.ndarray, "n d"],
    log_widths: tuple[Values, ...] | None = None,
) -> np.ndarray:
    """Compute the outputs of a drawn network; log_widths as of a `Member`, None: rectifiers."""
    z = x
    for depth, (w, b) in enumerate(drawn):
        if depth > 0:
            width = None if log_widths is None else np.exp(np.float64(log_widths[depth - 1]))
            if width is None:
                z = np.maximum(z, 0.0)
            else:  # E[max(0, z + width e)], e ~ N(0, 1)
                a = z / width
                z = z * special.ndtr(a) + width * np.exp(-0.5 * a * a - 0.5 * _LOG_2PI)
        z = (np.hstack([z, x]) if len(w) > z.shape[1] else z) @ w + b
    return z


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
    """Say of every hidden unit whether the weights that leave it kept their prior."""
    return [
        bool(unit)
        for depth, information in enumerate(weight_information(layers, spread))
        if depth > 0
        for unit in np.asarray(information)[: n_units_below(layers, depth)].mean(axis=-1)
        < DEAD_BELOW
    ]
