"""True inputs given measured ones: errors in variables, with a normal population of true inputs.

    measured = true + error,   true ~ N(mean, cov),   error ~ N(0, diag(error_var))

Mean and covariance are moments of the measured rows, for equal errors those of maximum likelihood.
Given its measured value a true input is normal, too, and the mean of y is linear in its mean: the
slopes of a regression on that are not attenuated (Fuller 1987, "Measurement error models", section
1.2; Carroll et al. 2006, section 4.2, "regression calibration").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

_LEAST_VAR = 1e-9  # of standardised columns, which may be linear in each other
_MOST_NUMBERS = 2**27  # 1 GiB


class TrueInputs(NamedTuple):
    """Posterior of the true inputs: mean of every row, covariance of every kind of errors.

    kind
        Which covariance a row has.
    """

    mean: Float[np.ndarray, "n d"]
    cov: Float[np.ndarray, "m d d"]
    kind: Int[np.ndarray, " n"]


def true_inputs(
    measured: Float[np.ndarray, "n d"],
    error_var: Float[np.ndarray, "n d"],
    weight: Float[np.ndarray, " n"],
) -> TrueInputs:
    """Infer the true inputs of standardised rows, exact ones as they are.

    ValueError where errors vary more than the column, or are of too many kinds for the memory.
    """
    share, d = weight / weight.sum(), measured.shape[1]
    deviation = measured - share @ measured
    cov, mean_error_var = deviation.T @ (share[:, None] * deviation), share @ error_var
    too_large = mean_error_var > np.diag(cov)
    if too_large.any():
        raise ValueError(
            "X_std must be smaller than the standard deviation of the column, whose true values "
            f"would not vary else, got more in column {int(np.argmax(too_large))}: correct it, or "
            "leave the column out"
        )
    values, vectors = np.linalg.eigh(cov - np.diag(mean_error_var))
    population = (vectors * np.maximum(values, _LEAST_VAR)) @ vectors.T
    kinds, kind = np.unique(error_var, axis=0, return_inverse=True)
    if len(kinds) * d * d > _MOST_NUMBERS:
        raise ValueError(
            f"X_std must have fewer different rows, got {len(kinds)} for {d} columns: round it"
        )
    errors = kinds[:, :, None] * np.eye(d)
    gain = np.linalg.solve(population + errors, errors)
    kind = kind.reshape(-1)
    mean = measured - np.einsum("nd,nde->ne", deviation, gain[kind])
    return TrueInputs(mean, errors - errors @ gain, kind)
