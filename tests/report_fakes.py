"""Fitted models of known form, so that a report's figures can be computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.evaluation.baselines import Baselines
from bayesprop.model.fit_report import FitReport
from bayesprop.model.task import Standardiser
from bayesprop.table.columns import NumericColumn
from bayesprop.table.encoding import EncodedRows, TableEncoding

TRACE = {
    "loss": [2.1, 1.2, 0.9, 0.8],
    "mean_log_likelihood": [-2.0, -1.1, -0.8, -0.7],
    "kl": [10.0, 40.0, 60.0, 65.0],
    "validation_loss": [2.2, 1.4, 1.2, 1.3],
}
METADATA = {
    "source": "concrete.csv",
    "command": "bayesprop fit concrete.csv --target strength --out m.bayesprop",
    "seed": 7,
    "versions": {"bayesprop": "0.1.0", "numpy": "2.4.6"},
    "created": "2026-11-21",
    "unit": "MPa",
    "baseline_note": "",
}


def encoding(names: int | Sequence[str], target: str = "strength") -> TableEncoding:
    """A table of numbers; x1, x2, ... where only their count is given."""
    if isinstance(names, int):
        names = [f"x{i + 1}" for i in range(names)]
    return TableEncoding(target, tuple(NumericColumn(name) for name in names))


def table(x: np.ndarray, y: np.ndarray) -> EncodedRows:
    return EncodedRows(x, y, np.arange(1, len(y) + 1))


def fit_report(**changes) -> FitReport:
    settings = {
        "n_rows": 300,
        "n_epochs": 4,
        "seconds": 0.25,
        "n_updates": 120_000,
        "guards": {"weights_undone": 0, "noise_kept": 3, "prior_kept": 12, "steps_damped": 0},
        "trace": {
            "mean_log_z": [-1.4, -1.2, -1.1, -1.05],
            "noise_std": [0.9, 0.7, 0.6, 0.55],
            "epistemic_share": [0.3, 0.2, 0.1, 0.08],
        },
        "log_evidence": {"prequential": -812.3},
        "warnings": [],
    }
    return FitReport(**(settings | changes))


@dataclass
class FakeRegressor:
    """Predicts x @ slopes + offset; epistemic variance 0.01 + 0.05 x0², noise variance fixed."""

    slopes: np.ndarray
    x_scaler_: Standardiser
    offset: float = 3.0
    noise_var: float = 0.49
    fit_report_: FitReport = field(default_factory=fit_report)
    n_predicted: int = 0

    def predict_dist(self, x: np.ndarray) -> GaussianPredictive:
        self.n_predicted += len(x)
        epistemic = 0.01 + 0.05 * self.x_scaler_.transform(x)[:, 0] ** 2
        return GaussianPredictive(
            x @ self.slopes + self.offset, epistemic, np.full(len(x), self.noise_var)
        )

    def get_params(self) -> dict:
        return {"n_epochs": 4, "hidden_layer_sizes": (50,)}


def rows(n: int = 120, d: int = 3, seed: int = 0) -> EncodedRows:
    """Rows whose targets follow the fake's own predictive, so that it is calibrated."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = x @ slopes(d) + 3.0 + rng.standard_normal(n) * np.sqrt(0.5 + 0.05 * x[:, 0] ** 2)
    return table(x, y)


def slopes(d: int) -> np.ndarray:
    return 2.0 / (1.0 + np.arange(d))


def regressor(d: int = 3, **changes) -> FakeRegressor:
    x = rows(300, d, seed=9).X
    return FakeRegressor(**({"slopes": slopes(d), "x_scaler_": Standardiser.fit(x)} | changes))


@dataclass
class FakeClassifier:
    """Averages logistic regressions, whose disagreement is its doubt.

    `sharpness` multiplies their log-odds, so that 3 makes them too sure.
    """

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


def classifier(train: EncodedRows, n_members: int = 5, **changes) -> FakeClassifier:
    """Fit the members to resampled rows."""
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


def halves(
    x: np.ndarray, y: np.ndarray, share: float = 0.7, seed: int = 0
) -> tuple[EncodedRows, EncodedRows]:
    """Shuffled training and held-out rows."""
    order = np.random.default_rng(seed).permutation(len(y))
    cut = int(share * len(y))
    whole = table(x, y)
    return whole.of(np.sort(order[:cut])), whole.of(np.sort(order[cut:]))


def imbalanced(n: int = 1500, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels drawn from known probabilities: about one row in ten is "fraud"."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 4))
    logit = -3.2 + 1.8 * x[:, 0] + 0.9 * x[:, 1]
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-logit)), "fraud", "clean")
    return x, y


NUMBERS = (rows(300, seed=1), rows(120, seed=2))
FRAUD = halves(*imbalanced())
WINE = halves(load_wine().data, load_wine().target_names[load_wine().target])
DIGITS = halves(*load_digits(return_X_y=True), share=0.2)


def given(
    train: EncodedRows | None, test: EncodedRows | None, positive: int = 1, **changes
) -> dict:
    """What a report is given, of the fake that fits the rows and of the baselines."""
    reference = test if train is None else train
    assert reference is not None
    x, is_numbers = reference.X, reference.y.dtype == np.float64
    settings = {"encoding": encoding(x.shape[1]), "train": train, "test": test}
    if "estimator" not in changes:
        settings["estimator"] = regressor(x.shape[1]) if is_numbers else classifier(reference)
    settings |= {"metadata": METADATA} | changes
    return {"models": predictions(settings["estimator"], train, test, positive)} | settings


def predictions(
    estimator, train: EncodedRows | None, test: EncodedRows | None, positive: int = 1
) -> dict:
    judged, classes = test or train, getattr(estimator, "classes_", None)
    assert judged is not None
    model = estimator.predict_dist(judged.X)
    if classes is not None:
        model = replace(model, positive=positive)
    if train is None:
        return {"model": model}
    return {"model": model, **Baselines.fit(train.X, train.y, classes).predict(judged.X, model)}
