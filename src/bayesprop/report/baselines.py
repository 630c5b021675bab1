"""What any model should beat: the same prediction for every row, and a straight line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.predictive import GaussianPredictive
from bayesprop.model.task import Standardiser

MAX_FEATURES = 1000
MAX_STORED_FEATURES = 64
MAX_WEIGHTS = 20_000
_MAX_VALUES = 10_000_000
_CHUNK_VALUES = 4_000_000
_CLASSES = "classification"
_DAMAGED = "the stored baselines are damaged: fit the model again"


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
        least = (1e-6 * (float(np.max(np.abs(y))) or 1.0)) ** 2
        return cls(float(np.mean(y)), least if is_constant else float(np.var(y)))

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> GaussianPredictive:
        """Predict every row alike."""
        ones = np.ones(len(x))
        return GaussianPredictive(self.mean * ones, 0.0 * ones, self.var * ones)


@dataclass(frozen=True, eq=False)
class FrequencyBaseline:
    """The same probabilities for every row: the share of each class among the training rows."""

    classes: np.ndarray
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
        return _of_sure_weights(np.tile(self.share, (len(x), 1)), self.classes)


@dataclass(frozen=True)
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

        x_scaler, y_scaler = Standardiser.fit(x), Standardiser.fit(y[:, None])
        z, t = x_scaler.transform(x), y_scaler.transform(y[:, None])[:, 0]
        ridge = BayesianRidge(fit_intercept=False, tol=1e-6).fit(z, t)
        return cls(x_scaler, y_scaler, ridge.coef_, ridge.sigma_, 1.0 / float(ridge.alpha_))

    @property
    def n_features(self) -> int:
        """Number of encoded columns."""
        return len(self.weight_mean)

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> GaussianPredictive:
        """Predict mean and variance, in y and y², some rows at a time."""
        step = max(1, _CHUNK_VALUES // max(x.shape[1], 1))
        parts = [self._moments(x[i : i + step]) for i in range(0, len(x), step)]
        m, v = (np.concatenate(values)[:, None] for values in zip(*parts, strict=True))
        scaler, noise = self.y_scaler, np.full_like(v, self.noise_var)
        moments = (scaler.inverse_mean(m), scaler.inverse_var(v), scaler.inverse_var(noise))
        return GaussianPredictive(*(part[:, 0] for part in moments))

    def _moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = self.x_scaler.transform(x)
        return z @ self.weight_mean, np.einsum("ij,ij->i", z @ self.weight_cov, z)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values."""
        return {
            "x_scaler": self.x_scaler.to_dict(),
            "y_scaler": self.y_scaler.to_dict(),
            "weight_mean": self.weight_mean.tolist(),
            "weight_cov": self.weight_cov.tolist(),
            "noise_var": self.noise_var,
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> LinearBaseline:
        """Rebuild from `to_dict`; ValueError if it is not one."""
        x_scaler, y_scaler = (Standardiser.from_dict(stored[f"{s}_scaler"]) for s in "xy")
        mean, cov = _numbers(stored["weight_mean"]), _numbers(stored["weight_cov"])
        noise_var, d = float(stored["noise_var"]), mean.size
        shapes = (mean.shape, cov.shape, x_scaler.std.shape, y_scaler.std.shape)
        if shapes != ((d,), (d, d), (d,), (1,)) or not noise_var > 0.0:
            raise ValueError(_DAMAGED)
        return cls(x_scaler, y_scaler, mean, cov, noise_var)


@dataclass(frozen=True, eq=False)
class LogisticBaseline:
    """Multinomial logistic regression on standardised inputs, at its most probable weights.

    weight, intercept
        (d, c) and (c,), for standardised inputs; the prior is N(0, 1) for every weight and flat
        for the intercepts.
    """

    classes: np.ndarray
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

        x_scaler = Standardiser.fit(x)
        weight = np.zeros((x.shape[1], len(classes)))
        codes = np.searchsorted(classes, y)
        counts = np.bincount(codes, minlength=len(classes))
        intercept, present = np.log(np.maximum(counts, 0.5) / len(y)), counts > 0
        if np.sum(present) > 1:
            # The one vector of two classes is the difference of theirs: of twice the variance.
            strength = 2.0 if np.sum(present) == 2 else 1.0
            model = LogisticRegression(C=strength, tol=1e-6, max_iter=500)
            model.fit(x_scaler.transform(x), codes)
            halves = np.array([[-0.5], [0.5]]) if len(model.coef_) == 1 else 1.0
            weight[:, present] = (halves * model.coef_).T
            intercept[present] = np.ravel(np.asarray(halves).T * model.intercept_)
        return cls(classes, x_scaler, weight, intercept)

    @property
    def n_features(self) -> int:
        """Number of encoded columns."""
        return len(self.weight)

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
        """Predict the probabilities of every class."""
        logits = self.x_scaler.transform(x) @ self.weight + self.intercept
        return _of_sure_weights(special.softmax(logits, axis=1), self.classes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values, the classes apart."""
        return {
            "x_scaler": self.x_scaler.to_dict(),
            "weight": self.weight.tolist(),
            "intercept": self.intercept.tolist(),
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any], classes: np.ndarray) -> LogisticBaseline:
        """Rebuild from `to_dict`; ValueError if it is not one."""
        scaler = Standardiser.from_dict(stored["x_scaler"])
        weight, intercept = _numbers(stored["weight"]), _numbers(stored["intercept"])
        c = len(classes)
        if weight.shape != (*scaler.std.shape, c) or intercept.shape != (c,):
            raise ValueError(_DAMAGED)
        return cls(classes, scaler, weight, intercept)


@dataclass(frozen=True)
class Baselines:
    """The baselines of one training table; `line` is None where `note` says why."""

    constant: ConstantBaseline | FrequencyBaseline | None
    line: LinearBaseline | LogisticBaseline | None = None
    note: str = ""

    @classmethod
    def fit(
        cls, x: Float[np.ndarray, "n d"], y: np.ndarray, classes: np.ndarray | None = None
    ) -> Baselines:
        """Fit both on the training rows; `classes` are all that the labels `y` may be."""
        if classes is not None:
            return _of_classes(x, np.asarray(y), np.asarray(classes))
        constant = ConstantBaseline.fit(y)
        if len(y) < 2:
            return cls(constant, note="A linear baseline needs at least two training rows.")
        if x.shape[1] > MAX_FEATURES:
            note = (
                f"The linear baseline is left out beyond {MAX_FEATURES:,} encoded features "
                f"(this table has {x.shape[1]:,})."
            )
            return cls(constant, note=note)
        return cls(constant, LinearBaseline.fit(x, y))

    def predict(
        self, x: Float[np.ndarray, "n d"], classes: np.ndarray | None = None
    ) -> dict[str, GaussianPredictive | ClassPredictive]:
        """Predict rows by "linear" or "logistic", and by "constant", as far as they are there.

        ValueError if they were fitted to other columns, or to other classes than a model's.
        """
        if self.constant is None:
            return {}
        has_columns = self.line is None or self.line.n_features == x.shape[1]
        if not has_columns or not _are_equal(self.classes, classes):
            raise ValueError(
                "the stored baselines have other features or classes than the model: they do not "
                "belong together"
            )
        predictions: dict[str, GaussianPredictive | ClassPredictive] = {}
        if self.line is not None:
            name = "linear" if isinstance(self.line, LinearBaseline) else "logistic"
            predictions[name] = self.line.predict_dist(x)
        return predictions | {"constant": self.constant.predict_dist(x)}

    @property
    def classes(self) -> np.ndarray | None:
        """Labels in sorted order; None of baselines of numbers."""
        return self.constant.classes if isinstance(self.constant, FrequencyBaseline) else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values; a linear one only while its covariance stays small."""
        line = None if self.line is None else self.line.to_dict()
        if isinstance(self.constant, FrequencyBaseline):
            return {
                "task": _CLASSES,
                "classes": self.constant.classes.tolist(),
                "share": self.constant.share.tolist(),
                "logistic": line,
                "note": self.note,
            }
        note, constant = self.note, self.constant
        if self.line is not None and self.line.n_features > MAX_STORED_FEATURES:
            line, note = (
                None,
                "The linear baseline was not stored with the model, which has more than "
                f"{MAX_STORED_FEATURES} encoded features.",
            )
        return {
            "constant": None if constant is None else [constant.mean, constant.var],
            "linear": line,
            "note": note,
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Baselines:
        """Rebuild from `to_dict`; ValueError if it is not one."""
        note = str(stored.get("note", ""))
        if stored.get("task") == _CLASSES:
            classes, share = np.asarray(stored["classes"]), _numbers(stored["share"])
            if share.shape != classes.shape:
                raise ValueError(_DAMAGED)
            line = stored["logistic"] and LogisticBaseline.from_dict(stored["logistic"], classes)
            return cls(FrequencyBaseline(classes, share), line or None, note)
        if "task" in stored:
            raise ValueError(_DAMAGED)
        constant, linear = stored.get("constant"), stored.get("linear")
        return cls(
            None if constant is None else ConstantBaseline(*map(float, constant)),
            None if linear is None else LinearBaseline.from_dict(linear),
            note,
        )


def _of_classes(x: Float[np.ndarray, "n d"], y: np.ndarray, classes: np.ndarray) -> Baselines:
    """Fit both, the logistic one on as many rows as are quick to fit."""
    constant = FrequencyBaseline.fit(y, classes)
    (n, d), c = x.shape, len(classes)
    if d > MAX_FEATURES or (d + 1) * c > MAX_WEIGHTS:
        note = (
            f"The logistic baseline is left out beyond {MAX_FEATURES:,} encoded features or "
            f"{MAX_WEIGHTS:,} weights (here: {d:,} features, {c:,} classes)."
        )
        return Baselines(constant, note=note)
    most = max(_MAX_VALUES // (d + 1), 1)
    if n <= most:
        return Baselines(constant, LogisticBaseline.fit(x, y, classes))
    chosen = np.sort(np.random.default_rng(0).choice(n, most, replace=False))
    note = f"The logistic baseline was fitted to {most:,} of the {n:,} training rows."
    return Baselines(constant, LogisticBaseline.fit(x[chosen], y[chosen], classes), note)


def _are_equal(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)


def _numbers(stored: Any) -> np.ndarray:
    values = np.asarray(stored, dtype=np.float64)
    if not np.all(np.isfinite(values)):
        raise ValueError(_DAMAGED)
    return values


def _of_sure_weights(proba: Float[np.ndarray, "n c"], classes: np.ndarray) -> ClassPredictive:
    """Wrap probabilities of a model that is sure of its weights."""
    entropy = ClassPredictive(proba, np.zeros(len(proba)), classes).entropy
    return ClassPredictive(proba, entropy, classes)
