"""Estimators of scikit-learn for raw tables: `X` is a frame with words, dates, categories, gaps."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import polars as pl
from jaxtyping import Float, Shaped
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import (
    Tags,
    assert_all_finite,
    check_array,
    check_consistent_length,
    check_random_state,
    column_or_1d,
)
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from bayesprop.catalogue import CLASSIFICATION, REGRESSION, Params
from bayesprop.table.target import Label, known_values
from bayesprop.table_model.from_python import fit
from bayesprop.table_model.sources import Table, read_any

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from bayesprop.distributions.categorical import ClassPredictive
    from bayesprop.distributions.predictive import Predictive
    from bayesprop.table_model.explain import Explanations
    from bayesprop.table_model.monitor import Monitoring

    Inputs = Table | ArrayLike
    Column = pl.Series | pd.Series

Columns = str | Sequence[str]
StdOf = Mapping[str, str | float] | None


@dataclass(kw_only=True, eq=False, repr=False)
class _TableEstimator(BaseEstimator):
    """What both tasks share: the frame goes to `bayesprop.fit`, whose model answers."""

    _task: ClassVar[str]

    method: str | None = None
    settings: Params | None = None
    target_kind: str | None = None
    weights: str | None = None
    drop: Columns = ()
    group: str | Sequence[str] | None = None
    time: str | None = None
    missing: Sequence[str | float] | None = None
    kinds: Mapping[str, str] | None = None
    std_of: StdOf = None
    test_fraction: float = 0.0
    allow_missing_columns: bool = False
    random_state: int | np.random.RandomState | None = 0

    def __sklearn_tags__(self) -> Tags:
        """Text, categories and missing values are supported; sparse input is not."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def fit(
        self,
        X: Inputs,
        y: Any,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit to a frame.

        X
            (n, d): a frame of pandas, polars or another library that narwhals reads, or an array.
        y
            (n,) numbers or classes; rows without one are left out.
        sample_weight
            (n,) weights of the rows, 0 or above, in place of the column `weights`.
        groups
            (n,) names of groups, or (n, f) of several kinds, in place of the columns `group`: error
            bars are for new groups.

        Raises ValueError, in one line that names the column or parameter.
        """
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None")
        table = _frame(X, ensure_min_samples=2)
        self.feature_names_in_ = np.array(table.columns, object)
        self.n_features_in_, self._names = len(table.columns), table.columns
        asked = self.get_params(deep=False)
        beside = {"weights": (sample_weight, "sample_weight"), "group": (groups, "groups")}
        for parameter, (values, name) in beside.items():
            if values is None:
                continue
            if asked[parameter] is not None:
                raise ValueError(f"{parameter} and {name} say the same: give one of them")
            is_one = parameter == "weights" or np.ndim(values) < 2
            names: list[str] = []
            for one in [column_or_1d(values)] if is_one else np.asarray(values).T:
                own = pl.Series(_free(name, table.columns), one.tolist(), strict=False)
                check_consistent_length(table, own)
                table = table.with_columns(own)
                names.append(own.name)
            asked[parameter] = names[0] if is_one else tuple(names)
        if sample_weight is not None and not (table[asked["weights"]] != 0).any():
            raise ValueError("every sample_weight is zero: at least one row needs one above 0")
        seed, settings = asked.pop("random_state"), asked.pop("settings")
        del asked["allow_missing_columns"]
        if settings is not None and not isinstance(settings, Mapping):
            example = "such as {'n_epochs': 40}"
            raise ValueError(f"settings must be a mapping, {example}; got {settings!r}")
        if wrong := sorted({*(settings or {})} & {*signature(fit).parameters}):
            raise ValueError(
                f"settings must be hyper-parameters of the method; {wrong[0]!r} is an argument of "
                "bayesprop.fit: leave it out of the settings"
            )
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        if not (hasattr(y, "iloc") and y.ndim == 1):
            plain = pl.Series(column_or_1d(y, warn=True).tolist(), strict=False)
            y = plain.fill_nan(None) if plain.dtype.is_float() else plain
        check_consistent_length(table, y)
        known = np.asarray(y.dropna() if hasattr(y, "iloc") else y.drop_nulls())
        if known.dtype == object:  # whose values may all be numbers
            known = np.array(known.tolist())
        assert_all_finite(known, input_name="y")
        y = self._target(y, known)
        y = y.rename(_free(y.name or "y", table.columns))
        model = fit(table, y, seed=int(seed), task=self._task, **asked, **(settings or {}))
        self.model_ = model
        return self

    def _target(self, y: Column, known: np.ndarray) -> Column:
        """Return the targets to fit; ValueError unless those that are known can be targets."""
        type_of_target(known, raise_unknown=True)
        return y

    def get_feature_names_out(
        self, input_features: Sequence[str] | None = None
    ) -> Shaped[np.ndarray, " k"]:
        """Return the names of the encoded columns, which are the inputs of the method."""
        check_is_fitted(self)
        if input_features is not None and [*input_features] != [*self.feature_names_in_]:
            raise ValueError("input_features is not equal to feature_names_in_")
        return np.array(self.model_.encoding.feature_names, object)

    def explain(self, X: Inputs) -> Explanations:
        """Explain every row: what each column adds to the prediction and to its uncertainty.

        X as `predict_dist` takes it; Shapley values, as of `TableModel.explain`.
        """
        table = self._table(X)
        return self.model_.explain(table, allow_missing_columns=self.allow_missing_columns)

    def monitor(self, X: Inputs, alarm_rate: float = 0.01) -> Monitoring:
        """Check whether rows are like those of the fit, as `TableModel.monitor` does.

        X as `predict_dist` takes it, at least 20 rows. Coverage and scores are compared, too, where
        a frame has the target in a column of the name that y had.
        """
        table, lacking = self._table(X), self.allow_missing_columns
        return self.model_.monitor(table, alarm_rate, allow_missing_columns=lacking)

    def _predicted(self, X: Inputs, std_of: StdOf) -> Any:
        """Predict rows, as `TableModel.predict_dist` does."""
        table, lacking = self._table(X), self.allow_missing_columns
        return self.model_.predict_dist(table, std_of=std_of, allow_missing_columns=lacking)

    def _table(self, X: Inputs) -> pl.DataFrame:
        """Return the rows to predict as a table; of an array, columns are known by their places."""
        check_is_fitted(self)
        # Not of feature_names_in_, which others remove to give frames of names as arrays.
        table, n = _frame(X, self._names), self.n_features_in_
        if not _is_frame(X) and len(table.columns) != n:
            name, got = type(self).__name__, len(table.columns)
            raise ValueError(f"X has {got} features, but {name} is expecting {n} features as input")
        return table


@dataclass(kw_only=True, eq=False, repr=False)
class TableRegressor(RegressorMixin, _TableEstimator):
    """Regression on a raw table, as an estimator of scikit-learn.

    `X` is a frame: words, dates, durations, categories and gaps are encoded as `bayesprop.fit`
    encodes them, anew in every fold of a cross-validation.

    Parameters
    ----------
    method : str, optional
        One of the methods that `bayesprop methods` lists; None: the default.
    settings : mapping, optional
        Hyper-parameters of the method, such as {"n_epochs": 40}.
    target_kind, exposure, unit, weights, drop, group, time, missing, kinds, std_of
        As `bayesprop.fit` takes them; columns are columns of `X`.
    test_fraction : float
        Share of the rows held out to evaluate `model_`; 0: none.
    allow_missing_columns : bool
        Whether columns that a table to predict lacks count as missing in every row.
    random_state : int, RandomState or None
        Seed of every random draw.

    Attributes
    ----------
    model_ : TableModel
        The fitted model, with `save`, `report`, `suggest` and `update`; `print` describes it.
    feature_names_in_, n_features_in_
        Names of the columns of `X`, and their number.
    """

    _task: ClassVar = REGRESSION

    exposure: str | None = None
    unit: str | None = None

    def predict_dist(self, X: Inputs, *, std_of: StdOf = None) -> Predictive:
        """Return the predictive distribution of every row.

        X
            (n, d): a frame with the columns of the fit in any order, an array with all of them in
            their order, or a dict by column (one row) or a list of dicts.
        std_of
            Of columns of numbers that have errors: their standard deviations, as
            `TableModel.predict` takes them.
        """
        return self._predicted(X, std_of)

    def predict(self, X: Inputs, return_std: bool = False, *, std_of: StdOf = None) -> Any:
        """Return the predictive mean, (n,), or with `return_std` also the standard deviation.

        X, std_of
            As of `predict_dist`.
        """
        predictive = self.predict_dist(X, std_of=std_of)
        return (predictive.mean, predictive.std) if return_std else predictive.mean

    def predict_interval(
        self, X: Inputs, coverage: float = 0.9, *, std_of: StdOf = None
    ) -> Float[np.ndarray, "n 2"]:
        """Return the bounds of the central interval that holds a new y with this probability.

        X, std_of
            As of `predict_dist`.
        """
        return self.predict_dist(X, std_of=std_of).interval(coverage)


@dataclass(kw_only=True, eq=False, repr=False)
class TableClassifier(ClassifierMixin, _TableEstimator):
    """Classification of the rows of a raw table, as an estimator of scikit-learn.

    `X` is a frame: words, dates, durations, categories and gaps are encoded as `bayesprop.fit`
    encodes them, anew in every fold of a cross-validation.

    Parameters
    ----------
    method : str, optional
        One of the methods that `bayesprop methods` lists; None: the default.
    settings : mapping, optional
        Hyper-parameters of the method, such as {"n_epochs": 40}.
    target_kind, order, positive, cost, weights, drop, group, time, missing, kinds, std_of
        As `bayesprop.fit` takes them; columns are columns of `X`. With `cost`, `predict` returns
        the cheaper of two classes instead of the more probable one.
    test_fraction : float
        Share of the rows held out to evaluate `model_`; 0: none.
    allow_missing_columns : bool
        Whether columns that a table to predict lacks count as missing in every row.
    random_state : int, RandomState or None
        Seed of every random draw.

    Attributes
    ----------
    model_ : TableModel
        The fitted model, with `save`, `report`, `suggest` and `update`; `print` describes it.
    classes_ : (K,) ndarray
        Labels in the order of the columns of `predict_proba`.
    feature_names_in_, n_features_in_
        Names of the columns of `X`, and their number.
    """

    _task: ClassVar = CLASSIFICATION

    order: Sequence[str | float] | None = None
    positive: Label | None = None
    cost: str | Mapping[str, float] | None = None

    def _target(self, y: Column, known: np.ndarray) -> Column:
        """Return the labels to fit, text that reads as numbers as text; ValueError for others."""
        check_classification_targets(known)
        name, is_category = str(y.name or "y"), str(getattr(y, "dtype", "")) == "category"
        if is_category or known.dtype.kind != "U":
            return y
        if known_values(pl.Series(name, known.tolist())).dtype == pl.String:
            return y
        labels = [one if isinstance(one, str) else None for one in y]
        return pl.Series(name, labels).cast(pl.Categorical)

    @property
    def classes_(self) -> Shaped[np.ndarray, " K"]:
        """Labels in the order of the columns of `predict_proba`."""
        return np.array(self.model_.encoding.classes)

    def predict_dist(self, X: Inputs, *, std_of: StdOf = None) -> ClassPredictive:
        """Return the predictive distribution of every row; X, std_of as of `TableRegressor`."""
        return self._predicted(X, std_of)

    def predict_proba(self, X: Inputs, *, std_of: StdOf = None) -> Float[np.ndarray, "n K"]:
        """Return the probability of every class, in the order of `classes_`."""
        return self.predict_dist(X, std_of=std_of).proba

    def predict(self, X: Inputs, *, std_of: StdOf = None) -> Shaped[np.ndarray, " n"]:
        """Return the most probable class of every row; with `cost`, the cheaper one."""
        predictive, model = self.predict_dist(X, std_of=std_of), self.model_
        if model.notes.rule is None or model.positive is None:
            return predictive.label
        flagged = model.notes.rule.flags(predictive.proba[:, model.positive.place])
        return self.classes_[np.where(flagged, model.positive.place, 1 - model.positive.place)]


def _is_frame(X: Inputs) -> bool:
    """Whether columns have names: a frame, a dict of one row or a list of dicts."""
    first = X[0] if isinstance(X, list) and X else X
    is_known = isinstance(first, dict | pl.LazyFrame)
    return not issparse(X) and (is_known or hasattr(X, "columns"))


def _frame(X: Any, names: Sequence[str] = (), ensure_min_samples: int = 1) -> pl.DataFrame:
    """Return X as a table; the columns of an array are called as in the fit, else x0, x1, ..."""
    if _is_frame(X):
        return read_any(X)
    own: Any = {"dtype": None, "ensure_all_finite": False, "ensure_min_samples": ensure_min_samples}
    X = check_array(X, **own)
    if len(names) != X.shape[1]:
        names = [f"x{k}" for k in range(X.shape[1])]
    pairs = zip(names, X.T, strict=True)
    return pl.DataFrame([pl.Series(name, own.tolist(), strict=False) for name, own in pairs])


def _free(name: Hashable, taken: Sequence[str]) -> str:
    """Return a name that no column has."""
    name = str(name)
    while name in taken:
        name += "_"
    return name
