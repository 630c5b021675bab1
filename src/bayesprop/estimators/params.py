"""Hyper-parameters as fields of a dataclass, each with the rule that it must keep.

`n_epochs: int = field(default=100, metadata=COUNT)` declares a field that `check_fields` checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from bayesprop.estimators import checks

Metadata = Mapping[str, Any]


def rule(check: Callable[[str, Any], None]) -> Metadata:
    """Metadata of a field that `check` is called for, with its name and value."""
    return {"check": check}


def one_of(*names: str) -> Metadata:
    """Metadata of a field that takes one of some names."""
    return rule(partial(checks.check_choice, allowed=names))


def number_or(*words: str) -> Metadata:
    """Metadata of a field that takes a number > 0 or one of some words."""
    return rule(partial(checks.check_number_or, words=words))


def _check_sizes(name: str, value: Any) -> None:
    for size in np.atleast_1d(np.asarray(value, dtype=object)):
        checks.check_int(name, size, of="hold ints")


def _check_activation(name: str, value: Any) -> None:
    from bayesprop.model.layers import activation  # loads JAX

    del name
    activation(value)


def _check_noise(name: str, value: Any) -> None:
    if isinstance(value, str) and value not in ("learned", "input"):
        raise ValueError(f"{name} must be 'learned', 'input' or a variance in y², got {value!r}")
    if not isinstance(value, str):
        checks.check_positive(name, value)


def _check_gamma(name: str, value: Any) -> None:
    try:
        shape, rate = (float(number) for number in value)
    except (TypeError, ValueError):
        shape = rate = float("nan")
    if not (1.0 < shape < float("inf") and 0.0 < rate < float("inf")):
        raise ValueError(f"{name} must be (shape > 1, rate > 0), got {value!r}")


COUNT = rule(checks.check_int)
POSITIVE = rule(checks.check_positive)
NOT_NEGATIVE = rule(checks.check_not_negative)
SHARE = rule(checks.check_share)
SIZES = rule(_check_sizes)
ACTIVATION = rule(_check_activation)
NOISE = rule(_check_noise)
GAMMA = rule(_check_gamma)
"""Shape and rate of a precision's distribution whose mean variance exists."""


def check_fields(params: Any) -> None:
    """Raise ValueError, in words for the user, where a field breaks its rule."""
    for one in fields(params):
        if check := one.metadata.get("check"):
            check(one.name, getattr(params, one.name))


def as_sizes(hidden_layer_sizes: Any) -> tuple[int, ...]:
    """Return the hidden units of every layer; an int is one layer."""
    if isinstance(hidden_layer_sizes, Integral):
        return (int(hidden_layer_sizes),)
    return tuple(int(size) for size in hidden_layer_sizes)
