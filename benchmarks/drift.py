"""`python -m benchmarks.drift`: streams that change, judged before they are learnt.

SEA concepts (Street & Kim 2001), a turning hyperplane, and a price whose weights walk, all made
here; each row is predicted, then learnt; blocks of 20. River's models where it is installed, which
we do not install, and scikit-learn's. Scores: accuracy of classes, RMSE and log-likelihood of
numbers; microseconds a row of learning.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.preprocessing import StandardScaler

from bayesprop import (
    BayesianLinearRegressor,
    BayesianLogisticClassifier,
    PBPClassifier,
    PBPRegressor,
)
from bayesprop.cli.console import print_table

N, BLOCK, FIRST = 4_000, 20, 200
HALF_LIFE = 500.0


class Stream(NamedTuple):
    """Rows in their order."""

    name: str
    X: np.ndarray
    y: np.ndarray


def sea(rng: np.random.Generator) -> Stream:
    """Make four concepts, a tenth of the labels turned."""
    X = rng.uniform(0.0, 10.0, (N, 3))
    threshold = np.repeat([8.0, 9.0, 7.0, 9.5], N // 4)
    y = (X[:, 0] + X[:, 1] <= threshold) ^ (rng.random(N) < 0.1)
    return Stream("SEA", X, y.astype(int))


def hyperplane(rng: np.random.Generator) -> Stream:
    """Make a plane through ten inputs that turns all the time."""
    X = rng.uniform(0.0, 1.0, (N, 10)) - 0.5
    weights = np.cumsum(0.02 * rng.standard_normal((N, 10)), axis=0) + rng.standard_normal(10)
    y = (np.sum(X * weights, axis=1) > 0.0) ^ (rng.random(N) < 0.05)
    return Stream("hyperplane", X, y.astype(int))


def price(rng: np.random.Generator) -> Stream:
    """Make a price of eight inputs, one of them bent, whose weights walk."""
    X = rng.standard_normal((N, 8))
    weights = np.cumsum(0.02 * rng.standard_normal((N, 8)), axis=0)
    y = np.sum(X * weights, axis=1) + np.abs(X[:, 0]) + 0.3 * rng.standard_normal(N)
    return Stream("price", X, y)


def in_blocks(stream: Stream, model: Any, start: dict, **how: Any) -> tuple[str, ...]:
    """Predict a block, then learn it; `start`: how the first rows are learnt, `how`: the others."""
    X, y, scores, log_p, seconds = stream.X, stream.y, [], [], 0.0
    model.partial_fit(X[:FIRST], y[:FIRST], **start)
    for first in range(FIRST, N, BLOCK):
        rows = slice(first, first + BLOCK)
        scores.append(model.predict(X[rows]))
        if hasattr(model, "log_likelihood"):
            log_p.append(model.log_likelihood(X[rows], y[rows]))
        started = time.perf_counter()
        model.partial_fit(X[rows], y[rows], **how)
        seconds += time.perf_counter() - started
    shown = f"{np.mean(log_p):.3f}" if log_p else ""
    return _line(y, np.concatenate(scores), shown, seconds)


def _line(y: np.ndarray, predicted: np.ndarray, log_p: str, seconds: float) -> tuple[str, ...]:
    y = y[FIRST:]
    is_class = y.dtype.kind == "i"
    score = np.mean(predicted == y) if is_class else np.sqrt(np.mean((predicted - y) ** 2))
    return f"{score:.4f}", log_p, f"{1e6 * seconds / len(y):.0f}"


def of_sklearn(stream: Stream) -> tuple[str, ...]:
    """Predict and learn by stochastic gradients of constant size."""
    is_class = stream.y.dtype.kind == "i"
    how = {"learning_rate": "constant", "eta0": 0.01, "random_state": 0}
    model: Any = SGDClassifier(loss="log_loss", **how) if is_class else SGDRegressor(**how)
    X = StandardScaler().fit(stream.X[:FIRST]).transform(stream.X)
    start = {"classes": np.unique(stream.y)} if is_class else {}
    return in_blocks(stream._replace(X=X), model, start)


def of_river(stream: Stream, model: Any) -> tuple[str, ...]:
    """Predict and learn a row at a time, as river does."""
    names = [f"x{k}" for k in range(stream.X.shape[1])]
    scores, seconds = [], 0.0
    for place, (x, y) in enumerate(zip(stream.X.tolist(), stream.y.tolist(), strict=True)):
        row = dict(zip(names, x, strict=True))
        if place >= FIRST:
            predicted = model.predict_one(row)
            scores.append(0 if predicted is None else predicted)
        started = time.perf_counter()
        model.learn_one(row, y)
        seconds += (time.perf_counter() - started) * (place >= FIRST)
    return _line(stream.y, np.array(scores), "", seconds)


def river_models(*, is_class: bool) -> dict[str, Any]:
    """Return river's models, none where it is not installed."""
    if importlib.util.find_spec("river") is None:
        return {}
    from river import forest, linear_model, preprocessing  # pyright: ignore[reportMissingImports]

    if is_class:
        return {
            "river logistic": preprocessing.StandardScaler() | linear_model.LogisticRegression(),
            "river adaptive forest": forest.ARFClassifier(seed=0),
        }
    return {
        "river linear": preprocessing.StandardScaler() | linear_model.LinearRegression(),
        "river adaptive forest": forest.ARFRegressor(seed=0),
    }


def measure(stream: Stream) -> list[tuple[str, ...]]:
    """Run all models over one stream."""
    is_class = stream.y.dtype.kind == "i"
    kinds: dict[str, Any] = {"linear": BayesianLinearRegressor, "pbp": PBPRegressor}
    if is_class:
        kinds = {"logistic": BayesianLogisticClassifier, "pbp": PBPClassifier}
    lines = []
    for name, kind in kinds.items():
        for half_life in (None, HALF_LIFE):
            line = in_blocks(stream, kind(random_state=0), {}, half_life=half_life)
            shown = name if half_life is None else f"{name}, half-life {half_life:g}"
            lines.append((stream.name, shown, *line))
    lines.append((stream.name, "scikit-learn SGD", *of_sklearn(stream)))
    for name, model in river_models(is_class=is_class).items():
        lines.append((stream.name, name, *of_river(stream, model)))
    return lines


def main() -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    lines = [line for make in (sea, hyperplane, price) for line in measure(make(rng))]
    heads = ("stream", "model", "accuracy or RMSE", "log-likelihood", "µs a row")
    print_table(f"{N} rows, each judged before it is learnt", heads, lines, right=range(2, 5))


if __name__ == "__main__":
    main()
