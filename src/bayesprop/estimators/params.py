"""Hyper-parameters as fields of a dataclass, each with the rule that it must keep.

`n_epochs: int = field(default=100, metadata=COUNT)` declares a field that `check_fields` checks,
and so does `prior: Literal["normal", "laplace"] = "normal"`; `check_int` and its like check a value
by name. Errors name parameter, rule and value.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache, partial
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np
from jaxtyping import Float

Metadata = Mapping[str, Any]


def check_int(name: str, value: Any, *, of: str = "be an int", least: int = 1) -> None:
    """Raise ValueError unless value is an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must {of} >= {least}, got {value!r}")


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError unless value is a finite number > 0."""
    if not (_is_number(value) and 0.0 < value < inf):
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")


def check_not_negative(name: str, value: Any) -> None:
    """Raise ValueError unless value is a finite number >= 0."""
    if not (_is_number(value) and 0.0 <= value < inf):
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise ValueError unless value is one of the names."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")


def finite(name: str, values: Any, shape: tuple[int | None, ...]) -> Float[np.ndarray, "..."]:
    """Return finite float64 of a shape, None in it for any size; ValueError in words."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from None
    wanted = "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
    fits = array.ndim == len(shape) and all(
        size in (None, given) for size, given in zip(shape, array.shape, strict=True)
    )
    if not fits or array.size == 0:
        raise ValueError(f"{name} must have the shape {wanted}, got {array.shape}")
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0].tolist()
        where = f" at {', '.join(map(str, place))}" if place else ""
        raise ValueError(f"{name} must be finite, got {array[tuple(place)]:g}{where}")
    return array


def bounded(name: str, values: Float[np.ndarray, "..."], most: float) -> Float[np.ndarray, "..."]:
    """Return values; ValueError for one that is too large to be worked with."""
    largest = float(np.abs(values).max())
    if largest > most:
        raise ValueError(f"{name} must be at most {most:g} in size, got {largest:g}: scale it")
    return values


def check_fields(params: Any) -> None:
    """Raise ValueError, in words for the user, where a field breaks its rule."""
    for name, default, check in _rules(type(params)):
        if (value := getattr(params, name)) is not default:
            check(name, value)


@cache
def _rules(kind: type) -> list[tuple[str, Any, Callable[[str, Any], None]]]:
    """List the rules of the fields of a dataclass, by name, and their defaults, which keep them."""
    ruled = ((one, one.metadata or _of_words(one.type)) for one in fields(kind))
    return [(one.name, one.default, metadata["check"]) for one, metadata in ruled if metadata]


def _of_words(annotation: Any) -> Metadata:
    """Return the rule of a field whose annotation, as text, lists words; empty for others."""
    words = re.fullmatch(r"Literal(\[.*\])", str(annotation))
    return one_of(*literal_eval(words[1])) if words else {}


def rule(check: Callable[[str, Any], None]) -> Metadata:
    """Metadata of a field that `check` is called for, with its name and value."""
    return {"check": check}


def one_of(*names: str) -> Metadata:
    """Metadata of a field that takes one of some names."""
    return rule(partial(check_choice, allowed=names))


def number_or(*words: str) -> Metadata:
    """Metadata of a field that takes a number > 0 or one of some words."""
    known = " or ".join(map(repr, words))

    def check(name: str, value: Any) -> None:
        if not isinstance(value, str):
            check_positive(name, value)
        elif value not in words:
            raise ValueError(f"{name} must be a number > 0, {known}, got {value!r}")

    return rule(check)


def numbers(words: str, holds: Callable[..., bool]) -> Metadata:
    """Metadata of a field that takes a number or several, if `holds` of them.

    words
        What they must be, after "must be".
    """

    def check(name: str, value: Any) -> None:
        try:
            values = value if isinstance(value, tuple) else np.atleast_1d(value).tolist()
            is_good = all(map(_is_number, values)) and holds(*values)
        except (TypeError, ValueError):
            is_good = False
        if not is_good:
            raise ValueError(f"{name} must be {words}, got {value!r}")

    return rule(check)


def optional(metadata: Metadata) -> Metadata:
    """Metadata of a field that may be None, too."""

    def check(name: str, value: Any) -> None:
        if value is not None:
            metadata["check"](name, value)

    return rule(check)


def as_sizes(hidden_layer_sizes: Any) -> tuple[int, ...]:
    """Return the hidden units of every layer; an int is one layer."""
    if isinstance(hidden_layer_sizes, tuple):
        return tuple(map(int, hidden_layer_sizes))
    return tuple(int(size) for size in np.atleast_1d(hidden_layer_sizes))


def layer_sizes(n_inputs: int, hidden_layer_sizes: Any, n_outputs: int) -> tuple[int, ...]:
    """Units of every layer, from the inputs to the outputs that a likelihood asks for."""
    return (n_inputs, *as_sizes(hidden_layer_sizes), n_outputs)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_sizes(name: str, value: Any) -> None:
    for size in value if isinstance(value, tuple) else np.atleast_1d(np.asarray(value, object)):
        check_int(name, size, of="hold ints")


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}")


COUNT = rule(check_int)
POSITIVE = rule(check_positive)
NOT_NEGATIVE = rule(check_not_negative)
SHARE = numbers("a number >= 0 and < 1", lambda share: 0.0 <= share < 1.0)
BELOW_ONE = numbers("a number > 0 and < 1", lambda number: 0.0 < number < 1.0)
FLAG = rule(_check_flag)
SIZES = rule(_check_sizes)
ACTIVATION = one_of("relu", "leaky_relu", "erf", "identity")
"""Those of `networks/mlp.py`, which loads JAX."""
NOISE = number_or("learned", "input")
GAMMA = numbers("(shape > 1, rate > 0)", lambda shape, rate: 1.0 < shape < inf and 0.0 < rate < inf)
"""Shape and rate of a precision's distribution whose mean variance exists."""
