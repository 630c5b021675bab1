"""A few rows predicted by every kind of distribution that a map may come after."""

from __future__ import annotations

import numpy as np

from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.distributions.predictive import GaussianPredictive, StudentTPredictive
from bayesprop.targets.bijectors import CENSORED, NONNEGATIVE, SHARE, Arsinh, Identity
from bayesprop.targets.censoring import CensoredMap
from bayesprop.targets.kinds import CountScores

RNG = np.random.default_rng(0)
N = 4
MEAN, EPISTEMIC, NOISE = RNG.normal(size=N), RNG.uniform(0.05, 0.3, N), RNG.uniform(0.1, 0.5, N)


def noise_mixture(rng, *shape):
    """Members of every moment at random, (s, n, ...)."""
    return MixturePredictive.of_networks(
        f_mean=rng.normal(size=shape),
        f_var=rng.uniform(0.05, 0.3, shape),
        log_noise_mean=rng.normal(size=shape) - 2.0,
        log_noise_var=rng.uniform(0.05, 0.3, shape),
        dof=rng.uniform(8.0, 30.0, shape),
    )


LATENTS = {
    "gaussian": GaussianPredictive(MEAN, EPISTEMIC, NOISE),
    "student": StudentTPredictive(MEAN, EPISTEMIC, NOISE, np.array([5.0, 8.0, 12.0, 40.0])),
    "mixture": MixturePredictive.of(RNG.normal(size=(5, N)), RNG.uniform(0.05, 0.6, (5, N))),
    "noise mixture": noise_mixture(RNG, 3, N),
}
FEW = CountScores(np.array([0.5, 1.5, 2.5, 4.5, 9.5]), np.array([0.3, 0.9, 1.3, 1.8, 2.4]))
"""Of counts up to ten or so."""


def from_zero(most=np.inf, **parts):
    """The map of targets from 0 to the most that they can be."""
    return CensoredMap(NONNEGATIVE if most == np.inf else SHARE, Arsinh(**parts), 0.0, most)


def limited(low, high, map=None):
    """The map of targets between limits of detection."""
    return CensoredMap(CENSORED, map or Identity(), low, high)
