"""Predictions for rows whose inputs are not known exactly, for any method: a mixture over draws.

A missing value is drawn given the others of its row, a value with an error from N(value, std²).
What this adds to a variance is counted as noise, not as epistemic: more rows would not remove it.
Measuring the input would, on average; `gap_share` is how much of the variance that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import special

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.gaussian_copula import COMPLETIONS, GaussianCopula, even_normals
from bayesprop.distributions.mixture import as_mixture, by_row
from bayesprop.distributions.pooled import pooled
from bayesprop.distributions.predictive import Predictive

MEMBERS = 2
"""Of an ensemble, that are heard on every completion of a row; in turns, so that all are."""
LEAST_DRAWS = 64
"""Drawn of a row with uncertain values that is to be predicted, at least."""


def _drawn_errors(X_std: Float[np.ndarray, "n d *k"]) -> Bool[np.ndarray, "n _"]:
    """Return which normals each row needs, one a value or one a root's column."""
    return X_std > 0.0 if X_std.ndim == 2 else (X_std != 0.0).any(axis=1)


def n_ways(
    X: Float[np.ndarray, "n d"], X_std: Float[np.ndarray, "n d *k"] | None
) -> Int[np.ndarray, " n"]:
    """Return how many draws stand for each row: 1 where its inputs are known exactly.

    With a std at least LEAST_DRAWS, and at least two a value that is drawn: so many are needed
    for exact covariances.
    """
    n_gaps = np.isnan(X).sum(axis=1)
    of_gaps = np.where(n_gaps > 0, COMPLETIONS, 1)
    if X_std is None:
        return of_gaps
    n_uncertain = np.sum(_drawn_errors(X_std), axis=1)
    pairs = np.ceil(np.log2(np.maximum(n_gaps + n_uncertain, LEAST_DRAWS // 2)))
    return np.where(n_uncertain > 0, 2 ** (1 + pairs.astype(int)), of_gaps)


def over_gaps(
    predict: Callable[[Float[np.ndarray, "m d"]], Any],
    X: Float[np.ndarray, "n d"],
    inputs: GaussianCopula | None,
    X_std: Float[np.ndarray, "n d *k"] | None = None,
) -> Any:
    """Predict rows, those with gaps (NaN) or a std by a mixture over draws of their inputs.

    One kind of prediction, whether some of these rows have gaps or none, so that parts can be
    joined.

    predict
        Of rows whose inputs are known.
    inputs
        How the columns go together; None: there are no gaps.
    X_std
        Standard deviations of the values, 0 where they are exact or missing; or roots of each
        row's covariance. None: all are exact.
    """
    ways, d = n_ways(X, X_std), X.shape[1]
    # Together those with as many gaps, which `inputs` fills at once.
    order = np.argsort(np.isnan(X).sum(axis=1), kind="stable")
    complete = order[ways[order] == 1]
    groups = [(order[ways[order] == n], int(n)) for n in np.unique(ways) if n > 1]
    std = np.zeros_like(X) if X_std is None else X_std
    drawn = [input_draws(X[rows], std[rows], n, inputs).reshape(-1, d) for rows, n in groups]
    filled = np.concatenate([np.empty((0, d)), *drawn])
    as_bytes = filled.view(np.dtype((np.void, filled.strides[0])))[:, 0]
    _, first, which = np.unique(as_bytes, return_index=True, return_inverse=True)
    each, end = predict(np.concatenate([X[complete], filled[first]])), len(complete)
    which = np.concatenate([np.arange(end), end + which])
    parts = [(each[:end], complete)] if end else []
    for rows, n in groups:
        own = which[end : end + n * len(rows)]
        parts.append((completed(each[own], n), rows))
        end += len(own)
    return pooled(*zip(*parts, strict=True))


def input_draws(
    X: Float[np.ndarray, "n d"],
    X_std: Float[np.ndarray, "n d *k"],
    n: int,
    inputs: GaussianCopula | None,
) -> Float[np.ndarray, "n c d"]:
    """Draw the inputs of rows in n ways, those with a std in the same evenly spread directions."""
    gap, d = np.isnan(X), X.shape[1]
    drawn = np.repeat(X[:, None], n, axis=1)
    if inputs is not None and gap.any():
        drawn = inputs.of_columns(d).completions(X, n)
    if not X_std.any():
        return drawn
    # The first columns of the same points have filled the gaps.
    place = gap.sum(axis=1, keepdims=True) + np.cumsum(_drawn_errors(X_std), axis=1) - 1
    normals = np.moveaxis(even_normals(n, d)[:, place], 0, 1)
    if X_std.ndim == 2:
        return drawn + X_std[:, None] * normals
    return drawn + normals @ X_std.mT


def completed(each: Predictive | ClassPredictive | np.ndarray, n_completions: int) -> Any:
    """Mix what is predicted for completions of rows, of numbers or classes; average arrays."""
    if isinstance(each, np.ndarray):
        return by_row(each, n_completions).mean(axis=1)
    if not isinstance(each, ClassPredictive):
        n_members = MEMBERS if n_completions <= COMPLETIONS else 1
        return as_mixture(each).over_completions(n_completions, n_members)
    p = by_row(np.asarray(each.proba, np.float64), n_completions)
    proba, mean_entropy = p.mean(axis=1), special.entr(p).sum(axis=-1).mean(axis=1)
    # Between completions classes differ, but not by what more rows would tell of the weights.
    of_gaps = np.maximum(special.entr(proba).sum(axis=-1) - mean_entropy, 0.0)
    entropy = by_row(np.asarray(each.expected_entropy, np.float64), n_completions).mean(axis=1)
    return ClassPredictive(proba, entropy + of_gaps, each.classes, of_gaps, each.order)


def one_of_each(
    drawn: Float[np.ndarray, "s m ..."], n_completions: int, u: Float[np.ndarray, "s n"]
) -> Float[np.ndarray, "s n ..."]:
    """Of draws for all completions keep one a row, chosen by uniform numbers."""
    at = np.floor(u * n_completions).astype(int) + n_completions * np.arange(u.shape[1])
    return np.take_along_axis(drawn, at.reshape(*at.shape, *(1,) * (drawn.ndim - 2)), axis=1)
