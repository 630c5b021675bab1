"""`python -m benchmarks.calls`: what one call costs, and the same of peers in the same run.

Microseconds of the mean, the interval and the absorption of one row, of models fitted to 400 rows
of 10 numbers: the tenth percentile of many calls, as other work on the machine only adds to it.
Then milliseconds of what the default says of 4096 rows, by the kind of their target.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bayesprop import BayesianRegressor
from bayesprop.catalogue import CLASSIFICATION, METHODS, REGRESSION, estimator_class
from bayesprop.cli.console import print_table
from bayesprop.targets.bijectors import COUNT, NONNEGATIVE, NUMBERS, POSITIVE

_N_ROWS, _N_INPUTS, _N_MANY = 400, 10, 4096
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
        is_long = name != "default" and "n_epochs" in kind().get_params()
        measured.append(measure(name, kind(**(_QUICK if is_long else {}))))
    classifier = estimator_class("default", CLASSIFICATION)(n_epochs=_QUICK["n_epochs"])
    return [*measured, measure("default, two classes", classifier, has_classes=True)]


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


def many_rows(kind: str) -> tuple[float, ...]:
    """Milliseconds of the moments, intervals, log densities and CRPS of many rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((_N_ROWS, _N_INPUTS))
    y = X[:, 0] + rng.standard_normal(_N_ROWS)
    mapped = {
        NUMBERS: y,
        POSITIVE: np.exp(y),
        NONNEGATIVE: np.maximum(y, 0.0),
        COUNT: np.floor(np.exp(y)),
    }
    model = BayesianRegressor(target_kind=kind, random_state=0, **_QUICK).fit(X, mapped[kind])
    rows, targets = rng.standard_normal((_N_MANY, _N_INPUTS)), np.ones(_N_MANY)
    predicted = model.predict_dist(rows)
    calls: tuple[Callable[[], Any], ...] = (
        lambda: model.predict_dist(rows),
        predicted.interval,
        lambda: predicted.log_prob(targets),
        lambda: predicted.crps(targets),
    )
    return tuple(1e-3 * microseconds(call) for call in calls)


def main() -> None:
    """Print both tables."""
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
    print_table(
        f"{_N_MANY:,} rows: milliseconds",
        ("target", "predict_dist", "interval", "log_prob", "crps"),
        [
            (kind, *(f"{ms:,.0f}" for ms in many_rows(kind)))
            for kind in (NUMBERS, POSITIVE, NONNEGATIVE, COUNT)
        ],
        right=range(1, 5),
    )


if __name__ == "__main__":
    main()
