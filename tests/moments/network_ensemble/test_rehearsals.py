"""What a rehearsal compiles is what predictions run."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop import BayesianMLPClassifier, BayesianMLPRegressor
from bayesprop.moments.network_ensemble import class_ensemble, ensemble_outputs
from bayesprop.moments.network_ensemble.kernel_classes import evaluate_classes
from bayesprop.moments.network_ensemble.kernel_outputs import evaluate


@pytest.mark.parametrize(
    ("kind", "rehearse", "entry"),
    [
        (BayesianMLPRegressor, ensemble_outputs.rehearse, evaluate),
        (BayesianMLPClassifier, class_ensemble.rehearse, evaluate_classes),
    ],
)
def test_predictions_need_no_other_program(kind, rehearse, entry):
    rehearse()
    assert len(entry.signatures) == 1
    x = np.random.default_rng(0).standard_normal((40, 2))
    kind(n_epochs=1, random_state=0).fit(x, x[:, 0] > 0).predict(x)
    assert len(entry.signatures) == 1
