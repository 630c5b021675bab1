"""A fitted regressor of known form, so that a report's figures can be computed by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bayesprop.model.fit_report import FitReport
from bayesprop.model.predictive import GaussianPredictive
from bayesprop.model.task import Standardiser
from bayesprop.report.rows import Rows


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


def rows(n: int = 120, d: int = 3, seed: int = 0, first: int = 1) -> Rows:
    """Rows whose targets follow the fake's own predictive, so that it is calibrated."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = x @ slopes(d) + 3.0 + rng.standard_normal(n) * np.sqrt(0.5 + 0.05 * x[:, 0] ** 2)
    return Rows(x, y, [str(i) for i in range(first, first + n)])


def slopes(d: int) -> np.ndarray:
    return 2.0 / (1.0 + np.arange(d))


def regressor(d: int = 3, **changes) -> FakeRegressor:
    x = rows(300, d, seed=9).X
    return FakeRegressor(**({"slopes": slopes(d), "x_scaler_": Standardiser.fit(x)} | changes))


METADATA = {
    "target": "strength",
    "source": "concrete.csv",
    "command": "bayesprop fit concrete.csv --target strength --out m.bayesprop",
    "seed": 7,
    "versions": {"bayesprop": "0.1.0", "numpy": "2.4.6"},
    "created": "2026-11-21",
    "unit": "MPa",
}
