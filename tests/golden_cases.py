"""The cases of the golden files: every method, each of its tasks, one small fit of real rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets

from bayesprop.catalogue import CLASSIFICATION, REGRESSION, make

TINY = {"hidden_layer_sizes": (4,), "n_epochs": 30, "random_state": 0}
GRADIENT = TINY | {"learning_rate": 0.03}
FEW_DRAWS = GRADIENT | {"n_draws": 8}
CHAINS = {"hidden_layer_sizes": (2,), "n_warmup": 200, "n_draws": 30, "n_chains": 2}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("default", TINY | {"n_epochs": 300, "n_members": 2}),
    "closed-form-vi": ("closed-form-vi", GRADIENT | {"kl_warm_up": 10.0}),
    "pbp": ("pbp", TINY),
    "pbp-sep": ("pbp", TINY | {"inference": "sep"}),
    "ebp": ("ebp", TINY),
    "batch-ep": ("batch-ep", TINY | {"n_epochs": 40, "n_starts": 1, "tol": 1.0}),
    "linear": ("linear", {"noise": "evidence"}),
    "linear-radial": (
        "linear",
        {"noise": "evidence", "basis": "radial", "n_centres": 3, "random_state": 0},
    ),
    "logistic": ("logistic", {}),
    "logistic-laplace": ("logistic", {"posterior": "laplace"}),
    "bayes-by-backprop": ("bayes-by-backprop", FEW_DRAWS),
    "graves-vi": ("graves-vi", FEW_DRAWS),
    "laplace": ("laplace", GRADIENT),
    "mc-dropout": ("mc-dropout", FEW_DRAWS),
    "deep-ensemble": ("deep-ensemble", GRADIENT | {"n_members": 2}),
    "mcmc": ("mcmc", CHAINS | {"random_state": 0}),
    "network": ("network", GRADIENT),
}
"""Name of the case: its method and hyper-parameters."""
OF_ONE_TASK = {
    "pbp-sep": REGRESSION,
    "ebp": CLASSIFICATION,
    "batch-ep": REGRESSION,
    "linear": REGRESSION,
    "linear-radial": REGRESSION,
    "logistic": CLASSIFICATION,
    "logistic-laplace": CLASSIFICATION,
}
"""A variant stands for its method once."""
N_TRAIN, N_STORED = 96, 12


class Rows(NamedTuple):
    """Training rows, and test rows that the scores are taken at."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def cases() -> list[tuple[str, str]]:
    """Name and task of every case."""
    both = (REGRESSION, CLASSIFICATION)
    return [(name, t) for name in SETTINGS for t in both if OF_ONE_TASK.get(name, t) == t]


def rows(task: str) -> Rows:
    """Rows of scikit-learn's diabetes (four of its columns) or iris, in an order of their own."""
    if task == REGRESSION:
        x, y = datasets.load_diabetes(return_X_y=True)
        x = x[:, [1, 2, 3, 8]]
    else:
        x, codes = datasets.load_iris(return_X_y=True)
        y = np.array(["setosa", "versicolor", "virginica"])[codes]
    order = np.random.default_rng(28).permutation(len(x))[:150]
    x, y = x[order], y[order]
    return Rows(x[:N_TRAIN], y[:N_TRAIN], x[N_TRAIN:], y[N_TRAIN:])


def fitted(name: str, task: str) -> Any:
    """Fit the case's estimator to its rows."""
    method, settings = SETTINGS[name]
    data = rows(task)
    model = make(method, task=task, **settings)
    return model.fit(data.x, data.y)


def predictions(model: Any, x: np.ndarray) -> dict[str, list]:
    """What a model says of rows: class probabilities, or moments and the ends of an interval."""
    if hasattr(model, "classes_"):
        return {"proba": model.predict_proba(x).tolist()}
    mean, std = model.predict(x, return_std=True)
    ends = model.predict_interval(x, 0.9)
    return {"mean": mean.tolist(), "std": std.tolist(), "interval": ends.tolist()}


def scores(model: Any, task: str) -> dict[str, float]:
    """Mean log likelihood, and root mean square error or accuracy, at the test rows."""
    data = rows(task)
    predicted = model.predict(data.x_test)
    if task == REGRESSION:
        error = {"rmse": float(np.sqrt(np.mean((predicted - data.y_test) ** 2)))}
    else:
        error = {"accuracy": float(np.mean(predicted == data.y_test))}
    return {"log_likelihood": model.log_likelihood(data.x_test, data.y_test)} | error
