"""From Gaussian outputs of a network to a predictive distribution of standardised targets."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesprop.model.network_likelihoods import GaussianNoise, InputNoise
from bayesprop.model.noise_mixture import (
    LEAST_LOG_NOISE,
    MOST_LOG_NOISE,
    MOST_LOG_NOISE_VAR,
    NoiseMixturePredictive,
)
from bayesprop.model.predictive import GaussianPredictive, Predictive

_NO_TAIL = 1e6


def of_output_moments(
    likelihood: GaussianNoise,
    params: Any,
    m: Float[np.ndarray, "n k"],
    v: Float[np.ndarray, "n k"],
) -> Predictive:
    """Predict targets: Gaussian, or with noise that depends on the input a mixture over it.

    params
        Of the likelihood.
    m, v
        Moments of the outputs. Log noise variances are bounded as those of `InputNoise` are.
    """
    if not isinstance(likelihood, InputNoise):
        noise_var = likelihood.observe(params, jnp.asarray(m)).v
        return GaussianPredictive(m, v, np.asarray(noise_var, np.float64))
    n_targets = likelihood.n_targets
    f, noise = slice(n_targets), slice(n_targets, None)
    return NoiseMixturePredictive.of(
        f_mean=m[None, :, f],
        f_var=v[None, :, f],
        log_noise_mean=np.clip(m[None, :, noise], LEAST_LOG_NOISE, MOST_LOG_NOISE),
        log_noise_var=np.minimum(v[None, :, noise], MOST_LOG_NOISE_VAR),
        dof=np.full((1, len(m), n_targets), _NO_TAIL),
    )
