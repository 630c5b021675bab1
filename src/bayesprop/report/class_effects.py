"""Partial dependence of class probabilities: for each feature, of the class that it moves most."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bayesprop.report.effects import Curve, View


def probabilities(classes: np.ndarray) -> View:
    """Average the probability of the second of two classes, or of that which moves most."""
    names = list(map(str, classes))

    def curve(averages: Float[np.ndarray, "c g"]) -> Curve:
        moved = np.max(averages, axis=1) - np.min(averages, axis=1)
        chosen = 1 if len(names) == 2 else int(np.argmax(moved))
        return Curve(averages[chosen], of=names[chosen])

    return View(lambda predicted: predicted.proba.T, curve)
