"""Expectations of the probit over a Gaussian f ~ N(m, v): the doubt that is no lack of data."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy import special

_N_NODES = 64
_STEP, _REACH = 0.25, 9.0
_WIDE = 1.0  # standard deviation of f from which on the nodes cover the entropy instead


def expected_entropy(
    m: Float[np.ndarray, " n"], v: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """E[entropy of (Phi(f), 1 - Phi(f))], nats, to 1e-9.

    The entropy is a bump about 0. Where the Gaussian is narrower, it gets the nodes
    (Gauss-Hermite); where it is wider, the bump gets them (trapezoidal rule).
    """
    std = np.sqrt(v)
    entropy = np.empty_like(m)
    is_wide = std > _WIDE
    nodes, weights = np.polynomial.hermite_e.hermegauss(_N_NODES)
    narrow = _entropy(m[~is_wide, None] + std[~is_wide, None] * nodes)
    entropy[~is_wide] = narrow @ (weights / weights.sum())
    f = np.arange(-_REACH, _REACH + _STEP, _STEP)
    z = (f - m[is_wide, None]) / std[is_wide, None]
    density = np.exp(-0.5 * z * z) / (np.sqrt(2.0 * np.pi) * std[is_wide, None])
    entropy[is_wide] = _STEP * (density @ _entropy(f))
    return entropy


def _entropy(f: np.ndarray) -> np.ndarray:
    return special.entr(special.ndtr(f)) + special.entr(special.ndtr(-f))
