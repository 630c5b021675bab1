"""A model of what every arm would have paid in a log, that never sees the row it predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import clone
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop.decisions.pool import finite, take

if TYPE_CHECKING:
    from bayesprop.decisions.offline import Log

_FEWEST = 10  # rows of an arm from which a model of its own is fitted


def predicted_rewards(log: Log, model: Any, *, n_folds: int, seed: int) -> Float[np.ndarray, "n k"]:
    """Predict the mean reward of every arm by cross-fitting, each by a model of its own.

    Chernozhukov et al. (2018). An arm with fewer than 10 rows in the other folds is predicted by
    their mean, or by that of all arms where it has none. Arms whose rewards are all equal need no
    model.

    model
        A regressor, which is copied; None: ridge regression on standardised contexts, its penalty
        by leaving one row out. Predictions (n, k) are returned.
    """
    if model is not None and not hasattr(model, "fit"):
        return finite("reward_model, unless a regressor,", model, (len(log), len(log.arms)))
    if log.context is None:
        raise ValueError(
            "a reward model needs the contexts of the log: give Log(..., context=...), or take "
            'method="self-normalised"'
        )
    code, reward, n_arms = log.code, log.reward, len(log.arms)
    n = len(code)
    if isinstance(n_folds, bool) or not 2 <= n_folds <= n:
        raise ValueError(f"n_folds must be an int from 2 to the {n} rows, got {n_folds!r}")
    if model is None:
        model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2.0, 5.0, 15)))
    if hasattr(model, "predict_proba") or not hasattr(model, "predict"):
        raise ValueError(
            f"reward_model must be a regressor, got {type(model).__name__}: rewards of 0 and 1 are "
            "numbers too"
        )
    mean, folds = np.empty((n, n_arms)), _folds(code, n_folds, seed)
    for fold in range(n_folds):
        inside, others = np.flatnonzero(folds == fold), folds != fold
        for arm in range(n_arms):
            rows = np.flatnonzero(others & (code == arm))
            if len(rows) < _FEWEST or np.ptp(reward[rows]) == 0.0:
                mean[inside, arm] = reward[rows if len(rows) else others].mean()
            else:
                fitted: Any = clone(model)
                fitted.fit(take(log.context, rows), reward[rows])
                predicted = fitted.predict(take(log.context, inside))
                mean[inside, arm] = finite("what reward_model predicts", predicted, (len(inside),))
    return mean


def _folds(code: Int[np.ndarray, " n"], n_folds: int, seed: int) -> Int[np.ndarray, " n"]:
    """Deal the rows of each arm out to the folds, in random order."""
    order = np.random.default_rng(seed).permutation(len(code))
    order = order[np.argsort(code[order], kind="stable")]
    folds = np.empty(len(code), dtype=int)
    folds[order] = np.arange(len(code)) % n_folds
    return folds
