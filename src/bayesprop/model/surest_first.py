"""Losses in the order of a model's confidence; rows of equal confidence share theirs."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def surest_first(
    uncertainty: Float[np.ndarray, " n"], loss: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return uncertainties of rows, ascending, and their losses.

    Among rows of equal uncertainty these are their mean: what a random order would give on average.
    """
    levels, tie, size = np.unique(uncertainty, return_inverse=True, return_counts=True)
    mean_loss = np.bincount(tie, weights=loss, minlength=len(levels)) / size
    return np.repeat(levels, size), np.repeat(mean_loss, size)
