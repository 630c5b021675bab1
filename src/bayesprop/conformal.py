"""Intervals and sets that hold the promised share of new rows, whatever the model got wrong.

Split conformal prediction: rows that the fit did not see say by how much its error bars must be
stretched. If they and the new rows are exchangeable, the share is at least `coverage`, averaged
over both (Vovk, Gammerman & Shafer 2005; Lei et al. 2018, theorem 2). It is a share of all rows,
not one at every x: where a row stands among them, the model's own error bars say.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, cast

import numpy as np
from jaxtyping import Bool, Float, Shaped
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bayesprop.distributions.predictive import check_coverage
from bayesprop.estimators.any_estimator import (
    Estimator,
    Inputs,
    WithProba,
    WithStd,
    check_estimator,
    checked_values,
    is_classifier,
)
from bayesprop.sealed import ModelFileError, believing
from bayesprop.store import load_model, save_model

if TYPE_CHECKING:
    from bayesprop.estimators.shell import EstimatorBase, RegressorBase

Values = Float[np.ndarray, " n"]

_NOTES = "conformal"
_ROUNDING = 1e-9  # of a product that should be a whole number


@dataclass(eq=False, kw_only=True)
class _Conformal(ABC):
    """Base of both: an estimator, a nominal coverage, one learnt number, and their file."""

    estimator: Estimator = field(kw_only=False)
    coverage: float = 0.9
    n_calibration_: int = field(init=False)
    _classes: ClassVar[bool]
    _learnt: ClassVar[str]

    def __post_init__(self) -> None:
        check_coverage(self.coverage)
        check_estimator(self.estimator)
        if is_classifier(self.estimator) != self._classes:
            kind = "classifier" if self._classes else "regressor"
            other = "ConformalRegressor" if self._classes else "ConformalClassifier"
            got = type(self.estimator).__name__
            raise ValueError(f"estimator must be a {kind}, got {got}: take {other}")
        check_is_fitted(self.estimator)

    def predict(self, X: Inputs) -> np.ndarray:
        """Predict as the estimator does: the mean, or the most probable class."""
        return cast("RegressorBase", self.estimator).predict(X)

    def save(self, path: str | Path) -> None:
        """Write the model and what was calibrated to one file that loads without running code.

        `bayesprop.load` opens it too, as the model alone. TypeError for an estimator that is not of
        this library.
        """
        self._check_calibrated()
        learnt = {self._learnt: getattr(self, f"{self._learnt}_")}
        notes = {"coverage": self.coverage, "n_calibration": self.n_calibration_}
        save_model(path, cast("EstimatorBase", self.estimator), metadata={_NOTES: notes | learnt})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; ModelFileError if it is not that."""
        saved = load_model(path)
        notes = saved.metadata.get(_NOTES)
        if not isinstance(notes, dict) or cls._learnt not in notes:
            raise ModelFileError(
                f"model file {str(path)!r} holds no {cls.__name__}: "
                f"{cls.__name__}(bayesprop.load(path)).calibrate(X, y) makes one"
            )
        with believing(f"model file {str(path)!r} has damaged notes"):
            wrapper = cls(saved.estimator, coverage=float(notes["coverage"]))
            n_rows, learnt = int(notes["n_calibration"]), float(notes[cls._learnt])
            if not (0.0 <= learnt < math.inf and n_rows >= least_rows(wrapper.coverage)):
                raise ValueError(f"{cls._learnt} {learnt!r} of {n_rows} rows")
        wrapper.n_calibration_ = n_rows
        setattr(wrapper, f"{cls._learnt}_", learnt)
        return wrapper

    def calibrate(self, X: Inputs, y: ArrayLike) -> Self:
        """Learn from rows that the fit did not see; X, y as in its `fit`."""
        y, n_rows = np.asarray(y), len(X)
        if y.shape != (n_rows,):
            raise ValueError(f"y must hold one value a row, shape ({n_rows},), got {y.shape}")
        if n_rows < (least := least_rows(self.coverage)):
            raise ValueError(
                f"coverage {self.coverage:g} needs {least} calibration rows at least, got {n_rows}:"
                " give more, or ask for less"
            )
        self._learn(X, checked_values(y, classes=self._classes))
        self.n_calibration_ = n_rows
        return self

    @abstractmethod
    def _learn(self, X: Inputs, y: np.ndarray) -> None:
        """Learn the number that keeps the promise."""

    def _check_calibrated(self) -> None:
        if not hasattr(self, "n_calibration_"):
            raise NotFittedError(
                f"this {type(self).__name__} is not calibrated yet: call calibrate(X, y) with "
                "rows that the fit did not see"
            )


