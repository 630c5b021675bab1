"""Predictions for rows with missing values: a mixture over imputations, for any method.

What a gap adds to a variance is counted as noise, not as epistemic: more rows would not remove it.
Measuring the input would, on average; `gap_share` is how much of the variance that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.gaussian_copula import COMPLETIONS, GaussianCopula
from bayesprop.distributions.mixture import as_mixture, by_row
from bayesprop.distributions.pooled import pooled
from bayesprop.distributions.predictive import Predictive

_MEMBERS = 2
"""Of an ensemble, that are heard on every completion of a row; in turns, so that all are."""


def over_gaps(
    predict: Callable[[Float[np.ndarray, "m d"]], Any],
    X: Float[np.ndarray, "n d"],
    inputs: GaussianCopula,
) -> Any:
    """Predict rows, those with gaps (NaN) by a mixture over ways to fill them.

    One kind of prediction, whether some of these rows have gaps or none, so that parts can be
    joined.

    predict
        Of rows without gaps.
    inputs
        How the columns go together.
    """
    n_gaps = np.isnan(X).sum(axis=1)
    # Together those with as many gaps, which `inputs` fills at once.
    complete, rows = np.split(np.argsort(n_gaps, kind="stable"), [np.sum(n_gaps == 0)])
    filled = inputs.of_columns(X.shape[1]).completions(X[rows]).reshape(-1, X.shape[1])
    as_bytes = filled.view(np.dtype((np.void, filled.strides[0])))[:, 0]
    _, first, which = np.unique(as_bytes, return_index=True, return_inverse=True)
    each, n = predict(np.concatenate([X[complete], filled[first]])), len(complete)
    parts = [(each[:n], complete), (completed(each[n:][which], COMPLETIONS), rows)]
    return pooled(*zip(*(part for part in parts if len(part[1])), strict=True))


def completed(each: Predictive | ClassPredictive | np.ndarray, n_completions: int) -> Any:
    """Mix what is predicted for completions of rows, of numbers or classes; average arrays."""
    if isinstance(each, np.ndarray):
        return by_row(each, n_completions).mean(axis=1)
    if not isinstance(each, ClassPredictive):
        return as_mixture(each).over_completions(n_completions, _MEMBERS)
    p = by_row(np.asarray(each.proba, np.float64), n_completions)
    proba, mean_entropy = p.mean(axis=1), special.entr(p).sum(axis=2).mean(axis=1)
    # Between completions classes differ, but not by what more rows would tell of the weights.
    of_gaps = np.maximum(special.entr(proba).sum(axis=1) - mean_entropy, 0.0)
    entropy = by_row(np.asarray(each.expected_entropy, np.float64), n_completions).mean(axis=1)
    return ClassPredictive(proba, entropy + of_gaps, each.classes, of_gaps, each.order)


def one_of_each(
    drawn: Float[np.ndarray, "s m ..."], n_completions: int, u: Float[np.ndarray, "s n"]
) -> Float[np.ndarray, "s n ..."]:
    """Of draws for all completions keep one a row, chosen by uniform numbers."""
    at = np.floor(u * n_completions).astype(int) + n_completions * np.arange(u.shape[1])
    return np.take_along_axis(drawn, at.reshape(*at.shape, *(1,) * (drawn.ndim - 2)), axis=1)
