"""What any classifier should beat: the shares of the classes, and a logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import optimize, special

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.standardiser import Standardiser

MAX_FEATURES = 1000
MAX_WEIGHTS = 20_000
_MAX_VALUES = 10_000_000
_MAX_STEPS = 500
_GRADIENT_TOLERANCE = 1e-6
_TASK = "classification"
_DAMAGED = "the stored baselines are damaged: fit the model again"


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
        return _without_doubt(np.tile(self.share, (len(x), 1)), self.classes)


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
        """Maximise sum_i log softmax(z_i W + b)[y_i] - |W|² / 2 by L-BFGS; z is standardised x.

        That is scikit-learn's LogisticRegression with C = 1 for three classes or more. For two,
        where that has one vector of weights, the prior here allows it twice the variance.
        """
        x_scaler = Standardiser.fit(x)
        z = x_scaler.transform(x)
        truth = np.eye(len(classes))[np.searchsorted(classes, y)]
        shape = (x.shape[1] + 1, len(classes))
        found = optimize.minimize(
            _loss,
            np.zeros(shape).ravel(),
            args=(z, truth),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _MAX_STEPS, "gtol": _GRADIENT_TOLERANCE * len(x), "ftol": 1e-12},
        )
        weight = found.x.reshape(shape)
        return cls(classes, x_scaler, weight[:-1], weight[-1])

    def predict_dist(self, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
        """Predict the probabilities of every class."""
        logits = self.x_scaler.transform(x) @ self.weight + self.intercept
        return _without_doubt(special.softmax(logits, axis=1), self.classes)


@dataclass(frozen=True)
class ClassBaselines:
    """The baselines of one training table; `logistic` is None where `note` says why."""

    constant: FrequencyBaseline
    logistic: LogisticBaseline | None
    note: str = ""

    @classmethod
    def fit(cls, x: Float[np.ndarray, "n d"], y: np.ndarray, classes: np.ndarray) -> ClassBaselines:
        """Fit both on the training rows; the logistic one on as many as are quick to fit."""
        y, classes = np.asarray(y), np.asarray(classes)
        constant = FrequencyBaseline.fit(y, classes)
        (n, d), c = x.shape, len(classes)
        if d > MAX_FEATURES or (d + 1) * c > MAX_WEIGHTS:
            note = (
                f"The logistic baseline is left out beyond {MAX_FEATURES:,} encoded features or "
                f"{MAX_WEIGHTS:,} weights (here: {d:,} features, {c:,} classes)."
            )
            return cls(constant, None, note)
        most = max(_MAX_VALUES // (d + 1), 1)
        if n <= most:
            return cls(constant, LogisticBaseline.fit(x, y, classes))
        chosen = np.sort(np.random.default_rng(0).choice(n, most, replace=False))
        note = f"The logistic baseline was fitted to {most:,} of the {n:,} training rows."
        return cls(constant, LogisticBaseline.fit(x[chosen], y[chosen], classes), note)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values."""
        constant, logistic = self.constant, self.logistic
        stored: dict[str, Any] = {
            "task": _TASK,
            "classes": constant.classes.tolist(),
            "share": constant.share.tolist(),
            "logistic": None,
            "note": self.note,
        }
        if logistic is not None:
            stored["logistic"] = {
                "x_scaler": logistic.x_scaler.to_dict(),
                "weight": logistic.weight.tolist(),
                "intercept": logistic.intercept.tolist(),
            }
        return stored

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> ClassBaselines:
        """Rebuild from `to_dict`; ValueError if it is not one."""
        if stored.get("task") != _TASK:
            raise ValueError("the stored baselines are not those of a classifier")
        classes, share = np.asarray(stored["classes"]), _numbers(stored["share"])
        kept, logistic = stored["logistic"], None
        c = len(classes)
        if kept is not None:
            scaler = Standardiser.from_dict(kept["x_scaler"])
            weight, intercept = _numbers(kept["weight"]), _numbers(kept["intercept"])
            if weight.shape != (*scaler.std.shape, c) or intercept.shape != (c,):
                raise ValueError(_DAMAGED)
            logistic = LogisticBaseline(classes, scaler, weight, intercept)
        if share.shape != (c,):
            raise ValueError(_DAMAGED)
        return cls(FrequencyBaseline(classes, share), logistic, str(stored.get("note", "")))


def _loss(
    flat: Float[np.ndarray, " w"], z: Float[np.ndarray, "n d"], truth: Float[np.ndarray, "n c"]
) -> tuple[float, Float[np.ndarray, " w"]]:
    """Negative log posterior up to a constant, nats, and its gradient."""
    weight = flat.reshape(z.shape[1] + 1, truth.shape[1])
    log_proba = special.log_softmax(z @ weight[:-1] + weight[-1], axis=1)
    excess = np.exp(log_proba) - truth
    gradient = np.vstack([z.T @ excess + weight[:-1], np.sum(excess, axis=0)])
    loss = -float(np.sum(truth * log_proba)) + 0.5 * float(np.sum(weight[:-1] ** 2))
    return loss, gradient.ravel()


def _numbers(stored: Any) -> np.ndarray:
    found = np.asarray(stored, dtype=np.float64)
    if not np.all(np.isfinite(found)):
        raise ValueError(_DAMAGED)
    return found


def _without_doubt(proba: Float[np.ndarray, "n c"], classes: np.ndarray) -> ClassPredictive:
    """Wrap probabilities of a model that is sure of its weights."""
    entropy = ClassPredictive(proba, np.zeros(len(proba)), classes).entropy
    return ClassPredictive(proba, entropy, classes)
