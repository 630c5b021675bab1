"""`python -m benchmarks.calls`: what one call costs, and the same of peers in the same run.

Microseconds of the mean, the interval and the absorption of one row, of models fitted to 400 rows
of 10 numbers: the tenth percentile of many calls, as other work on the machine only adds to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bayesprop.catalogue import CLASSIFICATION, METHODS, REGRESSION, estimator_class
from bayesprop.cli.console import print_table

_N_ROWS, _N_INPUTS = 400, 10
_SECONDS = 1.0
_QUICK = {"n_epochs": 5}
"""Of training, which what a call costs does not depend on."""


class Calls(NamedTuple):
    """Microseconds of one row; None where there is no such call."""

    name: str
    predict: float
    interval: float | None
    absorb: float | None


def microseconds(call: Callable[[], Any]) -> float:
    """Tenth percentile of calls within a second, at least three."""
    call()
    times, until = [], time.perf_counter() + _SECONDS
    while time.perf_counter() < until or len(times) < 3:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1e6 * float(np.quantile(times, 0.1))


def measure(name: str, model: Any, *, has_classes: bool = False) -> Calls:
    """Fit a model to numbers or to two classes, and call it with its first row."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((_N_ROWS, _N_INPUTS))
    y = X[:, 0] + np.sin(X[:, 1]) + 0.1 * rng.standard_normal(_N_ROWS)
    y = (y > 0.0).astype(int) if has_classes else y
    model.fit(X, y)
    row, target = X[:1], y[:1]
    interval = getattr(model, "predict_interval", None)
    absorb = getattr(model, "partial_fit", None)
    return Calls(
        name,
        microseconds(lambda: model.predict(row)),
        None if interval is None else microseconds(lambda: interval(row)),
        None if absorb is None else microseconds(lambda: absorb(row, target)),
    )


def ours() -> list[Calls]:
    """Measure the regressors of the catalogue and the default classifier.

    All but the default regressor after a short training.
    """
    measured = []
    for name, method in METHODS.items():
        if REGRESSION not in method.homes:
            continue
        kind = estimator_class(name, REGRESSION)
        is_long = name != "mlp" and "n_epochs" in kind().get_params()
        measured.append(measure(name, kind(**(_QUICK if is_long else {}))))
    classifier = estimator_class("mlp", CLASSIFICATION)(n_epochs=_QUICK["n_epochs"])
    return [*measured, measure("mlp, two classes", classifier, has_classes=True)]


def peers() -> list[Calls]:
    """Measure what a user of scikit-learn would pick."""
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.linear_model import BayesianRidge, SGDRegressor
    from sklearn.neural_network import MLPRegressor

    models = (
        BayesianRidge(),
        SGDRegressor(),
        MLPRegressor(max_iter=1000),
        GaussianProcessRegressor(alpha=0.01),
        RandomForestRegressor(),
        HistGradientBoostingRegressor(),
    )
    return [measure(type(model).__name__, model) for model in models]


def main() -> None:
    """Print a table."""
    rows = [
        (each.name, *("" if us is None else f"{us:,.0f}" for us in each[1:]))
        for each in [*ours(), *peers()]
    ]
    print_table(
        f"One row of {_N_INPUTS} numbers: microseconds a call",
        ("method", "predict", "predict_interval", "partial_fit"),
        rows,
        right=range(1, 4),
    )


if __name__ == "__main__":
    main()
