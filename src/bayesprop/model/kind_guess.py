"""What kind of target a column of numbers seems to hold."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bayesprop.model.count_scores import CountScores
from bayesprop.model.left_out import left_out_log_likelihood
from bayesprop.model.target_kinds import learnt_map
from bayesprop.model.target_maps import COUNT, NUMBERS, POSITIVE, SHARE, Logit, SoftplusInverse

_CLEAR_GAIN = 0.1
_FEW_ROWS, _FEW_VALUES = 50, 3


def guessed_kind(
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"] | None = None,
) -> str:
    """Return one of `KINDS`: numbers where nothing speaks clearly for another.

    Whole numbers from 0 on are counts, numbers between 0 and 1 shares. Numbers above 0 are positive
    if their map gains a tenth of a nat a row for a ridge on rows left out.

    x
        Standardised inputs.
    """
    if weight is not None:
        x, y, weight = x[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
    if len(y) < _FEW_ROWS or len(np.unique(y)) < _FEW_VALUES:
        return NUMBERS
    if CountScores.holds(y).all() and np.min(y) == 0.0:
        return COUNT
    if Logit.holds(y).all():
        return SHARE
    if not SoftplusInverse.holds(y).all():
        return NUMBERS
    weight = np.ones(len(y)) if weight is None else weight
    learnt = learnt_map(POSITIVE, x, y[:, None], weight)
    scale = float(np.std(y))
    targets = np.stack([y / scale, learnt.forward(y)], axis=1)
    slopes = np.array([-np.log(scale), np.average(learnt.log_slope(y), weights=weight)])
    plain, mapped = left_out_log_likelihood(x, targets, weight) + slopes
    return POSITIVE if mapped - plain > _CLEAR_GAIN else NUMBERS
