"""Plain arrays of numbers take a short way: what it lets pass is what scikit-learn would."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.utils.validation import validate_data

from bayesprop import BayesianLinearRegressor, BayesianLogisticClassifier
from bayesprop.estimators.shell import validated

X = np.random.default_rng(0).standard_normal((20, 3))
LABELS = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(float)
GOOD = {
    "rows": X[:2],
    "one row": X[:1],
    "gaps": np.array([[np.nan, 1.0, np.nan]]),
    "huge": np.full((1, 3), 1e300),
}
BAD = {
    "infinite": np.array([[np.inf, 0.0, 0.0]]),
    "minus infinite": np.array([[0.0, -np.inf, np.nan]]),
    "too few columns": X[:, :2],
    "too many columns": np.hstack([X, X]),
    "no rows": X[:0],
    "a vector": X[0],
    "three axes": X[None],
}
ALMOST = {
    "float32": np.float32(X),
    "whole numbers": np.arange(6).reshape(2, 3),
    "a list": X.tolist(),
    "columns first": np.asfortranarray(X),
    "every second": X[::2],
    "a subclass": X.view(type("Rows", (np.ndarray,), {})),
}


def outcome(check, *data):
    """What a check returns, or how it refuses."""
    try:
        checked = check(*data)
    except ValueError as refusal:
        return str(refusal)
    return checked


def by_scikit_learn(model, *data):
    how = {"dtype": np.float64, "order": "C", "ensure_all_finite": "allow-nan", "reset": False}
    return outcome(lambda *given: validate_data(model, *given, **how), *data)


@pytest.fixture(scope="module")
def model():
    return BayesianLinearRegressor().fit(X, X[:, 0] + X[:, 1] ** 2)


@pytest.mark.parametrize("name", [*GOOD, *BAD, *ALMOST])
def test_rows_come_out_as_scikit_learn_checks_them(model, name):
    rows = (GOOD | BAD | ALMOST)[name]
    ours = outcome(lambda X: validated(model, X, reset=False)[0], rows)
    theirs = by_scikit_learn(model, rows)
    if name in BAD:
        assert isinstance(ours, str)
        assert ours == theirs
    else:
        np.testing.assert_array_equal(ours, theirs, strict=True)
        assert ours.flags.c_contiguous


@pytest.mark.parametrize(
    "y",
    [X[:4, 0], X[:3, 0], np.full(4, np.nan), np.array([0.0, np.inf, 0.0, 0.0]), X[:4, :1], X[:4]],
    ids=["good", "too few", "missing", "infinite", "a column", "several"],
)
def test_targets_too(model, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column is taken for a vector, and said so
        ours = outcome(lambda *data: tuple(validated(model, *data, reset=False)), X[:4], y)
        theirs = by_scikit_learn(model, X[:4], y)
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other, strict=True)


def test_names_of_columns_are_missed(model):
    import pandas as pd

    named = BayesianLogisticClassifier().fit(pd.DataFrame(X, columns=list("abc")), LABELS)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        named.predict(X)
