"""Kinds of targets: the map of each, learnt from rows or read from a file.

A method learns the mapped target z = h(y) as it would any number; what it predicts of z is brought
back, so that no bound can leave the support. A map says of a target where it may lie (`check`),
h and its inverse g, and their slopes, elementwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from bayesprop.model.count_scores import CountScores, learnt_scores
from bayesprop.model.left_out import left_out_log_likelihood
from bayesprop.model.target_maps import (
    COUNT,
    NUMBERS,
    POSITIVE,
    SHARE,
    Logit,
    SoftplusInverse,
    TargetMap,
)

KINDS = (NUMBERS, POSITIVE, SHARE, COUNT)
_FEW_ROWS = 20
_SCALES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)

MAPS: dict[str, type[TargetMap]] = {
    POSITIVE: SoftplusInverse,
    SHARE: Logit,
    COUNT: CountScores,
}
"""The map of every kind that is not numbers as they are."""


def learnt_map(
    kind: str,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    weight: Float[np.ndarray, " n"] | None = None,
    exposure: Float[np.ndarray, " n"] | None = None,
) -> TargetMap:
    """Learn the map of a kind from training rows; ValueError where a target leaves its support.

    x
        Standardised inputs: a ridge on them judges scales of `SoftplusInverse` on rows left out,
        and says where in its interval a count lies.
    weight
        Of each row; rows of weight 0 teach nothing.
    exposure
        Of counts: how long, or on how many, each was counted. None: all alike.
    """
    MAPS[kind].check(y)
    if y.shape[1] != 1:
        raise ValueError(
            f"target_kind={kind!r} takes one target, got {y.shape[1]}: fit one model a target"
        )
    counted = np.ones(len(y), bool) if weight is None else weight > 0.0
    weight = np.ones(len(y)) if weight is None else weight
    x, y, weight = x[counted], y[counted, 0], weight[counted]
    exposure = None if exposure is None else exposure[counted]
    if kind == POSITIVE:
        return _learnt_softplus(x, y, weight)
    return Logit() if kind == SHARE else learnt_scores(x, y, weight, exposure)


def _learnt_softplus(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> SoftplusInverse:
    """Choose the scale by the left-out likelihood of a ridge, its Jacobian included."""
    largest = SoftplusInverse(3.0 * float(np.max(y)))
    if len(y) < _FEW_ROWS:
        return largest
    median = float(np.median(y))
    maps = [largest, *(SoftplusInverse(scale * median) for scale in _SCALES)]
    maps = [one for one in maps if one.scale <= largest.scale]
    z, log_slope = (
        np.stack([part(y) for part in parts], axis=1)
        for parts in ([one.forward for one in maps], [one.log_slope for one in maps])
    )
    scores = left_out_log_likelihood(x, z, weight)
    scores = scores + np.average(log_slope, axis=0, weights=weight)
    return maps[int(np.argmax(scores))]


def map_from_dict(stored: dict[str, Any]) -> TargetMap:
    """Rebuild a map from `to_dict`; ValueError where it is none."""
    kind = stored["kind"]
    if kind == SHARE:
        return Logit()
    if kind == POSITIVE:
        scale = float(stored["scale"])
        if not 1e-300 < scale < 1e300:
            raise ValueError(f"the scale of positive targets must be > 0, got {scale!r}")
        return SoftplusInverse(scale)
    if kind != COUNT:
        raise ValueError(f"the target must be of kind {', '.join(MAPS)}, got {str(kind)[:40]!r}")
    return CountScores.from_dict(stored)
