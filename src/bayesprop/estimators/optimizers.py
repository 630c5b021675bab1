"""Optimisers by name."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import optax

from bayesprop.estimators.checks import check_choice, check_positive

OPTIMIZERS = ("adam", "sgd")


def check_optimizer(name: Any, learning_rate: Any, momentum: Any) -> None:
    """Raise ValueError unless these name an optimiser."""
    check_choice("optimizer", name, OPTIMIZERS)
    check_positive("learning_rate", learning_rate)
    check_share("momentum", momentum)


def check_share(name: str, value: Any) -> None:
    """Raise ValueError unless value is a number from 0 to less than 1."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and 0.0 <= value < 1.0):
        raise ValueError(f"{name} must be a number >= 0 and < 1, got {value!r}")


@lru_cache(maxsize=64)
def make_optimizer(
    name: str, learning_rate: float, momentum: float
) -> optax.GradientTransformation:
    """Build Adam (Kingma & Ba 2015), or stochastic gradient descent with heavy-ball momentum.

    The very same for the same arguments: its identity keys JAX's compilation.
    """
    if name == "adam":
        return optax.adam(learning_rate)
    return optax.sgd(learning_rate, momentum=momentum or None)
