"""The papers' made-up data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Toy(NamedTuple):
    """Inputs and noisy targets."""

    X: Float[np.ndarray, "n 1"]
    y: Float[np.ndarray, " n"]


CUBIC_NOISE_VAR = 9.0
CUBIC_RANGE = (-4.0, 4.0)


def cubic_mean(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Return the noise-free curve x³."""
    return x**3


def cubic(n: int = 20, *, random_state: int = 0) -> Toy:
    """Draw y = x³ + e, e ~ N(0, 9), x uniform on [-4, 4] (Hernández-Lobato & Adams 2015, s. 5.3).

    The 9 is a variance; the paper uses 20 points.
    """
    rng = np.random.default_rng(random_state)
    x = rng.uniform(*CUBIC_RANGE, n)
    return Toy(x[:, None], cubic_mean(x) + np.sqrt(CUBIC_NOISE_VAR) * rng.standard_normal(n))
