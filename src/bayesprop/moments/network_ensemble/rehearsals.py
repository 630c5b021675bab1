"""Predictions of no account, for which what predicts is compiled: see `simd.beside`."""

from __future__ import annotations

import numpy as np


def of_numbers() -> None:
    """Evaluate an ensemble for numbers."""
    from bayesprop.moments.network_ensemble.ensemble_outputs import outputs
    from bayesprop.moments.network_ensemble.ensemble_settings import settings_for
    from bayesprop.moments.network_ensemble.ensemble_state import init

    y = np.array([[-1.0], [1.0]])
    outputs(init(0, 1, y, settings_for(len(y))), y)


def of_classes() -> None:
    """Evaluate a network for classes."""
    from bayesprop.moments.network_ensemble.class_ensemble import evaluate
    from bayesprop.moments.network_ensemble.member import init_classes

    network = init_classes(np.random.default_rng(0), (1, 4, 2))
    list(evaluate([network], np.zeros((1, 1)), np.zeros((1, 2), np.float32)))