@dataclass(eq=False, kw_only=True)
class ConformalRegressor(_Conformal):
    """Stretch the error bars of a fitted regressor until they hold what they promise.

    Intervals are mean ± c std: c is the k-th smallest |y - mean| / std of n calibration rows, k
    being (n + 1) `coverage`, rounded up. What of them lies where no target of the estimator's
    `target_kind` can lie is cut off, which changes no coverage.

    Parameters
    ----------
    estimator : estimator
        Fitted, of one target; of this library, or any whose `predict` takes `return_std=True`.
    coverage : float
        Share of new observations that an interval should hold; between 0 and 1.

    Attributes
    ----------
    n_calibration_ : int
        Rows that it was calibrated on.
    stretch_ : float
        c.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesprop import BayesianLinearRegressor, ConformalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 1))
    >>> y = X[:, 0] + rng.standard_normal(200)
    >>> sure = BayesianLinearRegressor(noise=0.01).fit(X[:100], y[:100])  # far too sure
    >>> honest = ConformalRegressor(sure, coverage=0.9).calibrate(X[100:], y[100:])
    >>> low, high = honest.predict_interval(np.zeros((1, 1)))[0]
    >>> bool(high - low > 2.0)
    True
    """

    stretch_: float = field(init=False)
    _classes: ClassVar[bool] = False
    _learnt: ClassVar[str] = "stretch"

    def _learn(self, X: Inputs, y: np.ndarray) -> None:
        mean, std = cast(WithStd, self.estimator).predict(X, return_std=True)
        self.stretch_ = stretch(mean, std, y, self.coverage)

    def predict_interval(self, X: Inputs) -> Float[np.ndarray, "n 2"]:
        """Interval that holds a new observation with probability `coverage`, on average over X."""
        self._check_calibrated()
        mean, std = cast(WithStd, self.estimator).predict(X, return_std=True)
        half = self.stretch_ * std
        interval = np.stack([mean - half, mean + half], axis=1)
        limits = getattr(getattr(self.estimator, "task_", None), "map", None)
        return interval if limits is None else limits.limited(interval)


@dataclass(eq=False, kw_only=True)
class ConformalClassifier(_Conformal):
    """Sets of classes, from the probabilities of a fitted classifier, that hold what they promise.

    A set holds the classes whose probability is at least a limit: the least sets on average for a
    coverage (Sadinle, Lei & Wasserman 2019). It may be empty, where no class is likely enough.

    Parameters
    ----------
    estimator : estimator
        Fitted; any with `predict_proba`.
    coverage : float
        Share of new rows whose class the set should hold; between 0 and 1.

    Attributes
    ----------
    n_calibration_ : int
        Rows that it was calibrated on.
    limit_ : float
        The least probability of a class that is in the set.
    """

    limit_: float = field(init=False)
    _classes: ClassVar[bool] = True
    _learnt: ClassVar[str] = "limit"

    def _learn(self, X: Inputs, y: np.ndarray) -> None:
        estimator = cast(WithProba, self.estimator)
        if isinstance(estimator.classes_, list):
            n = len(estimator.classes_)
            raise ValueError(f"estimator must have one label a row, got {n}: take one for each")
        unknown = ~np.isin(y, estimator.classes_)
        if unknown.any():
            raise ValueError(
                f"y must hold classes of the fit, {estimator.classes_.tolist()}, "
                f"got {y.tolist()[int(np.argmax(unknown))]!r}"
            )
        proba = np.asarray(estimator.predict_proba(X), np.float64)
        self.limit_ = limit(proba, estimator.classes_, y, self.coverage)

    def predict_set(self, X: Inputs) -> Bool[np.ndarray, "n c"]:
        """Which classes may be; columns as in the estimator's `classes_`."""
        self._check_calibrated()
        return np.asarray(cast(WithProba, self.estimator).predict_proba(X)) >= self.limit_


def stretch(mean: Values, std: Values, y: Values, coverage: float) -> float:
    """Return c of mean ± c std, from predictions of n calibration rows and what was observed."""
    if not (np.isfinite(std) & (std > 0.0)).all():
        i = int(np.argmin(np.isfinite(std) & (std > 0.0)))
        raise ValueError(
            "the estimator's standard deviations must be positive and finite to be stretched, got "
            f"{float(std[i])!r} for calibration row {i}"
        )
    return _order_statistic(np.abs(y - mean) / std, coverage)


def limit(
    proba: Float[np.ndarray, "n c"],
    classes: Shaped[np.ndarray, " c"],
    y: Shaped[np.ndarray, " n"],
    coverage: float,
) -> float:
    """Return the least probability in a set, from those of n calibration rows and their classes."""
    own = proba[np.arange(len(y)), np.searchsorted(classes, y)]
    return -_order_statistic(-own, coverage)


def _order_statistic(scores: Values, coverage: float) -> float:
    """Return the k-th smallest score, k = (n + 1) coverage, rounded up.

    A new score is as likely to be of any rank among n + 1, and at most this with probability
    k / (n + 1).
    """
    rank = max(1, math.ceil((len(scores) + 1) * coverage - _ROUNDING))
    return float(np.partition(scores, rank - 1)[rank - 1])


def least_rows(coverage: float) -> int:
    """Count the calibration rows that a coverage needs: the least n >= (n + 1) `coverage`."""
    return max(1, math.ceil(coverage / (1.0 - coverage) - _ROUNDING))
