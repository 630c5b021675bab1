"""Baselines of an evaluation: a constant prediction, a linear model, and reference models.

For positive targets, counts and shares, all but boosting fit the target through its bijector, as
the model does; boosting fits quantiles, which need no bijector.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop import codec
from bayesprop.codec import JsonObject, Labels
from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.distributions.gaussian_copula import KnownInputs
from bayesprop.distributions.imputed import over_gaps
from bayesprop.distributions.predictive import GaussianPredictive, Predictive
from bayesprop.distributions.transformed import TransformedPredictive
from bayesprop.evaluation.reference_models import (
    REFERENCE_MODELS,
    fit_reference_models,
    sampled,
    scaler_of,
    standardised,
)
from bayesprop.model.task import Numbers, Standardiser
from bayesprop.targets.bijectors import COUNT, NUMBERS
from bayesprop.targets.censoring import IntervalMap
from bayesprop.targets.kinds import learnt_map
from bayesprop.targets.left_out import Ridge

MAX_FEATURES = 1000
MAX_STORED_FEATURES = 64
MAX_WEIGHTS = 20_000
_MAX_VALUES = 10_000_000
_DAMAGED = "the stored baselines are damaged: fit the model again"
SIMPLE = ("constant", "linear", "logistic")
"""Names of what any model should beat; others are those of reference models."""
EVERY = (*SIMPLE, *REFERENCE_MODELS)


@dataclass(frozen=True)
class ConstantBaseline:
    """N(mean, var) of the training targets for every row, whatever its features. In y and y²."""

    mean: float
    var: float

    @classmethod
    def fit(cls, y: Float[np.ndarray, " n"]) -> ConstantBaseline:
        """Take mean and variance (ddof 0) of the targets.

        Of equal targets the std is 1e-6 of their size: a variance of zero has no density.
        """
        is_constant = float(np.ptp(y)) == 0.0
        with np.errstate(over="ignore"):  # an infinite variance says what is wrong
            least = np.square(1e-6 * (np.max(np.abs(y)) or 1.0))
            return cls(float(np.mean(y)), float(least if is_constant else np.var(y)))

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> GaussianPredictive:
        """Predict every row alike."""
        ones = np.ones(len(x))
        return GaussianPredictive(self.mean * ones, 0.0 * ones, self.var * ones)


@dataclass(frozen=True, eq=False)
class FrequencyBaseline:
    """The same probabilities for every row: the share of each class among the training rows."""

    classes: Labels
    share: Float[np.ndarray, " c"]

    @classmethod
    def fit(cls, y: np.ndarray, classes: np.ndarray) -> FrequencyBaseline:
        """Count the classes, half a row more for each, so that none is excluded.

        This is the posterior mean under Jeffreys's prior, Dirichlet(1/2).
        """
        counts = np.bincount(np.searchsorted(classes, y), minlength=len(classes)) + 0.5
        return cls(classes, counts / np.sum(counts))

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
        """Predict every row alike."""
        return ClassPredictive.of_sure_weights(np.tile(self.share, (len(x), 1)), self.classes)


@dataclass(frozen=True, eq=False)
class LinearBaseline:
    """Bayesian linear regression, its two precisions set by the evidence (MacKay 1992).

    Everything is held in standardised units.

    weight_mean, weight_cov
        The Gaussian posterior of the slopes; the intercept is the mean of y.
    noise_var
        Variance of the residual noise, standardised y².
    """

    x_scaler: Standardiser
    y_scaler: Standardiser
    weight_mean: Float[np.ndarray, " d"]
    weight_cov: Float[np.ndarray, "d d"]
    noise_var: float

    @classmethod
    def fit(cls, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> LinearBaseline:
        """Fit scikit-learn's BayesianRidge to standardised rows."""
        from sklearn.linear_model import BayesianRidge

        x_scaler, y_scaler = scaler_of(x), Standardiser.fit(y[:, None])
        z, t = standardised(x_scaler, x), y_scaler.transform(y[:, None])[:, 0]
        ridge = BayesianRidge(fit_intercept=False, tol=1e-6).fit(z, t)
        return cls(x_scaler, y_scaler, ridge.coef_, ridge.sigma_, 1.0 / float(ridge.alpha_))

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> GaussianPredictive:
        """Predict mean and variance, in y and y²."""
        z = standardised(self.x_scaler, x)
        var = np.einsum("ij,ij->i", z @ self.weight_cov, z)
        noise_var = np.full_like(var, self.noise_var)
        predictive = GaussianPredictive(z @ self.weight_mean, var, noise_var)
        return predictive.rescaled(self.y_scaler.inverse_mean(np.zeros(1)), self.y_scaler.scale)


