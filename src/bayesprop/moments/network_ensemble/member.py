"""One member of the ensemble: a network for the mean; of numbers, a network for the noise.

Neither network sends gradients to the other. A single loss for both lets the noise run away where
targets repeat exactly: its own explanation of a small error pulls the mean still closer.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32

from bayesprop.moments.network_ensemble.gaussian_network import (
    GaussianLayer,
    Layers,
    Values,
    init_layers,
)

LEAST_DOF = 3.0
"""Least degrees of freedom of the noise: a variance of at most three squared scales."""

LEAST_GAP = 1e-4
"""Between the thresholds of ordered classes."""

DOF_START = 10.0
LOG_NOISE_VAR_START = -1.5
WIDTH_START = 0.25

NOTHING = np.zeros(0, np.float32)
_NETWORKS = "mean", "noise"
_VECTORS = "log_noise", "own_log_noise", "raw_dof"
_WIDTHS, _THRESHOLDS = "log_widths", "thresholds"


class Member(NamedTuple):
    """One network each for the mean and for the log noise variance; float32.

    Classes have no noise: their mean is that of the logits, and all that is of noise is empty.
    Ordered classes have one latent output, and thresholds.

    log_noise
        Log noise variance around which the noise network's output varies, (o,).
    own_log_noise
        The same as the mean network sees it, fitted to its own loss, (o,).
    raw_dof
        softplus⁻¹(degrees of freedom - 3), (o,).
    log_widths
        Log width of the kink of every hidden unit of the mean network, layer by layer, (h,).
    thresholds
        Between ordered classes, as `kernel_classes` has them, (c - 1,); else empty.
    """

    mean: Layers
    noise: Layers
    log_noise: Values
    own_log_noise: Values
    raw_dof: Values
    log_widths: tuple[Values, ...]
    thresholds: Values = NOTHING

    @property
    def sizes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Inputs, hidden units and outputs of the mean network and of the noise network."""
        n_inputs = self.mean[0].w_m.shape[0]
        mean, noise = ([layer.b_m.shape[0] for layer in net] for net in (self.mean, self.noise))
        return (n_inputs, *mean), (n_inputs, *noise)

    @property
    def is_direct(self) -> bool:
        """Whether the last layer of the mean network takes the inputs too."""
        *_, below, last = self.mean
        return last.w_m.shape[0] > below.b_m.shape[0]


def init_member(
    rng: np.random.Generator,
    sizes: tuple[int, ...],
    noise_sizes: tuple[int, ...],
    *,
    is_direct: bool,
) -> Member:
    """Start nearly deterministic, with the same noise everywhere."""
    n_out = sizes[-1]
    log_noise = np.full(n_out, LOG_NOISE_VAR_START, np.float32)
    return Member(
        mean=init_layers(rng, sizes, is_direct=is_direct),
        noise=init_layers(rng, (sizes[0], *noise_sizes, n_out), zero_output=True),
        log_noise=log_noise,
        own_log_noise=log_noise,
        raw_dof=np.full(n_out, np.log(np.expm1(DOF_START - LEAST_DOF)), np.float32),
        log_widths=_widths(sizes),
    )


def init_classes(rng: np.random.Generator, sizes: tuple[int, ...]) -> Member:
    """Start a network of logits nearly deterministic; its last layer takes the inputs too."""
    return Member(
        init_layers(rng, sizes, is_direct=True), (), NOTHING, NOTHING, NOTHING, _widths(sizes)
    )


def init_ordered(
    rng: np.random.Generator, sizes: tuple[int, ...], share: Float[np.ndarray, " c"]
) -> Member:
    """Start a network of inputs and hidden units, whose thresholds give classes their shares."""
    below = np.cumsum(share / share.sum())[:-1]
    ends = np.log(below) - np.log1p(-below)
    gaps = np.log(np.maximum(np.diff(ends) - LEAST_GAP, LEAST_GAP))
    thresholds = np.concatenate([ends[:1], gaps]).astype(np.float32)
    return init_classes(rng, (*sizes, 1))._replace(thresholds=thresholds)


def _widths(sizes: tuple[int, ...]) -> tuple[Values, ...]:
    return tuple(np.full(n, np.log(WIDTH_START), np.float32) for n in sizes[1:-1])


def named(member: Member) -> dict[str, np.ndarray]:
    """Name every array: `mean.0.w_m` holds the mean weights of the first layer."""
    arrays = {}
    for network in _NETWORKS:
        for depth, layer in enumerate(getattr(member, network)):
            arrays |= {f"{network}.{depth}.{part}": a for part, a in layer._asdict().items()}
    arrays |= {name: getattr(member, name) for name in _VECTORS}
    if len(member.thresholds):
        arrays[_THRESHOLDS] = member.thresholds
    return arrays | {f"{_WIDTHS}.{depth}": a for depth, a in enumerate(member.log_widths)}


def from_named(arrays: dict[str, np.ndarray]) -> Member:
    """Undo `named`; KeyError where an array is missing."""

    def count(prefix: str) -> int:
        return sum(name.startswith(f"{prefix}.") for name in arrays)

    parts = GaussianLayer._fields
    mean, noise = (
        tuple(
            GaussianLayer(*(arrays[f"{network}.{depth}.{part}"] for part in parts))
            for depth in range(count(network) // len(parts))
        )
        for network in _NETWORKS
    )
    widths = tuple(arrays[f"{_WIDTHS}.{depth}"] for depth in range(count(_WIDTHS)))
    member = Member(mean, noise, *(arrays[name] for name in _VECTORS), log_widths=widths)
    return member._replace(thresholds=arrays.get(_THRESHOLDS, NOTHING))


def is_part(name: str) -> bool:
    """Whether `named` gives this name to an array."""
    is_vector = name in (*_VECTORS, _THRESHOLDS)
    return is_vector or name.startswith((*(f"{n}." for n in _NETWORKS), f"{_WIDTHS}."))


def shapes(member: Member) -> dict[str, tuple[int, ...]]:
    """Shapes that arrays of its sizes have, by name."""
    rng, (mean, noise) = np.random.default_rng(0), member.sizes
    if member.noise:
        like = init_member(rng, mean, noise[1:-1], is_direct=member.is_direct)
    else:
        like = init_classes(rng, mean)
    arrays = named(like._replace(thresholds=member.thresholds))
    return {name: array.shape for name, array in arrays.items()}


def flat(member: Member) -> Float32[np.ndarray, " p"]:
    """Put all parameters in one vector, in the order of `named`."""
    vectors = (getattr(member, name) for name in (*_VECTORS, _THRESHOLDS))
    layers = chain(*member.mean, *member.noise)
    return np.concatenate([*layers, *vectors, *member.log_widths], axis=None)


def unflat(values: Float32[np.ndarray, " p"], like: Member) -> Member:
    """Undo `flat` for a member of the same sizes."""
    arrays = named(like)
    parts = np.split(values, np.cumsum([a.size for a in arrays.values()])[:-1])
    pairs = zip(arrays.items(), parts, strict=True)
    return from_named({name: part.reshape(a.shape) for (name, a), part in pairs})
