"""Every quick method with its defaults on the tables that come with scikit-learn, five folds each.

What a user gets who sets nothing, beside what the same user would pick without this library.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessRegressor, kernels
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop import metrics
from bayesprop.catalogue import CLASSIFICATION, METHODS, REGRESSION, make
from bayesprop.datasets import registry
from bayesprop.datasets.registry import Loaded
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import GaussianPredictive, Predictive
from papers import markdown, uci
from papers.protocol import Cell, Experiment, Key, Selection
from papers.rows import Row, results

NAME = "bundled-tables"
TASKS = {
    "diabetes": REGRESSION,
    "iris": CLASSIFICATION,
    "breast_cancer": CLASSIFICATION,
    "wine_cultivars": CLASSIFICATION,
    "digits": CLASSIFICATION,
}
N_FOLDS = 5
RIVALS = {
    REGRESSION: ("constant", "scikit-learn: BayesianRidge", "scikit-learn: Gaussian process"),
    CLASSIFICATION: (
        "constant",
        "scikit-learn: LogisticRegression",
        "scikit-learn: HistGradientBoosting",
    ),
}


@dataclass(frozen=True)
class Config:
    """Settings of the comparison: the estimators have none."""

    seed: int = 1


def cells(_config: Config, asked: Selection) -> list[Cell]:
    """List fits of every method to every fold; parts are data sets. Quick: one fold."""
    return [
        Cell({"dataset": dataset, "method": method, "fold": fold})
        for dataset in asked.parts
        for fold in range(1 if asked.quick else N_FOLDS)
        for method in competitors(TASKS[dataset])
    ]


def competitors(task: str) -> list[str]:
    """Name what is compared: scikit-learn's models, then the methods of the task that are quick."""
    able = (m.name for m in METHODS.values() if task in m.homes and not m.is_slow)
    return [*RIVALS[task], *able]


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit all folds but one, and score that one."""
    dataset, method, task = key["dataset"], key["method"], TASKS[key["dataset"]]
    data = registry.load(dataset)
    train, test = _folds(config, data, task)[key["fold"]]
    seed = uci.cell_seed(config.seed, key["fold"])
    rival = method in RIVALS[task]
    model = _rival(method, task, seed) if rival else make(method, task=task, random_state=seed)
    started = time.perf_counter()
    model.fit(data.X[train], data.y[train])
    seconds = time.perf_counter() - started
    scores = _class_scores if task == CLASSIFICATION else _scores
    return scores(model, rival, data.X[test], data.y[test]) | {"fit_seconds": seconds}


def _folds(config: Config, data: Loaded, task: str) -> list[tuple[np.ndarray, np.ndarray]]:
    kind = StratifiedKFold if task == CLASSIFICATION else KFold
    folds = kind(N_FOLDS, shuffle=True, random_state=config.seed)
    return list(folds.split(data.X, data.y))


class _ConstantRegressor(RegressorMixin, BaseEstimator):
    """Mean and standard deviation of the training targets, whatever the row."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        del X
        self.mean_, self.std_ = float(np.mean(y)), float(np.std(y))
        return self

    def predict(self, X: np.ndarray, return_std: bool) -> tuple[np.ndarray, np.ndarray]:
        del return_std
        return np.full(len(X), self.mean_), np.full(len(X), self.std_)


def _rival(name: str, task: str, seed: int) -> Any:
    noisy = kernels.ConstantKernel() * kernels.RBF() + kernels.WhiteKernel()
    process = GaussianProcessRegressor(noisy, normalize_y=True, random_state=seed)
    models = {
        "constant": DummyClassifier() if task == CLASSIFICATION else _ConstantRegressor(),
        "scikit-learn: BayesianRidge": BayesianRidge(),
        "scikit-learn: Gaussian process": process,
        "scikit-learn: LogisticRegression": LogisticRegression(max_iter=1000),
        "scikit-learn: HistGradientBoosting": HistGradientBoostingClassifier(random_state=seed),
    }
    return make_pipeline(StandardScaler(), models[name])


def _scores(model: Any, rival: bool, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    found: Predictive
    if rival:
        mean, std = model.predict(X, return_std=True)
        found = GaussianPredictive(mean, np.zeros(len(X)), std**2)
    else:
        found = model.predict_dist(X)
    return {
        "log_likelihood": metrics.mean_log_likelihood(found, y),
        "rmse": metrics.rmse(found, y),
        "coverage_90": metrics.coverage(found, y, 0.9),
    }


def _class_scores(model: Any, rival: bool, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    if rival:
        found = ClassPredictive(model.predict_proba(X), np.zeros(len(X)), model.classes_)
    else:
        found = model.predict_dist(X)
    scores = metrics.summarise(found, y)
    return {name: scores[name] for name in ("log_likelihood", "accuracy", "calibration_error")}


def section(rows: Sequence[Row]) -> str:
    """Write one table a data set: methods in the order of `bayesprop methods`."""
    finished = markdown.latest(rows)
    tables = [
        part
        for dataset, task in TASKS.items()
        if (found := [row for row in finished if row.cell["dataset"] == dataset])
        for part in (
            f"### {dataset}",
            markdown.table(("method", *_FIGURES[task].values(), "seconds a fit"), _lines(found)),
        )
    ]
    return markdown.section(NAME, rows, finished, n_folds=N_FOLDS, tables="\n\n".join(tables))


_FIGURES = {
    REGRESSION: {
        "log_likelihood": "log-likelihood",
        "rmse": "RMSE",
        "coverage_90": "90 % interval held",
    },
    CLASSIFICATION: {
        "log_likelihood": "log-likelihood",
        "accuracy": "accuracy",
        "calibration_error": "calibration error",
    },
}


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    task = TASKS[rows[0].cell["dataset"]]
    return [
        [
            method,
            *markdown.means(found, _FIGURES[task]),
            f"{np.median([result['fit_seconds'] for result in found]):.2g}",
        ]
        for method in competitors(task)
        if (found := results(rows, method=method))
    ]


EXPERIMENT = Experiment(
    name=NAME, config=Config, parts=TASKS, cells=cells, work=fit_cell, section=section
)
