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


def check_share(name: str, value: Any) -> None:
    """Raise ValueError unless value is a number from 0 to less than 1."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and 0.0 <= value < 1.0):
        raise ValueError(f"{name} must be a number >= 0 and < 1, got {value!r}")


def check_number_or(name: str, value: Any, words: tuple[str, ...]) -> None:
    """Raise ValueError unless value is a number > 0 or one of some words."""
    if not isinstance(value, str):
        check_positive(name, value)
    elif value not in words:
        known = " or ".join(map(repr, words))
        raise ValueError(f"{name} must be a number > 0, {known}, got {value!r}")


def check_coverage(coverage: Any) -> None:
    """Raise ValueError unless coverage is between 0 and 1."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}")
