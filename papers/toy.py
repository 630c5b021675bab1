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


def friedman(
    number: int, n: int, *, random_state: np.random.RandomState
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """Draw inputs and targets of Friedman's (1991) functions 1, 2 or 3, with noise.

    The noise has a standard deviation of 1, 125 and 0.1, about 1/5, 1/3 and 1/3 of the signal's.
    """
    from sklearn import datasets

    noise = {1: 1.0, 2: 125.0, 3: 0.1}[number]
    makers = {1: datasets.make_friedman1, 2: datasets.make_friedman2, 3: datasets.make_friedman3}
    return makers[number](n, noise=noise, random_state=random_state)
