"""A fitted classifier: logistic regressions on resampled rows, whose disagreement is its doubt."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from report_fakes import fit_report
from sklearn.linear_model import LogisticRegression

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.task import Standardiser
from bayesprop.report.rows import Rows

TRACE = {
    "loss": [2.1, 1.2, 0.9, 0.8],
    "mean_log_likelihood": [-2.0, -1.1, -0.8, -0.7],
    "kl": [10.0, 40.0, 60.0, 65.0],
    "validation_loss": [2.2, 1.4, 1.2, 1.3],
}


@dataclass
class FakeClassifier:
    """Averages members; `sharpness` multiplies their log-odds, so that 3 makes them too sure."""

    members: list
    x_scaler_: Standardiser
    classes_: np.ndarray
    sharpness: float = 1.0
    fit_report_: FitReport = field(
        default_factory=lambda: fit_report(
            guards={"epochs_undone": 0}, trace=TRACE, log_evidence={}
        )
    )

    def predict_dist(self, x: np.ndarray) -> ClassPredictive:
        z = self.x_scaler_.transform(x)
        proba = np.stack([member.predict_proba(z) for member in self.members])
        proba = np.maximum(proba, 1e-12) ** self.sharpness
        proba /= proba.sum(axis=2, keepdims=True)
        entropy = -np.mean(np.sum(proba * np.log(np.maximum(proba, 1e-300)), axis=2), axis=0)
        return ClassPredictive(proba.mean(axis=0), entropy, self.classes_)

    def get_params(self) -> dict:
        return {"n_epochs": 4, "hidden_layer_sizes": (50,)}


def classifier(train: Rows, n_members: int = 5, **changes) -> FakeClassifier:
    scaler, classes = Standardiser.fit(train.X), np.unique(train.y)
    z, rng = scaler.transform(train.X), np.random.default_rng(0)
    members = []
    while len(members) < n_members:
        chosen = rng.integers(0, len(z), len(z))
        if len(np.unique(train.y[chosen])) == len(classes):
            members.append(
                LogisticRegression(max_iter=200, tol=1e-3).fit(z[chosen], train.y[chosen])
            )
    return FakeClassifier(members, scaler, classes, **changes)


def halves(x: np.ndarray, y: np.ndarray, share: float = 0.7, seed: int = 0) -> tuple[Rows, Rows]:
    """Shuffled training and held-out rows."""
    order = np.random.default_rng(seed).permutation(len(y))
    cut = int(share * len(y))
    parts = (np.sort(order[:cut]), np.sort(order[cut:]))
    train, test = (Rows(x[at], y[at], [str(i + 1) for i in at]) for at in parts)
    return train, test


def imbalanced(n: int = 1500, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn from known probabilities: about one row in ten is "fraud"."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 4))
    logit = -3.2 + 1.8 * x[:, 0] + 0.9 * x[:, 1]
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-logit)), "fraud", "clean")
    return x, y
