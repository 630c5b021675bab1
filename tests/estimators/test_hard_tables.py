"""Tables that are hard to fit: the exact and the one-pass methods stay finite on them."""

from __future__ import annotations

from datetime import datetime
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayesprop import BayesianLinearRegressor, BayesianLogisticClassifier
from bayesprop.catalogue import CLASSIFICATION, REGRESSION, make

TABLES = ("separable", "imbalanced", "more columns", "collinear", "constant", "huge", "subnormal")
SPARE = {"hidden_layer_sizes": (5,), "n_epochs": 5, "random_state": 0}
LINEAR = [
    {},
    {"prior_prec": "ard"},
    {"noise": "conjugate", "prior_prec": 1e-3},
    {"noise": 9.0, "prior_prec": 0.5},
    {"basis": "polynomial", "degree": 2},
    {"basis": "radial", "n_centres": 6, "random_state": 0},
]
LOGISTIC = [
    {"posterior": posterior, "covariance": covariance, "prior_prec": prior}
    for posterior, covariance in product(("laplace", "vi"), ("full", "diagonal"))
    for prior in (1.0, "evidence", "ard")
]
PBP = [
    {"hidden_layer_sizes": sizes, "n_epochs": 60, "inference": inference, "random_state": 0}
    for sizes, inference in product([(), (10,), (6, 6)], ("adf", "sep"))
]
EBP = [
    SPARE | {"hidden_layer_sizes": sizes, "n_epochs": 40, "weights": weights}
    for sizes, weights in (((), "real"), ((5,), "binary"))
]
CASES = [("linear", REGRESSION, one) for one in LINEAR] + [("pbp", REGRESSION, SPARE)]
CASES += [("logistic", CLASSIFICATION, one) for one in LOGISTIC]
CASES += [("pbp", CLASSIFICATION, one) for one in PBP] + [
    ("ebp", CLASSIFICATION, one) for one in EBP
]


def table(name, n_classes):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)), rng.integers(n_classes, size=40)
    if name == "separable":
        x = 10.0 * y[:, None] + 0.01 * x
    elif name == "imbalanced":
        y = np.where(np.arange(40) < n_classes - 1, np.arange(40) + 1, 0)
    elif name == "more columns":
        x, y = rng.normal(size=(10, 12)), np.arange(10) % n_classes
    elif name == "collinear":
        x = np.column_stack([x, x[:, 0], x.sum(axis=1)])
    elif name == "constant":
        x = np.full((40, 2), 0.998)
    elif name == "huge":
        x = x * np.array([1e12, 1e-12])
    else:
        x = np.column_stack([x * np.array([1e-310, 1e300]), 0.3 + 1e-17 * np.arange(40)])
    return x, y


@pytest.mark.filterwarnings("ignore:the columns explain", "ignore:.*as good as certain")
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(("method", "task", "params"), CASES, ids=str)
def test_hard_tables_end_finite(method, task, params, name):
    for n_classes in (2, 3):
        x, y = table(name, n_classes)
        model = make(method, task=task, **params).fit(x, y)
        guards = model.fit_report_.guards
        assert not guards.get("not_converged", 0) + guards.get("rows_refused", 0)
        for rows in (x, x + 1e3 * np.abs(x)):
            predictive = model.predict_dist(rows)
            assert predictive.is_finite.all()
            if task == REGRESSION:
                assert (predictive.std > 0.0).all()
            else:
                assert (predictive.mutual_information >= 0.0).all()
        assert np.isfinite(getattr(model, "log_evidence_", 0.0))
        if method == "pbp" and task == CLASSIFICATION:
            prior_var = float(model.state_.prior_rate / (model.state_.prior_shape - 1.0))
            assert 0.0 < prior_var < 100.0, "separable classes must not drive it up"


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("words", [["Ulm", "Bath"], [datetime(2020, 1, 1)] * 2])
def test_a_frame_with_text_is_refused_by_its_column(kind, words):
    numbers = kind({"size": [1.0, 2.0] * 3, "town": [1.0, 2.0] * 3})
    text = kind({"size": [1.0, 2.0] * 3, "town": words * 3})
    refused = pytest.raises(ValueError, match=r"column 'town' holds text.*bayesprop\.fit\(df, tar")
    with refused:
        BayesianLinearRegressor().fit(text, np.arange(6.0))
    model = BayesianLinearRegressor().fit(numbers, np.arange(6.0))
    with refused:
        model.predict(text)
    with refused:
        BayesianLogisticClassifier().fit(text, [0, 1] * 3)
