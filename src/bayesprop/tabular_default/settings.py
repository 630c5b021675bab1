"""What a fit is given besides the data, chosen by their size, and numbers of all priors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

SHAPE = 4.48
"""Shape of the inverse-gamma prior of a weight variance."""

LOG_WIDTH, WIDTH_PRECISION = math.log(0.5), 0.3
"""Mean and precision of the Gaussian prior of the log width of a kink."""

TILT_LIMIT = 2.0
"""Most that is taken for l_v / 2 in training: exp of a log variance that nobody knows yet."""

LEAST_DOF = 3.0
"""Least degrees of freedom of the noise: a variance of at most three squared scales."""

LEAST_GAP = 1e-4
"""Between the thresholds of ordered classes."""


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


PRIORS = Priors()


@dataclass(frozen=True)
class EnsembleSettings:
    """Everything that a fit is given besides the data; see `settings_for`.

    hidden_layer_sizes, noise_layer_sizes
        Units of the hidden layers of the mean networks, and of the separate noise networks.
    n_members
        Networks in the ensemble, alike but for their random start.
    n_steps, batch_size, step_size
        Adam's steps, rows in each, and the first step size, which falls by a cosine to 1 %.
    kl_warm_up, noise_warm_up
        Shares of the steps over which the weight of the KL rises from 0 to 1, and the share of the
        noise network that the mean network sees goes from 1/2 to its last value.
    noise_shares
        These last values, which the members take in turn, from 0 (the mean network weighs all rows
        alike: better means) to 1 (by their noise: better densities).
    mean_least_dofs
        Least degrees of freedom that the mean networks take the noise to have, which the members
        take in turn: 3, as the noise networks say; many, a Gaussian, which leaves no row alone.
    is_direct
        Whether the last layers of the mean networks take the inputs too.
    learns_processes
        Whether Gaussian processes learn what the networks leave, and the targets, and the nearest
        rows are asked.
    are_exchangeable
        Whether a new row may be one of the inputs of an old one, as old rows may: twins then speak
        for each other. Not where rows come in time.
    priors
        See `Priors`.
    """

    hidden_layer_sizes: tuple[int, ...] = (50,)
    noise_layer_sizes: tuple[int, ...] = (20,)
    n_members: int = 6
    n_steps: int = 20_000
    batch_size: int = 64
    step_size: float = 0.01
    kl_warm_up: float = 0.8
    noise_warm_up: float = 0.3
    noise_shares: tuple[float, ...] = (0.5, 1.0)
    mean_least_dofs: tuple[float, ...] = (30.0, 3.0, 30.0, 3.0, 3.0, 3.0)
    is_direct: bool = False
    learns_processes: bool = True
    are_exchangeable: bool = True
    priors: Priors = PRIORS

    def noise_share(self, member: int) -> float:
        """Return the share that this member takes."""
        return self.noise_shares[member % len(self.noise_shares)]

    def mean_least_dof(self, member: int) -> float:
        """Return the degrees of freedom that this member takes."""
        return self.mean_least_dofs[member % len(self.mean_least_dofs)]
