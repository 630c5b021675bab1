"""What a rehearsal compiles is what predictions run."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop import BayesianClassifier, BayesianRegressor
from bayesprop.numerics import kernel_sums
from bayesprop.tabular_default import networks as ensemble_outputs
from bayesprop.tabular_default.kernel_classes import evaluate_classes
from bayesprop.tabular_default.kernel_layout import evaluate


@pytest.mark.parametrize(
    ("kind", "rehearse", "entry"),
    [
        (BayesianRegressor, ensemble_outputs.rehearse, evaluate),
        (BayesianClassifier, ensemble_outputs.rehearse_classes, evaluate_classes),
    ],
)
def test_predictions_need_no_other_program(kind, rehearse, entry):
    rehearse()
    assert len(entry.signatures) == 1
    x = np.random.default_rng(0).standard_normal((40, 2))
    kind(n_epochs=1, random_state=0).fit(x, x[:, 0] > 0).predict(x)
    assert len(entry.signatures) == 1


def test_scores_and_intervals_need_no_other_program():
    ensemble_outputs.rehearse()
    names = "scale_shares", "distribution", "quantiles", "spread"
    entries = [getattr(kernel_sums, name) for name in names]
    assert [len(entry.signatures) for entry in entries] == [1, 1, 1, 1]
    x = np.random.default_rng(0).standard_normal((40, 2))
    predicted = BayesianRegressor(n_epochs=1, random_state=0).fit(x, x[:, 0]).predict_dist(x)
    predicted.interval()
    predicted.pit(x[:, 0])
    predicted.crps(x[:, 0])
    assert [len(entry.signatures) for entry in entries] == [1, 1, 1, 1]
