"""A warning of a fit is shown at the line of the user, so that every fit shows its own."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

from bayesprop import BayesianLinearRegressor, BayesianLogisticClassifier, PBPRegressor

X, LABELS = load_iris(return_X_y=True)
LENGTHS = X[:, 0]
CASES = {
    "posterior": lambda: BayesianLogisticClassifier(max_steps=1, prior_prec=1.0).fit(X, LABELS),
    "its evidence": lambda: BayesianLogisticClassifier(max_steps=1).fit(X, LABELS),
    "evidence": lambda: BayesianLinearRegressor(max_steps=1).fit(X[:, 1:], LENGTHS),
    "constant target": lambda: PBPRegressor(n_epochs=1).fit(X, np.ones(150)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_fit_shows_its_warning_at_the_line_that_asked(name):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        CASES[name]()
        guards = CASES[name]().fit_report_.guards
    assert shown
    assert guards.get("not_converged", 0) == (name != "constant target")
    assert {one.filename for one in shown} == {__file__}
    assert len({one.lineno for one in shown}) == 1


def test_a_stream_shows_it_too():
    model = BayesianLogisticClassifier().partial_fit(X, LABELS).set_params(max_steps=1)
    with pytest.warns(UserWarning, match="raise max_steps") as shown:
        model.partial_fit(X, LABELS)
    assert {one.filename for one in shown} == {__file__}
