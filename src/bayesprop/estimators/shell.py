"""The two shells: what every regressor and every classifier of this library does, once.

An estimator is hyper-parameters (`hyper`), which say what `Method` they make, over one of them. The
course of a fit is in `fitting`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, cast

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from bayesprop.codec import Stored
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.gaussian_copula import KnownInputs
from bayesprop.distributions.predictive import Predictive
from bayesprop.distributions.transformed import TransformedPredictive
from bayesprop.estimators import fitting
from bayesprop.estimators.params import HyperParameters, OfClasses, OfNumbers, check_int
from bayesprop.estimators.stored import from_stored, to_stored
from bayesprop.model.fit_report import FitReport
from bayesprop.model.fitted import Fitted
from bayesprop.model.method import DrawsFunctions, Features, Learned, Streams
from bayesprop.model.task import Encoding, Standardiser, classes_of
from bayesprop.numerics.rows import Rows

P = TypeVar("P", Predictive, ClassPredictive)


def of_learned(name: str) -> Any:
    """Attribute of a fitted estimator that is part of what learning left."""
    return property(lambda self: getattr(self.learned_, name))


def of_state(name: str) -> Any:
    """Attribute of a fitted estimator that is part of the state of its method."""
    return property(lambda self: getattr(self.learned_.state, name))


def has(ability: type) -> Callable[[Any], bool]:
    """Whether the method of an estimator has an ability, for `available_if`."""
    return lambda estimator: issubclass(estimator.method_class, ability)


class EstimatorBase(BaseEstimator, HyperParameters, Generic[P]):
    """Fits a method to rows, and predicts in the user's units or by labels.

    A subclass has hyper-parameters, which say what method that is.

    Attributes
    ----------
    fit_report_ : FitReport
        Guards that fired, course of training, advice.
    x_scaler_ : Standardiser
        How inputs were standardised.
    n_iter_ : int
        Epochs seen since the last reset.
    """

    n_features_in_: int
    feature_names_in_: np.ndarray
    task_: Any
    x_scaler_: Standardiser
    inputs_: KnownInputs
    learned_: Learned

    state_: Any = of_learned("state")
    fit_report_: FitReport = of_learned("report")
    n_iter_: int = of_learned("n_iter")

    @property
    def fitted_(self) -> Fitted:
        """Method, as the hyper-parameters are now, task, encoding and state in one."""
        method = self.build_method(self.task_, self.n_features_in_)
        inputs = getattr(self, "inputs_", None)
        return Fitted(method, self.task_, self.encoding_, self.learned_, inputs)

    @property
    def encoding_(self) -> Encoding:
        """How columns become inputs of the method."""
        names = getattr(self, "feature_names_in_", None)
        return Encoding(self.x_scaler_, names, self.exposure_column)

    @property
    def exposure_column(self) -> int | None:
        """Place of the column of exposures, None where there is none; ValueError."""
        exposure = getattr(self, "exposure", None)
        if exposure is None:
            return None
        names = getattr(self, "feature_names_in_", None)
        columns = list(range(self.n_features_in_))
        columns += [] if names is None else list(names)
        if isinstance(exposure, bool) or exposure not in columns:
            which = f"0 to {len(columns) - 1}" if names is None else ", ".join(map(str, names[:12]))
            raise ValueError(f"exposure must be a column of X ({which}), got {exposure!r}")
        return columns.index(exposure) % self.n_features_in_

    def __sklearn_tags__(self) -> Any:
        """Missing inputs are supported; sparse input is not."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit from scratch; with `warm_start`, where there is one, go on.

        X
            (n, d) numbers, NaN where one is missing: it is drawn from what is known of its row. A
            frame's column names are remembered and checked later.
        y
            Of a regressor (n,) or (n, o) numbers, in any unit; of a classifier (n,) labels of any
            type, two classes at least.
        sample_weight
            (n,), not negative: each row's log-likelihood is multiplied by it.
        groups
            (n,) labels of what belongs together, such as the patient of every row: error bars are
            then those of new groups. For methods that judge themselves by rows left out.
        """
        return fitting.fit(self, X, y, sample_weight, groups)

    def checked_inputs(self, X: Any) -> Float[np.ndarray, "n d"]:
        """Return rows to predict at, columns as in `fit`; NaN where a value is missing."""
        check_is_fitted(self)
        return np.asarray(fitting.validated(self, X, reset=False))

    def predict_dist(self, X: Any) -> P:
        """Predictive distribution of every row, what more data would remove apart from the rest.

        A `Predictive` of a regressor, with epistemic and noise variance; a `ClassPredictive` of a
        classifier, with probabilities and entropies.

        X
            Rows in the original units, columns as in `fit`; NaN where a value is missing: the
            prediction is then a mixture over what it may be.
        """
        X = self.checked_inputs(X)
        return self.fitted_.predict(X)

    def to_inference_data(
        self, X: Any, y: Any = None, *, n_samples: int = 1000, random_state: int = 0
    ) -> Any:
        """Hand draws at the rows X to ArviZ, for its plots and checks; ImportError without it.

        `posterior_predictive` has new observations `y` (1, n_samples, n[, o]), classes by their
        places in `classes_`; `posterior` the functions `f`, where there is `sample_y`;
        `observed_data` y, if passed: ValueError where it is not of these rows.
        """
        from bayesprop.estimators.inference_data import at_rows, inference_data

        return inference_data(at_rows(self, X, y, n_samples, random_state))

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file that loads without running code."""
        from bayesprop.store import save_model

        save_model(path, self)

    def to_stored(self) -> Stored:
        """Return the fitted estimator as a header for JSON and named arrays."""
        return to_stored(self)

    @classmethod
    def from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild a fitted estimator from what `to_stored` gave; any error where it is not that."""
        return from_stored(cls, header, arrays)


class RegressorBase(RegressorMixin, EstimatorBase[Predictive], OfNumbers):
    """Fits a method to rows of numbers, and predicts in their units.

    Attributes
    ----------
    fit_report_ : FitReport
        Guards that fired, course of training, advice. Log evidences are of the mapped target.
    x_scaler_, y_scaler_ : Standardiser
        How inputs and (mapped) targets were standardised.
    """

    @property
    def y_scaler_(self) -> Standardiser:
        """How targets were standardised."""
        return self.task_.scaler

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        return self.task_.n_outputs

    def __sklearn_tags__(self) -> Any:
        """Several outputs are supported, too."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    @available_if(has(Streams))
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, half_life: float | None = None
    ) -> Self:
        """Absorb rows once, in their order: the posterior becomes the prior.

        The first call on an unfitted model learns the scaling from its rows (two at least).

        half_life
            For worlds that change: every row counts half as much as one that came so many rows
            later; those of this call, and all before it. None: nothing is forgotten.
        """
        return fitting.partial_fit(self, X, y, sample_weight, half_life)

    def checked_rows(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[Rows, fitting.Gap]:
        """Return checked rows and weights; with `reset`, learn columns and units."""
        X, y = fitting.validated(
            self,
            X,
            y,
            multi_output=True,
            y_numeric=True,
            reset=reset,
            ensure_min_samples=2 if reset else 1,
        )
        y, weight = fitting.checked_numbers(y), fitting.checked_weight(sample_weight, X)
        is_vector, y = y.ndim == 1, y.reshape(len(y), -1)
        X, gap = fitting.without_gaps(self, X, y.__getitem__, weight, reset=reset)
        if reset:
            self.x_scaler_ = fitting.input_scaler(self, X, weight)
            self.task_ = fitting.numbers_task(self, X, y, weight, is_vector=is_vector)
        if y.shape[1] != self.n_outputs_:
            raise ValueError(
                f"y has {y.shape[1]} outputs, but the model was fitted with {self.n_outputs_}"
            )
        if self.task_.map is not None:
            self.task_.map.check(y)
        return Rows(X, y, weight), gap

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive mean of y, and with `return_std` also the total predictive std, in y."""
        X = self.checked_inputs(X)
        if not return_std:
            return np.concatenate([part.mean for part in self.fitted_.parts(X)])
        moments = [(part.mean, part.std) for part in self.fitted_.parts(X)]
        mean, std = (np.concatenate(column) for column in zip(*moments, strict=True))
        return mean, std

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Float[np.ndarray, "n ... 2"]:
        """Central interval that holds a new y with probability `coverage`; (n, [o,] 2)."""
        return self.predict_dist(X).interval(coverage)

    def predict_quantiles(
        self, X: Any, alpha: tuple[float, ...] = (0.05, 0.5, 0.95)
    ) -> Float[np.ndarray, "n ... q"]:
        """Predictive quantiles of y at the levels `alpha`; (n, [o,] len(alpha))."""
        return self.predict_dist(X).quantile(np.atleast_1d(alpha))

    @available_if(has(DrawsFunctions))
    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, *, include_noise: bool = False
    ) -> Float[np.ndarray, "n ... s"]:
        """Joint draws over all rows: each is one function, from one draw of the weights.

        With `include_noise`, draws of new observations. (n, [o,] n_samples), as the Gaussian
        processes of scikit-learn return them. Of a `target_kind` other than numbers a function is
        the median of y given its weights, of counts before it is rounded; observations are counts.
        """
        X, rng = self.checked_inputs(X), check_random_state(random_state)
        check_int("n_samples", n_samples)
        y = np.moveaxis(self.fitted_.draw(X, rng, n_samples, include_noise=include_noise), 0, -1)
        return y[:, 0] if self.task_.is_vector else y

    @available_if(has(Features))
    def posterior_features(self, X: Any) -> Float[np.ndarray, "n o k"]:
        """Numbers whose inner products are the posterior covariances of the function, y².

        Of a `target_kind` other than numbers to first order: times the mean slope of its map.
        """
        X, fitted = self.checked_inputs(X), self.fitted_
        features = fitted.features(X) * self.y_scaler_.scale[:, None]
        if self.task_.map is None:
            return features
        predictive = cast(TransformedPredictive, fitted.predict(X))
        return features * np.reshape(predictive.slope, (len(X), -1, 1))

    def log_likelihood(self, X: Any, y: Any) -> float:
        """Mean log density of y, nats a row, in the original units (outputs are summed)."""
        predictive = self.predict_dist(X)
        y, shape = np.asarray(y, dtype=np.float64), np.shape(predictive.mean)
        if y.shape != shape and not (y.size == len(X) == np.prod(shape)):
            raise ValueError(f"y must have the shape of the predictions, {shape}, got {y.shape}")
        y = y.reshape(shape)
        return float(np.sum(predictive.log_prob(y)) / len(y))


class ClassifierBase(ClassifierMixin, EstimatorBase[ClassPredictive], OfClasses):
    """Fits a method to rows with labels, and predicts their probabilities.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
        Labels, sorted, in the order of the columns of `predict_proba`.
    """

    @property
    def classes_(self) -> np.ndarray:
        """Labels, in the order of the columns of `predict_proba`."""
        return self.task_.labels

    @available_if(has(Streams))
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        half_life: float | None = None,
    ) -> Self:
        """Absorb rows once, in their order: the posterior becomes the prior.

        The first call on an unfitted model learns the scaling from its rows.

        classes
            All labels there will be, in the first call; None: those of its y.
        half_life
            For worlds that change: every row counts half as much as one that came so many rows
            later; those of this call, and all before it. None: nothing is forgotten.
        """
        return fitting.partial_fit(self, X, y, sample_weight, half_life, classes=classes)

    def checked_rows(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool, classes: Any = None
    ) -> tuple[Rows, fitting.Gap]:
        """Return checked rows and weights; with `reset`, learn columns, labels and scaling."""
        _check_one_label(y)
        X, y = fitting.validated(self, X, y, reset=reset)
        _check_labels(y)
        weight = fitting.checked_weight(sample_weight, X)
        if classes is not None:
            classes = self._checked_classes(classes, is_first=reset)
        if reset:
            labels = np.unique(y) if classes is None else classes
            self.task_ = classes_of(labels, self.target_kind, self.order)
        targets = lambda at: y[at][:, None] == self.classes_  # noqa: E731
        X, gap = fitting.without_gaps(self, X, targets, weight, reset=reset)
        if reset:
            self.x_scaler_ = fitting.input_scaler(self, X, weight)
        if len(self.classes_) < 2:
            only = self.classes_.tolist()[0]
            raise ValueError(f"y must hold at least two classes, got one class only: {only!r}")
        return Rows(X, y, weight), gap

    def _checked_classes(self, classes: Any, *, is_first: bool) -> np.ndarray:
        """Return the labels of a stream: those of the first call."""
        labels = np.unique(classes)
        if not is_first and not np.array_equal(labels, self.classes_):
            raise ValueError(
                f"classes must be those of the first call, {self.classes_.tolist()}, got "
                f"{labels.tolist()}: leave them out, or start again with `fit`"
            )
        if len(labels) < 2:
            raise ValueError(f"classes must be two labels at least, got {classes!r}")
        return labels

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n c"]:
        """Predictive probability of every class, in the order of `classes_`; rows sum to one."""
        return self.predict_dist(X).proba

    def predict(self, X: Any) -> np.ndarray:
        """Most probable class of every row."""
        return self.predict_dist(X).label

    def log_likelihood(self, X: Any, y: Any) -> float:
        """Mean log probability of the labels, nats a row."""
        return float(np.mean(self.predict_dist(X).log_prob(np.asarray(y))))


def _check_one_label(y: Any) -> None:
    shape = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y must be a 1d array, one label a row, got shape {shape}: for several labels "
            "sklearn.multioutput.MultiOutputClassifier fits a model to every column"
        )


def _check_labels(y: np.ndarray) -> None:
    try:
        check_classification_targets(y)
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in y.tolist()}))
        raise ValueError(
            f"y must hold labels of one kind, got {kinds}: turn them all into text"
        ) from error
