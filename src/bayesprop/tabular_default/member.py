"""One member of the ensemble: a network for the mean; of numbers, a network for the noise.

Neither network sends gradients to the other. A single loss for both lets the noise run away where
targets repeat exactly: its own explanation of a small error pulls the mean still closer.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32

from bayesprop.tabular_default.gaussian_network import GaussianLayer, Layers, init_layers

LEAST_DOF = 3.0
"""Least degrees of freedom of the noise: a variance of at most three squared scales."""

LEAST_GAP = 1e-4
"""Between the thresholds of ordered classes."""

DOF_START = 10.0
LOG_NOISE_VAR_START = -1.5
WIDTH_START = 0.25

NOTHING = np.zeros(0, np.float32)


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
    thresholds
        Between ordered classes, as `kernel_classes` has them, (c - 1,); else empty.
    log_widths
        Log width of the kink of every hidden unit of the mean network, layer by layer, (h,).
    """

    mean: Layers
    noise: Layers
    log_noise: Float32[np.ndarray, " o"]
    own_log_noise: Float32[np.ndarray, " o"]
    raw_dof: Float32[np.ndarray, " o"]
    thresholds: Float32[np.ndarray, " t"]
    log_widths: tuple[Float32[np.ndarray, " h"], ...]

    def validate(self) -> None:
        """Raise ValueError unless all layers are those of one network."""
        (n_inputs, *hidden, n_outputs), noise = self.sizes
        if not hidden or len(self.noise) == 1 or 0 in (n_inputs, *hidden, n_outputs, *noise):
            raise ValueError("every network must have inputs, a hidden layer of units and outputs")
        beyond_mean, beyond_noise = (
            [len(layer.w_m) - n for layer, n in zip(network, sizes, strict=False)]
            for network, sizes in zip((self.mean, self.noise), self.sizes, strict=True)
        )
        if beyond_mean[-1] == n_inputs:  # the last layer takes the inputs, too
            beyond_mean[-1] = 0
        n_noises = noise[-1] if self.noise else 0
        widths = [len(one) for one in self.log_widths]
        is_chain = not any(beyond_mean + beyond_noise)
        if not is_chain or widths != hidden or len(self.log_noise) != n_noises:
            raise ValueError("the arrays of the networks do not fit together")

    @property
    def sizes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Inputs, hidden units and outputs of the mean network and of the noise network."""
        n_inputs = len(self.mean[0].w_m)
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
        thresholds=NOTHING,
        log_widths=_widths(sizes),
    )


def init_classes(rng: np.random.Generator, sizes: tuple[int, ...]) -> Member:
    """Start a network of logits nearly deterministic; its last layer takes the inputs too."""
    return Member(
        init_layers(rng, sizes, is_direct=True),
        (),
        log_noise=NOTHING,
        own_log_noise=NOTHING,
        raw_dof=NOTHING,
        thresholds=NOTHING,
        log_widths=_widths(sizes),
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


def _widths(sizes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    return tuple(np.full(n, np.log(WIDTH_START), np.float32) for n in sizes[1:-1])


def flat(member: Member) -> Float32[np.ndarray, " p"]:
    """Put all parameters in one vector, in the order of the fields."""
    mean, noise, *vectors, log_widths = member
    return np.concatenate([*chain(*mean, *noise), *vectors, *log_widths], axis=None)


def unflat(values: Float32[np.ndarray, " p"], like: Member) -> Member:
    """Undo `flat` for a member of the same sizes."""
    mean, noise, *vectors, log_widths = like
    every = [*chain(*mean, *noise), *vectors, *log_widths]
    parts = iter(np.split(values, np.cumsum([one.size for one in every])[:-1]))

    def taken(some: Iterable[np.ndarray]) -> list[np.ndarray]:
        return [next(parts).reshape(one.shape) for one in some]

    networks = [tuple(GaussianLayer(*taken(layer)) for layer in net) for net in (mean, noise)]
    return Member._make([*networks, *taken(vectors), tuple(taken(log_widths))])
