"""Training rows whose missing values are drawn anew, by what a first fit learnt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float
from sklearn.utils import check_random_state

from bayesprop.distributions.gaussian_copula import NO_INPUT_MODEL
from bayesprop.model.task import Fitted
from bayesprop.numerics.rows import Rows

if TYPE_CHECKING:
    from bayesprop.estimators.shell import Seed

_MOST_CANDIDATES, _LEAST_CANDIDATES, _MOST_PREDICTED = 32, 4, 2**18
_ROWS_AT_ONCE = 4096


def filled_as_learnt(
    fitted: Fitted, rows: Rows, gap: Bool[np.ndarray, "n d"], seed: Seed
) -> Float[np.ndarray, "n d"]:
    """Return training rows with their gaps drawn anew, as a fit takes them to be.

    Of some candidates, drawn without the target, one is kept by how likely it makes the target:
    data augmentation (Tanner & Wong 1987) by sampling-importance resampling (Rubin 1987).
    """
    if fitted.inputs is None:
        raise ValueError(NO_INPUT_MODEL)
    d, places = rows.x.shape[1], np.flatnonzero(gap.any(axis=1))
    inputs, rng = fitted.inputs.model.of_columns(d), check_random_state(seed)
    n = int(np.clip(_MOST_PREDICTED // len(places), _LEAST_CANDIDATES, _MOST_CANDIDATES))
    filled = rows.x.copy()
    for first in range(0, len(places), _ROWS_AT_ONCE):
        at = places[first : first + _ROWS_AT_ONCE]
        known = np.where(gap[at], np.nan, rows.x[at])
        candidates = inputs.completed(np.repeat(known, n, axis=0), rng)
        y = np.repeat(rows.y[at], n, axis=0)
        y = y[:, 0] if getattr(fitted.task, "is_vector", False) else y
        log_density = fitted.predict(candidates).log_prob(y).reshape(len(at), n, -1)
        filled[at] = candidates.reshape(len(at), n, d)[
            np.arange(len(at)), _drawn(log_density.sum(axis=2), rng)
        ]
    return filled


def _drawn(log_weight: Float[np.ndarray, "n c"], rng: np.random.RandomState) -> np.ndarray:
    """Draw one of c for every row, by unnormalised log probabilities (Gumbel's way)."""
    bounded = np.maximum(np.nan_to_num(log_weight, nan=-np.inf), -1e300)
    return np.argmax(bounded + rng.gumbel(size=bounded.shape), axis=1)
