"""scikit-learn's own contract tests, over every estimator in the table of methods."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayesprop.methods import METHODS, make

FAST = {"pbp": {"n_epochs": 20, "hidden_layer_sizes": (20,), "random_state": 0}}

# Absorbing rows one by one depends on their order: a row of weight 2 is not the same as the same
# row met twice in a shuffled pass, only close to it. scikit-learn's own SGDRegressor is exempt for
# the same reason.
ORDER = "the posterior depends on the order of the rows, as for any online method"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": ORDER,
}


@parametrize_with_checks(
    [make(name, **FAST[name]) for name in METHODS],
    expected_failed_checks=lambda _: EXPECTED,
)
@pytest.mark.filterwarnings("ignore:the target is constant")
def test_contract(estimator, check):
    check(estimator)
