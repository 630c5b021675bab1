"""Checks of hyper-parameters: parameter, rule, value."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any


def check_int(name: str, value: Any, *, of: str = "be an int", least: int = 1) -> None:
    """Raise ValueError unless value is an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must {of} >= {least}, got {value!r}")


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError unless value is a finite number > 0."""
    if (
        isinstance(value, bool)
        or not isinstance(value, Real)
        or not 0.0 < float(value) < float("inf")
    ):
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")


def check_not_negative(name: str, value: Any) -> None:
    """Raise ValueError unless value is a finite number >= 0."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and 0.0 <= value < float("inf")):
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise ValueError unless value is one of the names."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")
