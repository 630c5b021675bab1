"""What is predicted, as a value: numbers in their units, or classes by their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.predictive import Predictive
from bayesprop.model.standardiser import Standardiser

REGRESSION, CLASSIFICATION = "regression", "classification"
_LABEL_KINDS: dict[str, type] = {"text": str, "bool": bool, "int": int, "float": float}


@dataclass(frozen=True, eq=False)
class Numbers:
    """One target or several, standardised for the method.

    scaler
        Of the targets, (o,).
    is_vector
        Whether there is one target, without an axis of its own.
    """

    scaler: Standardiser
    is_vector: bool

    name = REGRESSION

    @property
    def n_outputs(self) -> int:
        """Number of targets."""
        return len(self.scaler.mean)

    @property
    def log_unit(self) -> float:
        """Log of one standardised unit of every target, in y, summed."""
        return float(np.sum(np.log(self.scaler.scale)))

    def encode(self, y: Float[np.ndarray, "n o"]) -> Float[np.ndarray, "n o"]:
        """Standardise targets."""
        return self.scaler.transform(y)

    def decode(self, predictive: Predictive) -> Predictive:
        """Bring a prediction of standardised targets to the units and the shape of y."""
        shift = self.scaler.inverse_mean(np.zeros((1, self.n_outputs)))[0]
        rescaled = predictive.rescaled(shift, self.scaler.scale)
        return rescaled.target(0) if self.is_vector else rescaled

    def to_dict(self) -> dict[str, Any]:
        """Return what `task_from_dict` reads, for JSON."""
        return {"y_is_vector": self.is_vector, "y_scaler": self.scaler.to_dict()}


@dataclass(frozen=True, eq=False)
class Classes:
    """Two labels or more, in sorted order; the method sees their places."""

    labels: np.ndarray

    name = CLASSIFICATION

    @property
    def n_classes(self) -> int:
        """Number of labels."""
        return len(self.labels)

    def encode(self, y: np.ndarray) -> Int[np.ndarray, " n"]:
        """Codes of labels; ValueError names one that is not among them."""
        codes = np.minimum(np.searchsorted(self.labels, y), len(self.labels) - 1)
        unknown = self.labels[codes] != y
        if unknown.any():
            raise ValueError(
                f"y must hold classes of the first fit, {self.labels.tolist()}, "
                f"got {y.tolist()[int(np.argmax(unknown))]!r}"
            )
        return codes

    def decode(self, predictive: ClassPredictive) -> ClassPredictive:
        """Name the columns of a prediction of codes, whose rows come to sum to one."""
        proba = np.asarray(predictive.proba, np.float64)
        entropy = np.asarray(predictive.expected_entropy, np.float64)
        return ClassPredictive(proba / proba.sum(axis=1, keepdims=True), entropy, self.labels)

    def to_dict(self) -> dict[str, Any]:
        """Return what `task_from_dict` reads, for JSON; TypeError for labels of several kinds."""
        labels = self.labels.tolist()
        for name, kind in _LABEL_KINDS.items():
            if all(type(label) is kind for label in labels):
                is_text = self.labels.dtype.kind == "U"
                return {"classes": labels, "label_kind": name, "is_text_array": is_text}
        raise TypeError(
            f"only labels of one kind, text, bool or numbers, can be saved, got {labels}"
        )


Task = Numbers | Classes


def task_from_dict(stored: dict[str, Any]) -> Task:
    """Rebuild what `to_dict` of either gave; ValueError where it does not fit together."""
    if "classes" not in stored:
        scaler = Standardiser.checked(stored["y_scaler"], "y_scaler")
        return Numbers(scaler, bool(stored["y_is_vector"]))
    kind, labels = _LABEL_KINDS[stored["label_kind"]], stored["classes"]
    if len(labels) < 2 or not all(type(label) is kind for label in labels):
        raise ValueError(f"classes must be two labels or more of kind {stored['label_kind']}")
    is_object = kind is str and not stored["is_text_array"]
    return Classes(np.asarray(labels, dtype=object if is_object else kind))
