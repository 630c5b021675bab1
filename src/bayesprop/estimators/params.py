"""Hyper-parameters: fields of a dataclass, whose annotations are the rules that they must keep.

`n_epochs: Count = 100` declares a field that `check_fields` checks, and so do
`prior: Literal["normal", "laplace"] = "normal"`, `n_members: Count | None = None` and truth values;
an annotation without a rule is not checked. Errors name parameter, rule and value. An estimator's
docstring describes all of its fields; what many estimators share is written once, in the docstrings
of the classes above them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from math import inf
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Literal,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from jaxtyping import Float

_HEADING = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"\n(?=\S)")
T = TypeVar("T")


@dataclass(frozen=True)
class Rule:
    """Condition on the value of a parameter.

    words
        The condition as it follows "must be" in an error.
    holds
        Whether a value satisfies it; one that it cannot be asked of does not.
    """

    words: str
    holds: Callable[..., bool]

    def is_kept_by(self, value: object) -> bool:
        """Whether a value satisfies the condition."""
        try:
            return bool(self.holds(value))
        except (TypeError, ValueError, OverflowError):
            return False

    def check(self, name: str, value: object) -> None:
        """Raise ValueError that names the parameter unless the value satisfies the condition."""
        if not self.is_kept_by(value):
            raise ValueError(f"{name} must be {self.words}, got {value!r}")


def whole(least: int) -> Rule:
    """Rule of whole numbers from `least` on."""
    return Rule(f"an int >= {least}", lambda value: _is_whole(value, least))


def number(words: str, holds: Callable[[float], bool]) -> Rule:
    """Rule of a finite number."""
    return Rule(words, lambda value: _is_number(value) and holds(value))


def numbers(words: str, holds: Callable[..., bool]) -> Rule:
    """Rule of several finite numbers, in a tuple, a list or an array."""
    return Rule(words, lambda values: all(map(_is_number, values)) and holds(*values))


def one_of(*names: str) -> Rule:
    """Rule of names."""
    return Rule(f"one of {', '.join(names)}", lambda value: value in names)


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and abs(float(value)) < inf


Count = Annotated[int, whole(1)]
Whole = Annotated[int, whole(0)]
Positive = Annotated[float, number("a finite number > 0", lambda value: value > 0.0)]
NotNegative = Annotated[float, number("a finite number >= 0", lambda value: value >= 0.0)]
Share = Annotated[float, number("a number >= 0 and < 1", lambda value: 0.0 <= value < 1.0)]
BelowOne = Annotated[float, number("a number > 0 and < 1", lambda value: 0.0 < value < 1.0)]
Sizes = Annotated[
    tuple[int, ...],
    Rule(
        "ints >= 1, one a layer",
        lambda sizes: all(_is_whole(size, 1) for size in (sizes if np.ndim(sizes) else [sizes])),
    ),
]
Activation = Literal["relu", "leaky_relu", "erf", "identity"]
"""Those of `networks/mlp.py`, which loads JAX."""
Noise = Positive | Literal["learned", "input"]
GammaPrior = Annotated[
    tuple[float, float],
    numbers("(shape > 1, rate > 0)", lambda shape, rate: shape > 1.0 and rate > 0.0),
]
"""Shape and rate of a precision's distribution whose mean variance exists."""
LayerStds = Annotated[
    Sequence[float], numbers("one > 0 for every layer", lambda *stds: all(std > 0 for std in stds))
]


def check_int(name: str, value: object, *, least: int = 1) -> None:
    """Raise ValueError unless value is an int of at least `least`."""
    whole(least).check(name, value)


def check_fields(params: object) -> None:
    """Raise ValueError, in words for the user, where a field breaks its rule."""
    for name, (rule, default) in rules(type(params)).items():
        if (value := getattr(params, name)) is not default:
            rule.check(name, value)


@cache
def rules(kind: type) -> dict[str, tuple[Rule, object]]:
    """Return the rules of the fields of a dataclass, and their defaults, which keep them."""
    hints = get_type_hints(kind, include_extras=True)
    ruled = ((one, rule_of(hints[one.name])) for one in fields(kind))
    return {one.name: (rule, one.default) for one, rule in ruled if rule is not None}


