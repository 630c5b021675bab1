"""What a regressor says about noise, as a likelihood of standardised targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from bayesprop.estimators.checks import check_positive
from bayesprop.model.network_likelihoods import (
    GaussianNoise,
    InputNoise,
    KnownNoise,
    LearnedNoise,
)
from bayesprop.model.noise_mixture import (
    LEAST_LOG_NOISE,
    MOST_LOG_NOISE,
    MOST_LOG_NOISE_VAR,
    NoiseMixturePredictive,
)

LEARNED, INPUT = "learned", "input"
_NO_TAIL = 1e6


def check_noise(noise: Any) -> None:
    """Raise ValueError unless noise is a name or a variance."""
    if isinstance(noise, str):
        if noise not in (LEARNED, INPUT):
            raise ValueError(
                f"noise must be {LEARNED!r}, {INPUT!r} or a variance in y², got {noise!r}"
            )
        return
    check_positive("noise", noise)


def gaussian_likelihood(noise: Any, y_scale: np.ndarray) -> GaussianNoise:
    """Build the likelihood of standardised targets.

    noise
        "learned" (one variance a target), "input" (it depends on the input), or a variance in y².
    y_scale
        Units of y in one standardised unit, (o,).
    """
    n_targets = len(y_scale)
    if noise == LEARNED:
        return LearnedNoise(n_targets)
    if noise == INPUT:
        return InputNoise(n_targets)
    variances = {float(noise) / float(scale) ** 2 for scale in y_scale}
    if len(variances) > 1:
        raise ValueError(
            f"noise must be {LEARNED!r} or {INPUT!r} for several outputs of different scales, got "
            f"the variance {noise!r}"
        )
    return KnownNoise(n_targets, variances.pop())


def of_input_outputs(
    m: Float[np.ndarray, "n k"], v: Float[np.ndarray, "n k"], n_targets: int
) -> NoiseMixturePredictive:
    """Predict standardised targets whose noise depends on the input.

    m, v
        Moments of the network's outputs: of the targets, and then of their log noise variances,
        which are bounded as those of `InputNoise` are. (n, 2 n_targets)
    """
    f, noise = slice(n_targets), slice(n_targets, None)
    return NoiseMixturePredictive.of(
        f_mean=m[None, :, f],
        f_var=v[None, :, f],
        log_noise_mean=np.clip(m[None, :, noise], LEAST_LOG_NOISE, MOST_LOG_NOISE),
        log_noise_var=np.minimum(v[None, :, noise], MOST_LOG_NOISE_VAR),
        dof=np.full((1, len(m), n_targets), _NO_TAIL),
    )
