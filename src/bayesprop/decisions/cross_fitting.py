"""A model of what every arm would have paid in a log, that never sees the row it predicts."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import clone
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop.decisions.policy_log import Log
from bayesprop.decisions.pool import take

_FEWEST = 10  # rows of an arm from which a model of its own is fitted


class PredictedRewards(NamedTuple):
    """Mean reward of every arm at every logged context, and sentences on where it is a guess."""

    mean: Float[np.ndarray, "n k"]
    warnings: list[str]


def predicted_rewards(log: Log, model: Any, *, n_folds: int, seed: int) -> PredictedRewards:
    """Predict by cross-fitting (Chernozhukov et al. 2018), each arm by a model of its own.

    An arm with fewer than 10 rows in the other folds is predicted by their mean, or by that of all
    arms where it has none. Arms whose rewards are all equal need no model.

    model
        A regressor, which is copied; predictions (n, k); None: ridge regression on standardised
        contexts, its penalty by leaving one row out.
    """
    n, k = len(log), len(log.names)
    if not hasattr(model, "fit") and model is not None:
        return PredictedRewards(_given(model, n, k), [])
    if log.context is None:
        raise ValueError(
            "a reward model needs the contexts of the log: give Log(..., context=...), or take "
            'method="self-normalised"'
        )
    model = _default() if model is None else _checked_model(model)
    if isinstance(n_folds, bool) or not 2 <= n_folds <= n:
        raise ValueError(f"n_folds must be an int from 2 to the {n} rows, got {n_folds!r}")
    folds = _folds(log.code, n_folds, seed)
    mean, n_guessed = np.empty((n, k)), np.zeros(k, dtype=int)
    complaints: list[list[str]] = []
    for fold in range(n_folds):
        inside = np.flatnonzero(folds == fold)
        for arm in range(k):
            rows = np.flatnonzero((folds != fold) & (log.code == arm))
            rewards = log.reward[rows]
            n_guessed[arm] += len(rows) < _FEWEST
            if len(rows) == 0:
                mean[inside, arm] = log.reward[folds != fold].mean()
            elif len(rows) < _FEWEST or np.ptp(rewards) == 0.0:
                mean[inside, arm] = rewards.mean()
            else:
                fitted, said = _fitted(model, take(log.context, rows), rewards)
                predicted = np.asarray(fitted.predict(take(log.context, inside)), np.float64)
                mean[inside, arm] = _finite(predicted, len(inside), model)
                complaints.append(said)
    return PredictedRewards(mean, _sentences(log, n_guessed, complaints))


def _fitted(model: Any, X: Any, y: Float[np.ndarray, " m"]) -> tuple[Any, list[str]]:
    """Fit a copy; return it and what it warned of."""
    fitted: Any = clone(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted.fit(X, y)
    return fitted, [str(one.message) for one in caught]


def _sentences(
    log: Log, n_guessed: Int[np.ndarray, " k"], complaints: list[list[str]]
) -> list[str]:
    found = []
    guessed = [repr(log.names[arm]) for arm in np.flatnonzero(n_guessed)]
    if guessed:
        which = f"arm {guessed[0]}" if len(guessed) == 1 else f"arms {', '.join(guessed)}"
        found.append(
            f"{which}: fewer than {_FEWEST} rows to fit a reward model to, a mean stands for it"
        )
    said = [lines[0] for lines in complaints if lines]
    if said:
        found.append(f"reward model: {len(said)} of {len(complaints)} fits warn: {said[0]}")
    return found


def _folds(code: Int[np.ndarray, " n"], n_folds: int, seed: int) -> Int[np.ndarray, " n"]:
    """Deal the rows of each arm out to the folds, in random order."""
    order = np.random.default_rng(seed).permutation(len(code))
    order = order[np.argsort(code[order], kind="stable")]
    folds = np.empty(len(code), dtype=int)
    folds[order] = np.arange(len(code)) % n_folds
    return folds


def _default() -> Any:
    return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2.0, 5.0, 15)))


def _checked_model(model: Any) -> Any:
    if hasattr(model, "predict_proba") or not hasattr(model, "predict"):
        raise ValueError(
            f"reward_model must be a regressor, got {type(model).__name__}: rewards of 0 and 1 are "
            "numbers too"
        )
    return model


def _finite(predicted: np.ndarray, n: int, model: Any) -> Float[np.ndarray, " n"]:
    if predicted.shape != (n,) or not np.isfinite(predicted).all():
        raise ValueError(
            f"reward_model must predict one finite number a row, {type(model).__name__} does not"
        )
    return predicted


def _given(model: Any, n: int, k: int) -> Float[np.ndarray, "n k"]:
    try:
        mean = np.asarray(model, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"reward_model must be a regressor or predictions, got {type(model).__name__}"
        ) from error
    if mean.shape != (n, k) or not np.isfinite(mean).all():
        raise ValueError(
            f"reward_model must be a regressor, or finite predictions of shape ({n}, {k}), "
            f"got shape {mean.shape}"
        )
    return mean