@dataclass(frozen=True, eq=False)
class LogisticBaseline:
    """Multinomial logistic regression on standardised inputs, at its most probable weights.

    weight, intercept
        For standardised inputs; the prior is N(0, 1) for every weight and flat for the intercepts.
    """

    classes: Labels
    x_scaler: Standardiser
    weight: Float[np.ndarray, "d c"]
    intercept: Float[np.ndarray, " c"]

    @classmethod
    def fit(
        cls, x: Float[np.ndarray, "n d"], y: np.ndarray, classes: np.ndarray
    ) -> LogisticBaseline:
        """Fit scikit-learn's LogisticRegression to standardised rows.

        A class without a row gets no slopes, and the odds of half a row.
        """
        from sklearn.linear_model import LogisticRegression

        x_scaler = scaler_of(x)
        weight = np.zeros((x.shape[1], len(classes)))
        codes = np.searchsorted(classes, y)
        counts = np.bincount(codes, minlength=len(classes))
        intercept, present = np.log(np.maximum(counts, 0.5) / len(y)), counts > 0
        if np.sum(present) > 1:
            # The one vector of two classes is the difference of theirs: of twice the variance.
            strength = 2.0 if np.sum(present) == 2 else 1.0
            model = LogisticRegression(C=strength, tol=1e-6, max_iter=500)
            model.fit(standardised(x_scaler, x), codes)
            halves = np.array([[-0.5], [0.5]]) if len(model.coef_) == 1 else 1.0
            weight[:, present] = (halves * model.coef_).T
            intercept[present] = np.ravel(np.asarray(halves).T * model.intercept_)
        return cls(classes, x_scaler, weight, intercept)

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
        """Predict the probabilities of every class."""
        logits = standardised(self.x_scaler, x) @ self.weight + self.intercept
        return ClassPredictive.of_sure_weights(special.softmax(logits, axis=1), self.classes)


