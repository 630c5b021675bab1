"""Two estimates of the model evidence log p(y | X), the paper's future work; plain NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from bayesprop.moments.pbp_state import PBPState

LOG_2PI = float(np.log(2.0 * np.pi))
Moments = tuple[Float[np.ndarray, "n o"], Float[np.ndarray, "n o"]]


def _gaussian_log_partition(prec: np.ndarray, prec_mean: np.ndarray) -> float:
    return float(np.sum(0.5 * (LOG_2PI - np.log(prec) + prec_mean**2 / prec)))


def _gamma_log_partition(shape: np.ndarray, rate: np.ndarray) -> float:
    return float(np.sum(gammaln(shape) - shape * np.log(rate)))


def without_factors(state: PBPState, n_removed: float) -> PBPState | None:
    """Q divided by so many average likelihood factors; None where that is no distribution."""
    prec = [1.0 / v - n_removed * f for v, f in zip(state.v, state.lik_prec, strict=True)]
    prec_mean = [
        m / v - n_removed * f for m, v, f in zip(state.m, state.v, state.lik_prec_mean, strict=True)
    ]
    shape = state.noise_shape - n_removed * state.lik_noise_shape
    rate = state.noise_rate - n_removed * state.lik_noise_rate
    if any((p <= 0.0).any() for p in prec) or (shape <= 1.0).any() or (rate <= 0.0).any():
        return None
    return state._replace(
        m=tuple(pm / p for p, pm in zip(prec, prec_mean, strict=True)),
        v=tuple(1.0 / p for p in prec),
        noise_shape=shape,
        noise_rate=rate,
    )


def _log_partition(state: PBPState) -> float:
    weights = sum(
        _gaussian_log_partition(1.0 / v, m / v) for m, v in zip(state.m, state.v, strict=True)
    )
    return weights + _gamma_log_partition(state.noise_shape, state.noise_rate)


def ep_log_evidence(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    predict_moments: Callable[[PBPState, np.ndarray], Moments],
) -> float:
    """EP's estimate of log p(y | X), nats in standardised units, after stochastic EP on (x, y).

    With q = p0 f^n, log Z = Phi(q) - Phi(p0) + sum_n [log Z_n - Phi(q) + Phi(q / f)] (Minka 2001,
    section 4; the averaged factor of Li et al. 2015 stands for each of the n). p0 is what is left
    of q without the data: the weight prior at its present precision, so that this is the evidence
    of the model with that precision. NaN where a division leaves no distribution.
    """
    n = len(x)
    cavity, prior = without_factors(state, 1.0), without_factors(state, float(n))
    if cavity is None or prior is None:
        return float("nan")
    m, v = predict_moments(cavity, x)
    var = v + cavity.noise_var
    log_z = float(np.sum(-0.5 * (LOG_2PI + np.log(var) + (y - m) ** 2 / var)))
    phi = _log_partition(state)
    return phi - _log_partition(prior) + log_z - n * (phi - _log_partition(cavity))
