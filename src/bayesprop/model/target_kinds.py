"""Kinds of targets: the map of each, learnt from rows or read from a file; a guess by the rows."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.model.censored_arsinh import CensoredArsinh, CensoredShare, learnt_censored
from bayesprop.model.censored_numbers import OFTEN, CensoredNumbers, are_many, learnt_limits
from bayesprop.model.count_scores import CountScores, learnt_scores
from bayesprop.model.left_out import (
    Ridge,
    curves,
    evenly,
    left_out_log_likelihood,
    left_out_rmse,
    some_rows,
)
from bayesprop.model.target_maps import (
    CENSORED,
    COUNT,
    NONNEGATIVE,
    NUMBERS,
    PER_CENT,
    POSITIVE,
    SHARE,
    Logit,
    SoftplusInverse,
    TargetMap,
    whole_of,
)

KINDS = (NUMBERS, POSITIVE, NONNEGATIVE, CENSORED, SHARE, COUNT)
_FEW_ROWS = 20
_GAINS = {SHARE: -0.1, POSITIVE: 0.1}
_GAIN_BY_BOUNDS, _FEW_BOUNDS = 0.05, 0.05
"""Nats a row that the map must gain a ridge; and where so many of its intervals begin below 0."""
_MOST_ERROR, _MOST_SHARE = 0.25, 0.1
"""Largest error of a ridge that tells whole numbers apart, and its share of their spread."""
_FEW_ROWS_OF_KIND, _FEW_VALUES = 50, 3
_MOST_ROWS_OF_CURVES = 1000

UNLEARNT: dict[str, TargetMap] = {
    POSITIVE: SoftplusInverse(1.0),
    NONNEGATIVE: CensoredArsinh.of_unit(1.0),
    CENSORED: CensoredNumbers(-np.inf, np.inf),
    SHARE: CensoredShare.of_unit(1.0),
    COUNT: CountScores(np.array([0.5]), np.array([0.0])),
}
"""A map of every kind but numbers as they are; shares between 0 and the whole have `Logit`."""


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
    counted = np.ones(len(y), bool) if weight is None else weight > 0.0
    whole = whole_of(y[counted])
    unlearnt = CensoredShare.of_unit(whole) if kind == SHARE else UNLEARNT[kind]
    unlearnt.check(y)
    if y.shape[1] != 1:
        raise ValueError(
            f"target_kind={kind!r} takes one target, got {y.shape[1]}: fit one model a target"
        )
    weight = np.ones(len(y)) if weight is None else weight
    x, y, weight = x[counted], y[counted, 0], weight[counted]
    exposure = None if exposure is None else exposure[counted]
    if kind == POSITIVE:
        return _learnt_softplus(x, y, weight)
    if kind == COUNT:
        return learnt_scores(x, y, weight, exposure)
    if kind == SHARE and Logit(whole).holds(y).all():
        return Logit(whole)
    if kind == CENSORED:
        return learnt_limits(x, y, weight)
    return learnt_censored(cast(CensoredArsinh, unlearnt), x, y, weight)


def _learnt_softplus(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> SoftplusInverse:
    """Choose the scale by the left-out likelihood of a ridge, its Jacobian included."""
    maps = SoftplusInverse.candidates(y)
    if len(y) < _FEW_ROWS:
        return maps[0]
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
    if kind == SHARE and "scale" not in stored:
        return Logit.from_dict(stored)
    if kind == POSITIVE:
        return SoftplusInverse.of_scale(stored["scale"])
    if kind not in UNLEARNT:
        kinds = ", ".join(UNLEARNT)
        raise ValueError(f"the target must be of kind {kinds}, got {str(kind)[:40]!r}")
    return cast(Any, UNLEARNT[kind]).from_dict(stored)


def guessed_kind(
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"] | None = None,
    *,
    is_percent: bool = False,
) -> str:
    """Return one of `KINDS`: numbers where nothing speaks clearly for another.

    Whole numbers from 0 on are counts, unless a ridge tells them apart on rows left out, as it does
    sums of other columns. Other numbers from 0 on, a fiftieth of them 0, are nonnegative if a ridge
    errs less through their map, as it does not of formulas; shares if they end at 1, as a fiftieth
    do. Numbers between 0 and 1 are shares unless their map loses a tenth of a nat a row for a ridge
    on rows left out, others above 0 are positive if their map gains as much, or half
    of it where intervals of the ridge would begin below 0.

    Per cent between 0 and 100, a twenty-fifth of them above 1, are judged as shares, and are
    neither counts nor nonnegative; their bounds count however few rows are there.

    x
        Standardised inputs.
    is_percent
        Whether the targets were written with per cent signs: 24.7 is then a share of 100.
    """
    if weight is not None:
        x, y, weight = x[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
    if len(y) < _FEW_ROWS_OF_KIND or len(np.unique(y)) < _FEW_VALUES:
        return NUMBERS
    weight = np.ones(len(y)) if weight is None else weight
    scale = float(np.std(y))
    share = CensoredShare.of_unit(PER_CENT if is_percent else 1.0)
    is_in_unit = not is_percent or are_many(y > 1.0, times=OFTEN)
    can_be_share = is_in_unit and bool(share.holds(y).all())
    is_percent = is_percent and can_be_share
    if not is_percent and UNLEARNT[COUNT].holds(y).all() and np.min(y) == 0.0:
        is_linear = left_out_rmse(x, y, weight) < min(_MOST_ERROR, _MOST_SHARE * scale)
        return NUMBERS if is_linear else COUNT
    is_inside = Logit(share.whole).holds(y).all()
    is_at_bound = not is_inside if is_percent else can_be_share and are_many(y == 1.0)
    if np.min(y) >= 0.0 and (is_at_bound or are_many(y == 0.0)):
        kind = SHARE if is_at_bound else NONNEGATIVE
        return kind if _errs_less_by_map(kind, x, y, weight) else NUMBERS
    kind = SHARE if can_be_share and is_inside else POSITIVE
    if np.min(y) <= 0.0:
        return NUMBERS
    learnt = learnt_map(kind, x, y[:, None], weight)
    targets = np.stack([y / scale, learnt.forward(y)], axis=1)
    slopes = np.array([-np.log(scale), np.average(learnt.log_slope(y), weights=weight)])
    plain, mapped = left_out_log_likelihood(x, targets, weight) + slopes
    gain = mapped - plain
    if gain > _GAINS[kind]:
        return kind
    is_bound = kind == POSITIVE and gain > _GAIN_BY_BOUNDS and _reaches_below_0(x, y, weight)
    return POSITIVE if is_bound else NUMBERS


def _reaches_below_0(
    x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> bool:
    """Whether 90 % intervals of a ridge for rows left out begin below 0 in more than a few."""
    at = some_rows(*x.shape)
    errors = Ridge.of(x[at], weight[at]).left_out_errors(y[at, None])[:, :, 0]
    mean_square = np.average(errors**2, axis=1, weights=weight[at])
    best = int(np.argmin(mean_square))
    low = y[at] - errors[best] + special.ndtri(0.05) * np.sqrt(mean_square[best])
    return bool(np.average(low < 0.0, weights=weight[at]) > _FEW_BOUNDS)


def _errs_less_by_map(
    kind: str,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
) -> bool:
    """Whether a ridge's mean absolute error is less through the map of a kind.

    The ridge is one of curves.
    """
    at = evenly(len(x), _MOST_ROWS_OF_CURVES)
    x, y, weight = x[at], y[at, None], weight[at]
    learnt = learnt_map(kind, x, y, weight)
    z = learnt.encode(y, np.random.RandomState(0), x)
    ridge = Ridge.of(curves(x), weight)
    plain = ridge.left_out_errors(y)
    mapped = learnt.inverse(z - ridge.left_out_errors(z)) - y
    of_plain, of_mapped = (
        np.average(np.abs(errors[..., 0]), axis=1, weights=weight).min()
        for errors in (plain, mapped)
    )
    return bool(of_mapped < of_plain)