def _learn_target(
    kind: str, exposure: int | None, x: Float[np.ndarray, "n d"], y: np.ndarray
) -> tuple[Numbers, Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Learn a target of a kind from training rows; also return its rows, mapped to the line.

    Mapped without a look at the inputs, for the constant, and with one, for the line: what is
    known of a target may be an interval.
    """
    z, y = standardised(scaler_of(x), x), np.asarray(y, np.float64)[:, None]
    at = None if exposure is None else x[:, exposure]
    target = Numbers(Standardiser.none(1), True, learnt_map(kind, z, y, None, at))
    of_rows = target.of_rows(x, exposure).map
    of_constant = of_line = of_rows.encode(y, np.random.RandomState(0), z)[:, 0]
    if isinstance(of_rows, IntervalMap):
        ridge = Ridge.of_some(zeros := np.zeros((len(y), 1)), np.ones(len(y)))
        tendency = of_rows.with_tendency(ridge, y[:, 0]).tendency
        without_inputs = replace(cast(Any, of_rows), tendency=tendency)
        of_constant = without_inputs.encode(y, np.random.RandomState(0), zeros)[:, 0]
        target = replace(target, map=replace(cast(Any, target.map), tendency=None))
    return target, of_constant, of_line


class _StoredBaselines(NamedTuple):
    """Baselines stored in a model file: the simple ones."""

    constant: ConstantBaseline | FrequencyBaseline
    line: LinearBaseline | LogisticBaseline | None
    note: str
    target: Numbers | None
    exposure: int | None

    def validate(self) -> None:
        """Raise ValueError where an exposure is no column, or not of counts."""
        is_place = self.target and self.target.kind == COUNT and (self.exposure or 0) >= 0
        if self.exposure is not None and not is_place:
            raise ValueError(_DAMAGED)


@dataclass(frozen=True)
class Baselines:
    """The baselines of one training table, by name.

    note
        Why there is no line, or of how many rows; empty where there is nothing to say.
    target, exposure
        How those that are mapped see a target that is no plain number (None: as it is), and the
        place of the column that counts grow with.
    reference_notes
        Sentences on reference models, which no file holds, that were left out or saw a sample.
    """

    models: Mapping[str, Any]
    note: str = ""
    target: Numbers | None = None
    exposure: int | None = None
    reference_notes: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        x: Float[np.ndarray, "n d"],
        y: np.ndarray,
        classes: np.ndarray | None = None,
        *,
        kind: str = NUMBERS,
        exposure: int | None = None,
        names: Collection[str] = SIMPLE,
    ) -> Baselines:
        """Fit them on the training rows; `classes` are all that the labels `y` may be.

        kind, exposure
            Of a target of numbers, and the place of the column that counts grow with.
        names
            Of those that are wanted beside the constant, out of EVERY.
        """
        target, of_constant, mapped = None, y, y
        if classes is None and kind != NUMBERS:
            target, of_constant, mapped = _learn_target(kind, exposure, x, y)
        constant = (
            ConstantBaseline.fit(of_constant)
            if classes is None
            else FrequencyBaseline.fit(y, classes)
        )
        line, note = _line(x, mapped, classes) if {*names} & {*SIMPLE[1:]} else ({}, "")
        reference, reference_notes = fit_reference_models(x, y, classes, mapped, names)
        return cls(
            {"constant": constant, **line, **reference}, note, target, exposure, reference_notes
        )

    @classmethod
    def of(
        cls,
        estimator: Any,
        x: Float[np.ndarray, "n d"],
        y: np.ndarray,
        names: Collection[str] = SIMPLE,
    ) -> Baselines:
        """Fit those of the task of a fitted estimator, on training rows."""
        if (classes := getattr(estimator, "classes_", None)) is not None:
            return cls.fit(x, y, classes, names=names)
        kind, exposure = estimator.task_.kind, estimator.encoding_.exposure
        return cls.fit(x, y, kind=kind, exposure=exposure, names=names)

    def again(
        self, x: Float[np.ndarray, "n d"], y: np.ndarray, classes: np.ndarray | None = None
    ) -> Baselines:
        """Fit those of the same target to other rows, without reference models."""
        if self.target is None:
            return Baselines.fit(x, y, classes)
        return Baselines.fit(x, y, kind=self.target.kind, exposure=self.exposure)

    def predict(
        self, x: Float[np.ndarray, "n d"], beside: Any = None, inputs: KnownInputs | None = None
    ) -> dict[str, Distribution]:
        """Predict rows by each, under its name.

        beside
            What a model predicts for them; theirs are given its positive class, and its order.
        inputs
            How the columns go together: over a gap the line is averaged, as the model is. None: a
            gap is filled with the mean, which reference models that take none do, too.
        """
        predicted: dict[str, Distribution] = {}
        if self.exposure is not None and self.exposure >= x.shape[1]:
            raise ValueError(_DAMAGED)
        to_y = None if self.target is None else self.target.of_rows(x, self.exposure).map[..., 0]
        for name, one in self.models.items():
            if name in SIMPLE[1:] and inputs is not None and np.isnan(x).any():
                predicted[name] = over_gaps(one.predict_dist, x, inputs.model)
            else:
                predicted[name] = one.predict_dist(x)
            if to_y is not None and (name in SIMPLE or one.is_mapped):
                predicted[name] = TransformedPredictive.of(cast(Predictive, predicted[name]), to_y)
        if not isinstance(beside, ClassPredictive):
            return predicted
        about = {"order": beside.order, "positive": beside.positive}
        return {name: replace(one, **about) for name, one in predicted.items()}

    def to_dict(self) -> JsonObject:
        """Return plain JSON-ready values; a linear one only while its covariance stays small."""
        note, line = self.note, self.models.get("linear", self.models.get("logistic"))
        if isinstance(line, LinearBaseline) and len(line.x_scaler.mean) > MAX_STORED_FEATURES:
            line = None
            note = (
                "The linear baseline was not stored with the model, which has more than "
                f"{MAX_STORED_FEATURES} encoded features."
            )
        stored = _StoredBaselines(self.models["constant"], line, note, self.target, self.exposure)
        return codec.to_json(stored, _StoredBaselines)

    @classmethod
    def from_dict(cls, stored: JsonObject) -> Baselines:
        """Rebuild from `to_dict`; KeyError, TypeError or ValueError if it is not one."""
        constant, line, note, target, exposure = codec.from_json(_StoredBaselines, stored)
        if line is None:
            return cls({"constant": constant}, note, target, exposure)
        # What does not fit together cannot predict a row.
        predicted = line.predict_dist(np.zeros((1, len(line.x_scaler.mean))))
        if not np.all(predicted.is_finite):
            raise ValueError(_DAMAGED)
        name = "linear" if isinstance(line, LinearBaseline) else "logistic"
        return cls({"constant": constant, name: line}, note, target, exposure)


def _line(
    x: Float[np.ndarray, "n d"], y: np.ndarray, classes: np.ndarray | None
) -> tuple[dict[str, LinearBaseline | LogisticBaseline], str]:
    """Fit a line, the logistic one on as many rows as are quick to fit; say where it is not."""
    (n, d), c = x.shape, 1 if classes is None else len(classes)
    name = "linear" if classes is None else "logistic"
    if d > MAX_FEATURES or (d + 1) * c > MAX_WEIGHTS:
        return {}, (
            f"The {name} baseline is left out beyond {MAX_FEATURES:,} encoded features or "
            f"{MAX_WEIGHTS:,} weights (here: {d:,} features, {(d + 1) * c:,} weights)."
        )
    if classes is None:
        return {name: LinearBaseline.fit(x, y)}, ""
    most = max(_MAX_VALUES // (d + 1), 1)
    if n <= most:
        return {name: LogisticBaseline.fit(x, y, classes)}, ""
    note = f"The logistic baseline was fitted to {most:,} of the {n:,} training rows."
    return {name: LogisticBaseline.fit(*sampled(most, x, y), classes)}, note
