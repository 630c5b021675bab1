"""Losses in the order of a model's confidence; rows of equal confidence share theirs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class SurestFirst(NamedTuple):
    """Rows from the least to the most uncertain.

    uncertainty
        In its own unit, ascending.
    loss
        Each row's, or among rows of equal uncertainty their mean: what a random order of them
        would give on average.
    """

    uncertainty: Float[np.ndarray, " n"]
    loss: Float[np.ndarray, " n"]


def surest_first(
    uncertainty: Float[np.ndarray, " n"], loss: Float[np.ndarray, " n"]
) -> SurestFirst:
    """Sort rows by their uncertainty and average losses over ties."""
    levels, tie, size = np.unique(uncertainty, return_inverse=True, return_counts=True)
    mean_loss = np.bincount(tie, weights=loss, minlength=len(levels)) / size
    return SurestFirst(np.repeat(levels, size), np.repeat(mean_loss, size))