def rule_of(annotation: object) -> Rule | None:
    """Return the rule that an annotation is; None where there is none."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return next((one for one in arguments if isinstance(one, Rule)), None)
    if origin is Literal:
        return one_of(*arguments)
    if annotation is bool:
        return Rule("True or False", lambda value: isinstance(value, bool | np.bool_))
    if annotation is NoneType:
        return Rule("None", lambda value: value is None)
    if origin not in (Union, UnionType):
        return None
    members = [rule for one in arguments if (rule := rule_of(one)) is not None]
    if len(members) < len(arguments):
        return None
    words = " or ".join(rule.words for rule in members)
    return Rule(words, lambda value: any(rule.is_kept_by(value) for rule in members))


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def hyper_parameters(cls: type[T]) -> type[T]:
    """Turn annotated fields into keyword-only hyper-parameters; an estimator describes them.

    Estimators are compared by identity, and shown as scikit-learn shows its own.
    """
    made = dataclass(eq=False, repr=False, kw_only=True)(cls)
    has_words = sys.flags.optimize < 2
    if has_words and hasattr(made, "target_kind") and not inspect.isabstract(made):
        _describe(made)
    return made


def _describe(cls: type) -> None:
    """Complete an estimator's docstring: `Parameters` in their order, `Attributes`, `Examples`.

    What the class does not say, the classes above it do.
    """
    chain = [_sections(inspect.cleandoc(one.__doc__ or "")) for one in cls.__mro__]
    words = _entries(chain, "Parameters")
    # In the order of the signature: what can be given without its name comes first.
    names = [one.name for one in sorted(fields(cls), key=lambda one: bool(one.kw_only))]
    whole = chain[0] | {
        "Parameters": "\n".join(dict.fromkeys(words[name] for name in names)),
        "Attributes": "\n".join(dict.fromkeys(_entries(chain, "Attributes").values())),
        "Examples": _example(cls, [one["Examples"] for one in chain if "Examples" in one]),
    }
    order = ("Parameters", "Attributes", "Examples")
    titled = [f"{name}\n{'-' * len(name)}\n{whole[name]}" for name in order]
    cls.__doc__ = "\n\n".join([whole[""], *titled, ""])


def _example(cls: type, examples: list[str]) -> str:
    """Return the first example; of one line, how the estimator of the next one is made."""
    first = examples[0]
    if "\n" in first and first is not examples[-1]:
        return first
    made = first if "\n" not in first else f">>> model = {cls.__name__}(random_state=0)"
    shared = re.sub(r"(?<=bayesprop import )\w+", cls.__name__, examples[-1])
    return re.sub(r">>> model = .*", lambda _: made, shared)


def _sections(text: str) -> dict[str, str]:
    """Split a docstring at its headings; what stands before the first is named ""."""
    first, *rest = _HEADING.split(text)
    sections = zip(rest[::2], rest[1::2], strict=True)
    return {"": first.strip()} | {name: words.strip() for name, words in sections}


def _entries(chain: list[dict[str, str]], section: str) -> dict[str, str]:
    """Return the entry of every name that a section describes; of several, the first text's."""
    entries: dict[str, str] = {}
    for sections in chain:
        for entry in filter(None, _ENTRY.split(sections.get(section, ""))):
            for name in entry.partition(" : ")[0].split(", "):
                entries.setdefault(name, entry)
    return entries


def finite(name: str, values: object, shape: tuple[int | None, ...]) -> Float[np.ndarray, "..."]:
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


def layer_sizes(n_inputs: int, hidden_layer_sizes: object, n_outputs: int) -> tuple[int, ...]:
    """Units of every layer, from the inputs to the outputs; one int is one hidden layer."""
    return (
        n_inputs,
        *map(int, np.atleast_1d(np.asarray(hidden_layer_sizes))),
        n_outputs,
    )


def prior_variances(
    prior_std: float | Sequence[float], hidden_layer_sizes: int | tuple[int, ...]
) -> float | tuple[float, ...]:
    """Return the variance of a normal prior, or one a layer; ValueError for too few."""
    if np.ndim(prior_std) == 0:
        return float(cast(float, prior_std)) ** 2
    stds, n_layers = np.asarray(prior_std, np.float64), np.size(hidden_layer_sizes) + 1
    if len(stds) != n_layers:
        raise ValueError(
            f"prior_std must be one number, or one for each of the {n_layers} layers, got "
            f"{len(stds)}: {prior_std!r}"
        )
    return tuple((stds**2).tolist())
