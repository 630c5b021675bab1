"""Networks of independent Gaussian weights and rectifiers: their start, and draws of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

_LOG_2PI = float(np.log(2.0 * np.pi))

Values = Any
"""An array of NumPy."""


class GaussianLayer(NamedTuple):
    """Independent Gaussian weights of one layer, float32.

    w_m, w_log_std
        Mean and log standard deviation of the weights, (i, o).
    b_m, b_log_std
        The same of the biases, (o,).
    """

    w_m: Values
    w_log_std: Values
    b_m: Values
    b_log_std: Values


Layers = tuple[GaussianLayer, ...]


def init_layers(
    rng: np.random.Generator,
    sizes: tuple[int, ...],
    *,
    first_std: float = 0.01,
    bias_std: float = 0.5,
    zero_output: bool = False,
    is_direct: bool = False,
) -> Layers:
    """Draw initial means and almost no variance.

    Means are N(0, 2 / fan_in) below a rectifier and N(0, 1 / fan_in) in the last layer.

    first_std
        Initial standard deviation of every weight, as a share of the spread of the means.
    bias_std
        Spread of the hidden biases.
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
        b_m = bias_std * rng.standard_normal(fan_out)
        log_std = np.log(first_std * spread)
        values = (
            0.0 * w_m if is_last and zero_output else w_m,
            np.full_like(w_m, log_std),
            0.0 * b_m if is_last else b_m,
            np.full_like(b_m, log_std),
        )
        layers.append(GaussianLayer(*(np.float32(v) for v in values)))
    if is_direct:
        w_m, w_log_std, *biases = layers[-1]
        shape = (sizes[0], sizes[-1])
        log_std = np.full(shape, np.log(first_std / np.sqrt(sizes[0])), np.float32)
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
    """Compute the outputs of a drawn network; (n, o).

    log_widths
        Log width of every hidden unit's kink, layer by layer, (h,); None: rectifiers.
    """
    z = x
    for depth, (w, b) in enumerate(drawn):
        if depth > 0:
            width = None if log_widths is None else np.exp(np.float64(log_widths[depth - 1]))
            z = np.maximum(z, 0.0) if width is None else _soft_relu(z, width)
        z = (np.hstack([z, x]) if len(w) > z.shape[1] else z) @ w + b
    return z


def _soft_relu(a: np.ndarray, width: np.ndarray) -> np.ndarray:
    """E[max(0, a + width e)], e ~ N(0, 1)."""
    z = a / width
    return a * special.ndtr(z) + width * np.exp(-0.5 * z * z - 0.5 * _LOG_2PI)
