"""Rows on their way into a fitted model: how many at a time, and how far out they may lie."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from bayesprop.model.fitted import Encoding
from bayesprop.model.method import FURTHEST_INPUT

CHUNK_ROWS = 131_072
_LEAST_ROWS = 64
FURTHEST_FLOAT32_INPUT = 1e12


def standardised_inputs(
    estimator: Any,
    X: Float[np.ndarray, "n d"],
    first_row: int = 0,
    *,
    furthest: float = FURTHEST_INPUT,
) -> Float[np.ndarray, "n d"]:
    """Standardise rows as the fit did; FarInputError names one beyond all reason.

    first_row
        Number of the first of these rows, for the message.
    furthest
        In training standard deviations; networks in float32 square their inputs twice.
    """
    names = getattr(estimator, "feature_names_in_", None)
    return Encoding(estimator.x_scaler_, names).encode(X, furthest, first_row)


def padded(x: Float[np.ndarray, "n d"], least: int = _LEAST_ROWS) -> Float[np.ndarray, "m d"]:
    """Fill up with zero rows to a power of two, at least `least`.

    Few shapes mean few compilations; and a row's sums, taken in float32, no longer depend on how
    many rows come with it.
    """
    n = max(least, 1 << (len(x) - 1).bit_length())
    return np.concatenate([x, np.zeros((n - len(x), x.shape[1]), x.dtype)])
