"""Training rows whose missing and uncertain inputs are drawn anew, by what a first fit learnt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
from jaxtyping import Bool, Float
from sklearn.utils import check_random_state

from bayesprop.distributions.gaussian_copula import NO_INPUT_MODEL
from bayesprop.distributions.measured import Population
from bayesprop.distributions.predictive import Predictive
from bayesprop.model.task import Encoding, Fitted, Numbers
from bayesprop.numerics.rows import Rows

if TYPE_CHECKING:
    from bayesprop.estimators.shell import Seed

_MOST_CANDIDATES, _LEAST_CANDIDATES, _MOST_PREDICTED = 32, 4, 2**18
_LEAST_OF_ERRORS = 16
_LEAST_SHARE = 0.1
"""Of the variance that a fit to means of inputs predicts, which is not theirs."""
_ROWS_AT_ONCE = 4096


def with_population(start: Fitted, rows: Rows, X_std: Float[np.ndarray, "n d"]) -> Fitted:
    """Learn how the true inputs of training rows with errors are distributed.

    ValueError where errors vary more than their column.
    """
    encoding, share = start.encoding, rows.weights / rows.weights.sum()
    error = np.sqrt(share @ X_std**2)
    spread = np.sqrt(share @ (rows.x - share @ rows.x) ** 2)
    if (error > spread).any():
        column = int(np.argmax(error > spread))
        name = column if encoding.names is None else encoding.names[column]
        raise ValueError(
            "X_std must be smaller than the standard deviation of the column, whose true values "
            f"would not vary else, got {error[column]:.3g} of {spread[column]:.3g} in column "
            f"{name}: correct it, or take the column as exact"
        )
    x, error_var = encoding.standardised(rows.x), (X_std / encoding.scaler.scale) ** 2
    population = Population.of_rows(x, error_var, rows.weights)
    return replace(start, encoding=replace(encoding, population=population))


def expected(
    encoding: Encoding, X: Float[np.ndarray, "n d"], X_std: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n d"]:
    """Return the means of the true inputs of rows with errors."""
    starts = range(0, len(X), _ROWS_AT_ONCE)
    parts = [slice(first, first + _ROWS_AT_ONCE) for first in starts]
    return np.concatenate([encoding.located(X[one], X_std[one])[0] for one in parts])


def drawn_as_learnt(
    fitted: Fitted,
    rows: Rows,
    gap: Bool[np.ndarray, "n d"] | None,
    X_std: Float[np.ndarray, "n d"] | None,
    seed: Seed,
) -> Float[np.ndarray, "n d"]:
    """Return training rows with gaps and errors drawn anew, as a fit takes the inputs to be.

    Of some candidates, drawn without the target, one is kept by how likely it makes the target:
    data augmentation (Tanner & Wong 1987) by sampling-importance resampling (Rubin 1987).
    """
    if gap is not None and fitted.inputs is None:
        raise ValueError(NO_INPUT_MODEL)
    is_drawn = (0 if gap is None else gap) + (0 if X_std is None else X_std > 0.0)
    d, places = rows.x.shape[1], np.flatnonzero(np.any(is_drawn, axis=1))
    least = _LEAST_CANDIDATES if X_std is None else _LEAST_OF_ERRORS
    rng = check_random_state(seed)
    n = int(np.clip(_MOST_PREDICTED // len(places), least, _MOST_CANDIDATES))
    filled = rows.x.copy()
    for first in range(0, len(places), _ROWS_AT_ONCE):
        at = places[first : first + _ROWS_AT_ONCE]
        known = rows.x[at] if gap is None else np.where(gap[at], np.nan, rows.x[at])
        candidates = np.repeat(known, n, axis=0)
        if X_std is not None:
            mean, root = fitted.encoding.located(known, X_std[at])
            errors = rng.standard_normal((len(at), n, root.shape[2])) @ root.mT
            candidates = (mean[:, None] + errors).reshape(-1, d)
        if gap is not None and fitted.inputs is not None:
            candidates = fitted.inputs.model.of_columns(d).completed(candidates, rng)
        y = np.repeat(rows.y[at], n, axis=0)
        if X_std is not None and isinstance(fitted.task, Numbers):
            log_density = _log_density(fitted, candidates, y, n, rng)
        else:
            y = y[:, 0] if getattr(fitted.task, "is_vector", False) else y
            log_density = fitted.predict(candidates).log_prob(y)
        by_row = log_density.reshape(len(at), n, -1).sum(axis=2)
        filled[at] = candidates.reshape(len(at), n, d)[np.arange(len(at)), _drawn(by_row, rng)]
    return filled


def _log_density(
    fitted: Fitted,
    candidates: Float[np.ndarray, "m d"],
    y: Float[np.ndarray, "m o"],
    n: int,
    rng: np.random.RandomState,
) -> Float[np.ndarray, "m o"]:
    """Log density of targets given candidates of true inputs, n a row.

    Noise that was learnt from means of inputs holds what the target varies over inputs, whose share
    is taken out of it.
    """
    x = fitted.encoding.standardised(candidates)
    z = fitted.task_of(candidates).encode(y, rng, x)
    predicted = cast(Predictive, fitted.method.predict(fitted.learned.state, x))
    mean, var = (part.reshape(-1, n, z.shape[1]) for part in (predicted.mean, predicted.var))
    share = 1.0 - mean.var(axis=1).mean(axis=0) / var.mean(axis=(0, 1))
    own = np.maximum(share, _LEAST_SHARE) * var
    deviation = z.reshape(mean.shape) - mean
    return -0.5 * (deviation**2 / own + np.log(own)).reshape(z.shape)


def _drawn(log_weight: Float[np.ndarray, "n c"], rng: np.random.RandomState) -> np.ndarray:
    """Draw one of c for every row, by unnormalised log probabilities (Gumbel's way)."""
    bounded = np.maximum(np.nan_to_num(log_weight, nan=-np.inf), -1e300)
    return np.argmax(bounded + rng.gumbel(size=bounded.shape), axis=1)
