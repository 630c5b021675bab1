"""Base classes of regressors and classifiers, from which scikit-learn's classes are made.

An estimator is hyper-parameters, which say what `Method` they make, over a base class. A saved
model predicts without scikit-learn: `scikit_learn.py` makes the class that users see when asked.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, cast

import numpy as np
from jaxtyping import Float

from bayesprop.codec import Stored
from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.distributions.predictive import Predictive
from bayesprop.estimators.params import (
    Count,
    Noise,
    Sizes,
    check_fields,
    check_int,
    hyper_parameters,
    one_of,
)
from bayesprop.estimators.scikit_learn import Frame, are_numbers, are_plain
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import Learned, Method
from bayesprop.model.task import (
    CLASSES,
    CLASSIFICATION,
    KINDS_OF_CLASSES,
    REGRESSION,
    Encoding,
    Fitted,
    Standardiser,
    Task,
)
from bayesprop.numerics.machine import check_not_forked
from bayesprop.targets.bijectors import NUMBERS
from bayesprop.targets.kinds import KINDS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    from bayesprop.estimators.stored import Pruned
else:
    BaseEstimator = ClassifierMixin = RegressorMixin = object

Seed = int | np.random.RandomState | None


def of_fitted(path: str) -> Any:
    """Attribute of a fitted estimator: a part of its `Fitted`, by a path with dots."""
    return property(attrgetter(f"_fitted.{path}"))


class EstimatorBase(ABC, BaseEstimator):
    """Fits a method to rows, and predicts in the user's units or by labels.

    A subclass has hyper-parameters, fields of a dataclass, and says what method they make.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows.
    batch_size : int
        Rows of a step; all of them if there are fewer.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    learning_rate : float
        Step size of the optimiser.
    optimizer : {"adam", "sgd", "rmsprop"}
        Adam, stochastic gradient descent with momentum, or RMSprop (Tieleman & Hinton 2012).
    momentum : float
        Of "sgd", 0 to less than 1.
    weight_decay : float
        Precision of a Gaussian prior on every parameter, in standardised units: weight_decay / 2
        times the sum of squares is added to the SUM of -log p over the rows. 0: none.
    early_stopping : bool
        Hold out rows, stop when their log-likelihood no longer grows, keep the best epoch; n_epochs
        is the most.
    validation_fraction : float
        Share of the rows that is held out.
    patience : int
        Epochs without a better one before it stops.
    init_std : float
        Standard deviation of every weight at the start.
    n_draws : int
        Networks that are drawn for a prediction.
    noise : "learned", "input" or float
        One noise variance learnt for every output; one that depends on the input; or the variance
        itself, in y².
    standardise : bool
        Whether inputs are brought to mean 0 and variance 1; False for pixels.
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling.
    target_kind : {"numbers", "positive", "nonnegative", "censored", "share", "count"}
        What a target can be: any number; above 0, learnt through a map between a log and a line
        that rows left out choose; 0 or above, where 0 has a probability of its own; up to a limit,
        the least or the largest value if a fiftieth of the rows have it, which stands for all
        beyond; between 0 and 1, or 0 and 100 where one exceeds 1, as log odds; or a whole number
        from 0 on, predicted by the probability of each. Predictions never leave it.
    exposure : str, int or None
        Column of X that says how long, or on how many, each row's count was taken: counts grow
        with it, and its log is an input. A name, if X has names, or a place.
    order : sequence of labels or None
        Of ordered classes, from the lowest to the highest; words need it, numbers sort themselves.
    random_state : int, RandomState or None
        Seeds start, order of rows and draws.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    fit_report_ : FitReport
        Guards that fired, course of training, advice.
    x_scaler_ : Standardiser
        How inputs were standardised.
    n_iter_ : int
        Epochs seen since the last reset.
    """

    method_name: ClassVar[str]
    """By which the table of methods and files know it."""
    task_name: ClassVar[str]
    method_class: ClassVar[type]
    random_state: Seed
    target_kind: str
    n_features_in_: int
    feature_names_in_: np.ndarray
    _fitted: Fitted

    task_: Task = of_fitted("task")
    encoding_: Encoding = of_fitted("encoding")
    x_scaler_: Standardiser = of_fitted("encoding.scaler")
    inputs_ = of_fitted("inputs")
    learned_: Learned = of_fitted("learned")
    state_: Any = of_fitted("learned.state")
    fit_report_: FitReport = of_fitted("learned.report")
    n_iter_: int = of_fitted("learned.n_iter")

    @abstractmethod
    def build_method(self, task: Any, n_inputs: int) -> Method:
        """Return the method that the hyper-parameters describe."""

    @abstractmethod
    def predict_dist(self, X: ArrayLike, *, X_std: ArrayLike | None = None) -> Distribution:
        """Predictive distribution of every row, in the units of the target."""

    def check_params(self) -> None:
        """Raise ValueError for a hyper-parameter out of its range; a subclass adds what relates."""
        check_fields(self)

    @property
    def standardises_inputs(self) -> bool:
        """Whether inputs are brought to mean 0 and variance 1."""
        return getattr(self, "standardise", True)

    @property
    def fitted_(self) -> Fitted:
        """Method, as the hyper-parameters are now, task, encoding and state in one."""
        fitted = self._fitted
        return replace(fitted, method=self.build_method(fitted.task, self.n_features_in_))

    def keep(self, fitted: Fitted, pruned: Pruned | None = None) -> Self:
        """Hold what was learnt, all of it at once, in the place of an earlier fit."""
        vars(self).pop("pruned_", None)
        if pruned is not None:
            self.pruned_ = pruned
        self.n_features_in_, names = len(fitted.encoding.scaler.mean), fitted.encoding.names
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._fitted = fitted
        return self

    def relearned(self, learned: Learned, pruned: Pruned | None = None) -> Self:
        """Return a fitted copy that has learnt something else."""
        return copy.copy(self).keep(replace(self._fitted, learned=learned), pruned)

    def __getstate__(self) -> dict:
        """Return what is pickled: no method, whose functions cannot be; `fitted_` builds it."""
        state = cast("dict", super().__getstate__())
        if "_fitted" not in state:
            return state
        return state | {"_fitted": replace(self._fitted, method=cast(Method, None))}

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a fit."""
        return "_fitted" in vars(self)

    def __sklearn_tags__(self) -> Any:
        """Missing inputs are supported; sparse input is not."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        X_std: ArrayLike | None = None,
    ) -> Self:
        """Fit from scratch; with `warm_start`, where there is one, go on.

        X
            (n, d) numbers, NaN where one is missing: it is drawn from what is known of its row. A
            frame's column names are remembered and checked later.
        y
            Of a regressor (n,) or (n, o) numbers, in any unit; of a classifier (n,) labels of any
            type, two classes at least; of `PBPClassifier` also (n, o) of 0 and 1, o labels a row.
        sample_weight
            (n,), not negative: each row's log-likelihood is multiplied by it.
        groups
            (n,) labels of what belongs together, such as the patient of every row: error bars are
            then those of new groups. For methods that judge themselves by rows left out; the
            default learns effects of groups too, of several kinds (n, f), the first left out.
        X_std
            Standard deviations of the errors of X, as of `predict_dist`: what is learnt is then of
            exact inputs, and new rows with an X_std come from the same population.
        """
        from bayesprop.estimators import fitting

        return self.keep(fitting.fit(self, X, y, sample_weight, groups, X_std))

    def checked_inputs(self, X: ArrayLike) -> Float[np.ndarray, "n d"]:
        """Return rows to predict at, columns as in `fit`; NaN where a value is missing."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return validated(self, X, reset=False)[0]

    def _uncertain(
        self, X: ArrayLike, X_std: ArrayLike | None, groups: ArrayLike | None = None
    ) -> tuple:
        """Return rows to predict at, their standard deviations, by name of a frame, and groups."""
        rows, is_frame = self.checked_inputs(X), hasattr(X_std, "columns")
        return rows, self.checked_inputs(cast("ArrayLike", X_std)) if is_frame else X_std, groups

    def to_inference_data(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        n_samples: int = 1000,
        random_state: int = 0,
    ) -> Any:
        """Return draws at the rows X for the plots and checks of ArviZ; ImportError without it.

        `posterior_predictive` has new observations `y` (1, n_samples, n[, o]), classes by their
        places in `classes_`; `posterior` the functions `f`, where there is `sample_y`;
        `observed_data` y, if passed: ValueError where it is not of these rows.
        """
        from bayesprop.estimators.inference_data import at_rows, inference_data

        return inference_data(at_rows(self, X, y, n_samples, random_state))

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file that loads without running code."""
        from bayesprop.sealed import model_header, write_sealed

        model, arrays = self.to_stored()
        write_sealed(path, model_header(model), arrays)

    def to_stored(self) -> Stored:
        """Return the fitted estimator as a header for JSON and named arrays."""
        from bayesprop.estimators.stored import to_stored

        return to_stored(self)


@hyper_parameters
class RegressorBase(EstimatorBase, RegressorMixin):
    """Fits a method to rows of numbers, and predicts in their units.

    Attributes
    ----------
    fit_report_ : FitReport
        Guards that fired, course of training, advice. Log evidences are of the mapped target.
    x_scaler_, y_scaler_ : Standardiser
        How inputs and (mapped) targets were standardised.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop import PBPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PBPRegressor(random_state=0)
    >>> mean, std = model.fit(X[:400], y[:400]).predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    task_name = REGRESSION
    target_kind: Annotated[str, one_of(*KINDS)] = NUMBERS
    exposure: str | int | None = None

    y_scaler_ = of_fitted("task.scaler")
    n_outputs_ = of_fitted("task.n_outputs")

    def __sklearn_tags__(self) -> Any:
        """Several outputs are supported, too."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = tags.target_tags.single_output = True
        return tags

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        half_life: float | None = None,
    ) -> Self:
        """Absorb rows once, in their order: the posterior becomes the prior.

        The first call on an unfitted model learns the scaling from its rows (two at least).

        half_life
            For worlds that change: every row counts half as much as one that came so many rows
            later; those of this call, and all before it. None: nothing is forgotten.
        """
        from bayesprop.estimators import fitting

        return self.keep(fitting.partial_fit(self, X, y, sample_weight, half_life))

    def predict_dist(
        self, X: ArrayLike, *, X_std: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Predictive:
        """Predictive distribution of every row: epistemic variance, noise variance, and the rest.

        X
            Rows in the original units, columns as in `fit`; NaN where a value is missing: the
            prediction is then a mixture over what it may be.
        X_std
            Standard deviations of the errors of X, in its units: a number, one a column (d,), or
            one a value (n, d). The prediction is then a mixture over what X may be, and `gap_share`
            the share of its variance that comes from there. A missing value needs none.
        groups
            Labels as of `fit`, of a default fitted with them: what was learnt of known ones moves
            predictions, and `group_share` is the share of the variance that further rows of a row's
            group would remove. None: all are new.
        """
        rows = self._uncertain(X, X_std, groups)
        return self.fitted_.predict(*rows)

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        *,
        X_std: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Any:
        """Predictive mean, and with `return_std` total std, in y; the rest as of `predict_dist`."""
        rows = self._uncertain(X, X_std, groups)
        if not return_std:
            return np.concatenate([part.mean for part in self.fitted_.parts(*rows)])
        moments = [(part.mean, part.std) for part in self.fitted_.parts(*rows)]
        return tuple(np.concatenate(column) for column in zip(*moments, strict=True))

    def predict_interval(
        self,
        X: ArrayLike,
        coverage: float = 0.9,
        *,
        X_std: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Float[np.ndarray, "n ... 2"]:
        """Central interval that holds a new y with probability `coverage`; (n, [o,] 2)."""
        return self.predict_dist(X, X_std=X_std, groups=groups).interval(coverage)

    def predict_quantiles(
        self,
        X: ArrayLike,
        alpha: ArrayLike = (0.05, 0.5, 0.95),
        *,
        X_std: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Float[np.ndarray, "n ... q"]:
        """Predictive quantiles of y at the levels `alpha`; (n, [o,] len(alpha))."""
        predicted = self.predict_dist(X, X_std=X_std, groups=groups)
        return predicted.quantile(np.atleast_1d(alpha))

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: Seed = 0,
        *,
        include_noise: bool = False,
        X_std: ArrayLike | None = None,
    ) -> Float[np.ndarray, "n ... s"]:
        """Joint draws over all rows: each is one function, from one draw of the weights.

        With `include_noise`, draws of new observations. (n, [o,] n_samples), as the Gaussian
        processes of scikit-learn return them. Of a `target_kind` other than numbers a function is
        the median of y given its weights, of counts before it is rounded; observations are counts.
        X_std as `predict_dist` takes it: each draw is at inputs of its own.
        """
        from sklearn.utils import check_random_state

        rows, std, _ = self._uncertain(X, X_std)
        check_int("n_samples", n_samples)
        asked: Any = {"include_noise": include_noise, "X_std": std}
        drawn = self.fitted_.draw(rows, check_random_state(random_state), n_samples, **asked)
        y = np.moveaxis(drawn, 0, -1)
        return y[:, 0] if y.shape[1] == 1 and getattr(self.task_, "is_vector", False) else y

    def posterior_features(self, X: ArrayLike) -> Float[np.ndarray, "n o k"]:
        """Numbers whose inner products are the posterior covariances of the function, y².

        Of a `target_kind` other than numbers to first order: times the mean slope of its map.
        """
        rows, fitted = self.checked_inputs(X), self.fitted_
        features = fitted.features(rows) * self.y_scaler_.scale[:, None]
        if self.task_.kind == NUMBERS:
            return features
        return features * np.reshape(fitted.predict(rows).slope, (len(rows), -1, 1))

    def log_likelihood(self, X: ArrayLike, y: ArrayLike) -> float:
        """Mean log density of y, nats a row, in the original units (outputs are summed)."""
        predictive = self.predict_dist(X)
        y, shape = np.asarray(y, dtype=np.float64), np.shape(predictive.mean)
        if y.shape != shape and not (y.size == shape[0] == np.prod(shape)):
            raise ValueError(f"y must have the shape of the predictions, {shape}, got {y.shape}")
        return float(np.sum(predictive.log_prob(y.reshape(shape))) / len(y))


@hyper_parameters
class ClassifierBase(EstimatorBase, ClassifierMixin):
    """Fits a method to rows with labels, and predicts their probabilities.

    Parameters
    ----------
    target_kind : {"classes", "ordered"}
        Whether the classes have an order: predictions then have a median class, intervals and a
        ranked probability score, and `BayesianClassifier` learns by it.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
        Labels, sorted, in the order of the columns of `predict_proba`; of several columns of y a
        list of the two labels of each.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesprop import PBPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PBPClassifier(random_state=0)
    >>> model.fit(X[:400], y[:400]).predict_proba(X[400:]).shape
    (169, 2)
    >>> bool(model.score(X[400:], y[400:]) > 0.9)
    True
    """

    task_name = CLASSIFICATION
    learns_order: ClassVar[bool] = False
    """Whether the method learns from the order of classes; others are scored by it alone."""
    target_kind: Annotated[str, one_of(*KINDS_OF_CLASSES)] = CLASSES
    order: Sequence[str | float] | None = None

    classes_ = of_fitted("task.classes")

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        half_life: float | None = None,
    ) -> Self:
        """Absorb rows once, in their order: the posterior becomes the prior.

        The first call on an unfitted model learns the scaling from its rows.

        classes
            All labels there will be, in the first call; None: those of its y.
        half_life
            As of `BayesianRegressor.partial_fit`'s: rows count half after so many later ones.
        """
        from bayesprop.estimators import fitting

        return self.keep(fitting.partial_fit(self, X, y, sample_weight, half_life, classes))

    def predict_dist(
        self, X: ArrayLike, *, X_std: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> ClassPredictive:
        """Predictive distribution of every row: probabilities, entropy that data would remove.

        X, X_std, groups
            As of `BayesianRegressor.predict_dist`; shares are of the entropy, groups move log-odds.
        """
        rows = self._uncertain(X, X_std, groups)
        return self.fitted_.predict(*rows)

    def predict_proba(
        self, X: ArrayLike, *, X_std: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Float[np.ndarray, "n c"]:
        """Predictive probability of every class, in the order of `classes_`; rows sum to one.

        Of several columns of y that of 1 in each, (n, o).
        """
        proba = self.predict_dist(X, X_std=X_std, groups=groups).proba
        return proba if proba.ndim == 2 else proba[..., 1]

    def predict(
        self, X: ArrayLike, *, X_std: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> np.ndarray:
        """Most probable class of every row, (n,) or (n, o); the rest as of `predict_dist`."""
        return self.predict_dist(X, X_std=X_std, groups=groups).label

    def log_likelihood(self, X: ArrayLike, y: ArrayLike) -> float:
        """Mean log probability of the labels, nats a row (columns are summed)."""
        log_p = self.predict_dist(X).log_prob(np.asarray(y))
        return float(np.sum(log_p) / len(log_p))


@hyper_parameters
class PassParams(EstimatorBase):
    """Hyper-parameters of networks that are fitted in passes over the rows."""

    hidden_layer_sizes: Sizes = field(default=(50,), kw_only=False)
    n_epochs: Count = field(default=100, kw_only=False)
    warm_start: bool = False
    random_state: Seed = None
    verbose: int = 0


@hyper_parameters
class NoisyRegressor(RegressorBase):
    """Regressor of a network whose likelihood is chosen by `noise`."""

    noise: Noise = "learned"


@hyper_parameters
class PixelClassifier(ClassifierBase):
    """Classifier that can take its inputs as they are."""

    standardise: bool = True


def validated(
    estimator: EstimatorBase, *data: ArrayLike, reset: bool, **how: bool | int
) -> list[np.ndarray]:
    """Check X, or X and y, as `validate_data` of scikit-learn does: float64, NaN allowed.

    reset
        Whether the estimator learns the names and the number of columns.
    how
        What else `validate_data` takes.

    ValueError names a column of text or dates.
    """
    if not reset and are_plain(estimator, *data):
        return [np.asarray(each) for each in data]  # the checks take longer than one row
    from sklearn.utils.validation import validate_data

    if any(type(each).__module__.startswith("polars") for each in data):
        check_not_forked("Polars")
    X, check = data[0], cast("Callable[..., Sequence[np.ndarray]]", validate_data)
    try:
        if any(str(kind).lower().startswith("date") for kind in set(getattr(X, "dtypes", ()))):
            raise TypeError("dates would be taken for nanoseconds")
        checked = check(
            estimator,
            *data,
            reset=reset,
            dtype=np.float64,
            order="C",
            ensure_all_finite="allow-nan",
            **how,
        )
    except (TypeError, ValueError) as error:
        columns = X.columns if isinstance(X, Frame) else ()
        name = next((one for one in columns if not are_numbers(cast(Frame, X)[one])), None)
        if name is None:
            raise
        raise ValueError(
            f"column {name!r} holds text, categories or dates, and an estimator takes numbers: "
            "bayesprop.fit(df, target=...) fits to such a table, and encodes it"
        ) from error
    return [np.asarray(checked)] if len(data) == 1 else [*checked]
