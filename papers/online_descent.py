"""A ReLU network with one output that learns one datum at a time: backpropagation, Graves' VI.

The baselines "BP" and "VI" of Hernández-Lobato & Adams (2015, section 5.1): stochastic gradient
descent with momentum, a step for every datum. Models and slopes are those of `point_network` and
`graves_vi` with batches of one row; the loops are compiled (`online_kernel.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int

from bayesprop.model.network_likelihoods import LOG_NOISE_VAR_START
from papers import online_kernel

Vector = Float32[np.ndarray, " w"]
Inputs = Float[np.ndarray, "n d"]
Targets = Float[np.ndarray, " n"]
Orders = Iterable[Int[np.ndarray, " n"]]


class Shape(NamedTuple):
    """The architecture as the compiled loops take it: sizes, and the scale of every layer."""

    sizes: Int[np.ndarray, " l+1"]
    scales: Float32[np.ndarray, " l"]


@dataclass(frozen=True)
class OnlineNetwork:
    """The architecture: ReLU hidden layers and one linear output, weights in one vector.

    sizes
        Inputs, hidden units layer by layer, 1.
    is_scaled
        Whether every layer divides by sqrt(n_in + 1), as in PBP's model (`mlp_apply`); else as in
        `plain_apply`.
    """

    sizes: tuple[int, ...]
    is_scaled: bool = True

    def __post_init__(self) -> None:
        if len(self.sizes) < 2 or min(self.sizes) < 1 or self.sizes[-1] != 1:
            raise ValueError(
                f"sizes must be two ints >= 1 or more, the last of them 1, got {self.sizes}"
            )

    @property
    def n_weights(self) -> int:
        """Weights and biases of all layers."""
        return sum((a + 1) * b for a, b in pairwise(self.sizes))

    @property
    def n_units(self) -> int:
        """Inputs and hidden units, and a bias for every layer."""
        return sum(a + 1 for a in self.sizes[:-1])

    @cached_property
    def shape(self) -> Shape:
        """What the compiled loops take."""
        fan_in = np.array(self.sizes[:-1]) + 1.0
        scales = 1.0 / np.sqrt(fan_in) if self.is_scaled else np.ones_like(fan_in)
        return Shape(np.array(self.sizes), scales.astype(np.float32))

    def start(self, rng: np.random.Generator) -> Vector:
        """Draw weights from N(0, start_std²)."""
        return (self.start_std * rng.standard_normal(self.n_weights)).astype(np.float32)

    @property
    def start_std(self) -> Vector:
        """1 for every weight, over sqrt(n_in + 1) where the layers do not divide by it."""
        sizes = self.sizes[:-1]
        stds = [1.0 if self.is_scaled else (a + 1.0) ** -0.5 for a in sizes]
        counts = [(a + 1) * b for a, b in pairwise(self.sizes)]
        return np.repeat(stds, counts).astype(np.float32)

    def layers(self, w: Vector) -> list[Float32[np.ndarray, "i+1 o"]]:
        """View the weights as one table a layer, the bias in its last row."""
        ends = np.cumsum([(a + 1) * b for a, b in pairwise(self.sizes)])
        return [
            part.reshape(a + 1, b)
            for part, (a, b) in zip(np.split(w, ends[:-1]), pairwise(self.sizes), strict=True)
        ]

    def predict(self, w: Vector, x: Inputs) -> Float32[np.ndarray, " n"]:
        """Output at every row."""
        x = self.rows(x)
        out = np.empty(len(x), np.float32)
        online_kernel.predict_rows(w, *self.shape, x, *_rooms(self.n_units), out)
        return out

    def rows(self, x: Inputs) -> Float32[np.ndarray, "n d"]:
        """Return rows as the compiled loops take them; those check no bounds."""
        if np.ndim(x) != 2 or np.shape(x)[1] != self.sizes[0]:
            raise ValueError(f"x must be (n, {self.sizes[0]}), got shape {np.shape(x)}")
        return np.ascontiguousarray(x, np.float32)


class PointFit(NamedTuple):
    """Weights, and the sum of squared errors of every epoch, each row before its step."""

    w: Vector
    losses: list[float]

    @property
    def is_finite(self) -> bool:
        """Whether no step left the finite numbers."""
        return bool(np.isfinite(self.losses).all() and np.isfinite(self.w).all())


class GravesFit(NamedTuple):
    """A posterior of independent Gaussians over the weights, and a noise variance.

    m, rho
        Means, and inverse softplus of the standard deviations.
    noise_var
        In squared units of the targets.
    losses
        Sum of -log p(y | w) over every epoch, each row before its step, nats.
    """

    m: Vector
    rho: Vector
    noise_var: float
    losses: list[float]

    @property
    def is_finite(self) -> bool:
        """Whether no step left the finite numbers."""
        numbers = (self.losses, self.m, self.rho, self.noise_var)
        return all(bool(np.isfinite(part).all()) for part in numbers)

    def sample(self, rng: np.random.Generator) -> Vector:
        """Draw weights."""
        std = np.logaddexp(0.0, self.rho)
        return (self.m + std * rng.standard_normal(self.m.size)).astype(np.float32)


def fit_point(
    network: OnlineNetwork,
    w: Vector,
    x: Inputs,
    y: Targets,
    orders: Orders,
    *,
    learning_rate: float,
    momentum: float,
    weight_decay: float,
) -> PointFit:
    """Minimise squared error by backpropagation, one epoch for every one of `orders`.

    For each row, v <- momentum v - learning_rate (dE/dw + weight_decay w) and w <- w + v, with
    E = (y - f)² / 2.

    w
        Where to start.
    orders
        Row numbers in the order of visit.
    """
    data = _checked(network, w, x, y)
    w, velocity = w.copy(), np.zeros_like(w)
    rates = np.array([learning_rate, momentum, weight_decay], np.float32)
    rooms = _rooms(network.n_units, network.n_units)
    losses = [
        online_kernel.point_epoch(w, velocity, *network.shape, *data, order, rates, *rooms)
        for order in _orders(orders, len(x))
    ]
    return PointFit(w, losses)


def fit_graves(
    network: OnlineNetwork,
    m: Vector,
    x: Inputs,
    y: Targets,
    orders: Orders,
    *,
    learning_rate: float,
    momentum: float,
    seed: int,
    init_std: float | Vector = 0.05,
    log_noise_var: float = LOG_NOISE_VAR_START,
) -> GravesFit:
    """Descend the bound of Graves (2011), one epoch for every one of `orders`.

    The loss of a step is -log p(y | w) + KL / n at one draw of the weights. Slopes in means,
    standard deviations and log noise variance are those of `graves_vi`, and so is the prior, which
    follows the weights.

    m
        Means of the weights at the start.
    seed
        Of the draws, below 2**64.
    init_std
        Standard deviation of the weights at the start, one for all or one each.
    log_noise_var
        Log of the noise variance at the start.
    """
    data = _checked(network, m, x, y)
    m, rho = m.copy(), np.zeros_like(m)
    rho += np.log(np.expm1(init_std))
    noise = np.array([log_noise_var, 0.0], np.float32)
    rates = np.array([learning_rate, momentum], np.float32)
    key = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
    n, units = network.n_weights, network.n_units
    velocities = _rooms(n, n)
    rooms = _rooms(units, units, n + n % 2, n, n, n, n, 2)
    losses = [
        online_kernel.graves_epoch(
            *(m, rho, *velocities, noise), *network.shape, *data, order, rates, key, step, *rooms
        )
        for order, step in _with_steps(_orders(orders, len(x)))
    ]
    with np.errstate(over="ignore"):
        return GravesFit(m, rho, float(np.exp(noise[0])), losses)


def _rooms(*sizes: int) -> list[Vector]:
    return [np.zeros(size, np.float32) for size in sizes]


def _checked(network: OnlineNetwork, w: Vector, x: Inputs, y: Targets) -> tuple[Inputs, Targets]:
    if w.shape != (network.n_weights,) or w.dtype != np.float32:
        raise ValueError(
            f"the weights must be {network.n_weights} float32, got {w.dtype} of shape {w.shape}"
        )
    if np.shape(y) != (len(x),):
        raise ValueError(f"y must have one number for each of {len(x)} rows, got {np.shape(y)}")
    return network.rows(x), np.ascontiguousarray(y, np.float32)


def _orders(orders: Orders, n: int) -> Iterator[Int[np.ndarray, " n"]]:
    for order in orders:
        order = np.ascontiguousarray(order, np.int64)
        if order.size and not (order.min() >= 0 and order.max() < n):
            raise ValueError(f"orders must hold row numbers, each >= 0 and < {n}")
        yield order


def _with_steps(orders: Orders) -> Iterator[tuple[Int[np.ndarray, " n"], int]]:
    """Name with every order how many steps came before."""
    before = 0
    for order in orders:
        yield order, before
        before += len(order)
