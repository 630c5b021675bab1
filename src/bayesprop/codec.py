"""A state to a header for JSON and named arrays, and back, by the annotations of its fields.

A record is a NamedTuple or a dataclass. Its fields are arrays (annotated with jaxtyping: kind of
number, of 64 bits where it names no width, and axes, numbers or letters, a letter meaning one size
throughout the record), text, numbers and truth values, records, and tuples, lists and dicts of all
these. An abstract record stands for its subclasses, and a union for its members, told apart by
name. A record may have `validate()`, which raises ValueError where its fields do not belong
together. Where shapes are known in advance an example takes the place of annotations: a record or a
tuple of arrays, plain values and annotations, throughout which a letter means one size. Nothing
else that a file says is believed.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from inspect import isabstract
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import AbstractArray, Shaped

UNBOUNDED = "unbounded"
"""Annotates an array that may hold NaN and infinities: all others must be finite."""

_WHOLE = re.compile(r"-?\d+\.0+")
Labels = Shaped[np.ndarray, " c"]
"""Text, truth values or numbers, all of one kind; in the header, not among the arrays."""


Part = Any
"""A state or a part of one, its annotation or its example: whatever a state can hold."""

JsonObject = dict[str, Any]
"""What JSON holds by names."""

Json = JsonObject | list["Json"] | str | int | float | None
T = TypeVar("T")


@dataclass(frozen=True)
class OrNone:
    """A part of an example that a state may lack: the state then holds None."""

    example: Part


Arrays = dict[str, np.ndarray] | None
"""By path; None: the header holds their numbers."""

_ARRAY = "array"
"""Stands in a header for the array that has its path as its name."""

_LABELS = {"text": str, "object": str, "bool": bool, "int": int, "float": float}
_PLAIN = {str, bool, int, float}
_WIDE = {"float64", "int64"}
_NOT_FINITE = ("inf", "-inf", "nan")
_MOST_WHOLE = 2**1023  # that is a float


class Stored(NamedTuple):
    """A header for JSON, and named arrays."""

    header: Part
    arrays: dict[str, np.ndarray]


def prefixed(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Put a prefix before the names of arrays."""
    return {prefix + name: array for name, array in arrays.items()}


def unprefixed(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}


def joined(**parts: Stored) -> Stored:
    """Return parts under their names, as one."""
    each = ((f"{name}.", one.arrays) for name, one in parts.items())
    arrays = {k: array for prefix, own in each for k, array in prefixed(prefix, own).items()}
    return Stored({name: one.header for name, one in parts.items()}, arrays)


def part_of(stored: Stored, name: str) -> Stored:
    """Return a part of what `joined` gave."""
    return Stored(stored.header[name], unprefixed(f"{name}.", stored.arrays))


def write(value: T, kind: type[T] | T | None = None) -> Stored:
    """Return a state as a header and named arrays; TypeError for what they cannot hold.

    kind
        The annotation or the example that it is to be read by; None: it is not to be read.
    """
    arrays: dict[str, np.ndarray] = {}
    is_example = isinstance(kind, tuple) or (is_dataclass(kind) and not isinstance(kind, type))
    return Stored(_written(None if is_example else kind, value, "", arrays), arrays)


def read(kind: type[T] | T, stored: Stored, **axes: int) -> T:
    """Return what `write` was given; ValueError where the file holds anything else.

    kind
        An annotation; or an example, whose parts are examples and annotations: an array must have
        the shape and the type of its example.
    axes
        Sizes that are known, of the outermost record.
    """
    arrays = dict(stored.arrays)
    value = _read(kind, stored.header, "", arrays, dict(axes))
    if arrays:
        raise ValueError(f"the arrays {sorted(arrays)[:3]} belong to nothing")
    return value


def to_json(value: T, kind: type[T]) -> Part:
    """Return a header alone, which holds the numbers of the arrays too."""
    return _written(kind, value, "", None)


def from_json(kind: type[T], stored: Json, **axes: int) -> T:
    """Return what `to_json` was given; ValueError where the file holds anything else."""
    return _read(kind, stored, "", None, dict(axes))


def shapes(value: Part) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array by its path."""
    return {name: array.shape for name, array in write(value).arrays.items()}


def _written(kind: Part, value: Part, path: str, arrays: Arrays) -> Json:
    if value is None:
        return None
    kind, is_one_of_many = _resolved(kind, type(value).__name__)
    if is_one_of_many:
        return {type(value).__name__: _written(kind, value, path, arrays)}
    if kind is Labels:
        return _written_labels(value)
    if _is_array(kind) or (kind is None and isinstance(getattr(value, "dtype", None), np.dtype)):
        if arrays is None:
            return np.asarray(value).tolist()
        arrays[path] = np.asarray(value)
        return _ARRAY
    names = _field_names(type(value))
    if names is not None:
        kinds = dict.fromkeys(names) if kind is None else hints(kind)
        return {n: _written(kinds[n], getattr(value, n), _at(path, n), arrays) for n in names}
    if isinstance(value, tuple | list):
        kinds = enumerate(zip(_items(kind, len(value)), value, strict=True))
        return [_written(one, part, _at(path, n), arrays) for n, (one, part) in kinds]
    if isinstance(value, dict):
        one = None if kind is None else get_args(kind)[1]
        return {n: _written(one, part, _at(path, n), arrays) for n, part in value.items()}
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, str | int | float):
        raise TypeError(f"a file holds no {type(value).__name__} as {path}")
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _read(kind: Part, stored: Json, path: str, arrays: Arrays, axes: dict[str, int]) -> Part:
    if _is_nothing(kind, stored):
        return None
    if isinstance(kind, OrNone):
        return _read(kind.example, stored, path, arrays, axes)
    annotation = kind
    only = stored if isinstance(stored, dict) and len(stored) == 1 else {"": None}
    name, named = next(iter(only.items()))
    kind, is_one_of_many = _resolved(kind, name)
    if kind is None:
        raise ValueError(f"{path or 'the header'} is of no kind that is known")
    if is_one_of_many:
        return _read(kind, named, path, arrays, axes)
    if kind is Labels:
        return _read_labels(stored, path)
    if _is_array(kind) or hasattr(kind, "dtype"):
        array = _taken(kind, stored, path, arrays)
        _check_array(kind, array, path, axes)
        if UNBOUNDED not in get_args(annotation) and not np.isfinite(array).all():
            raise ValueError(f"array {path} must be finite")
        return array
    names = _field_names(kind if isinstance(kind, type) else type(kind))
    if names is not None:
        # A file of before a part was thought of is without it.
        is_type = isinstance(kind, type)
        own = kind if is_type else type(kind)
        defaults = getattr(own, "_field_defaults", vars(own))
        later = {n: None for n in names if defaults.get(n, _ARRAY) is None}
        entries = _named(later | _checked(dict, stored, path), names, path)
        sizes = {} if path and is_type else axes
        kinds = hints(kind) if is_type else {n: getattr(kind, n) for n in names}
        parts = {n: _read(kinds[n], entries[n], _at(path, n), arrays, sizes) for n in names}
        make: Part = kind if is_type else type(kind)
        record = make(**parts)
        if hasattr(record, "validate"):
            record.validate()
        return record
    container = type(kind) if isinstance(kind, tuple | list | dict) else get_origin(kind)
    if container in (tuple, list):
        entries = _checked(list, stored, path)
        kinds = _items(kind, len(entries))
        if len(kinds) != len(entries):
            raise ValueError(f"{path} must hold {len(kinds)} parts, got {len(entries)}")
        each = enumerate(zip(kinds, entries, strict=True))
        sizes = axes if isinstance(kind, tuple | list) else {}
        return container(_read(one, part, _at(path, n), arrays, sizes) for n, (one, part) in each)
    if container is dict:
        names = tuple(_checked(dict, stored, path))
        kinds = kind if isinstance(kind, dict) else dict.fromkeys(names, get_args(kind)[1])
        entries = _named(stored, tuple(kinds), path)
        return {n: _read(one, entries[n], _at(path, n), arrays, {}) for n, one in kinds.items()}
    if _PLAIN.issuperset(get_args(kind) or [None]):
        kind = type(stored) if type(stored) in get_args(kind) else get_args(kind)[0]
    return _checked(kind if isinstance(kind, type) else type(kind), stored, path)


def _is_nothing(kind: Part, stored: Json) -> bool:
    """Whether there is no value, and may be none."""
    may_be = NoneType in (type(kind), *get_args(kind)) or isinstance(kind, OrNone)
    return stored is None and may_be


def _resolved(kind: Part, name: str) -> tuple[Part, bool]:
    """Return what an annotation stands for, and whether only a name tells which of many.

    None where no member of a union, or subclass, has that name. A union of text, numbers and truth
    values stands for itself.
    """
    if isinstance(kind, type) and not isabstract(kind):
        return kind, False
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    members = [one for one in members if one is not NoneType]
    if len(members) == 1 and not isabstract(members[0]):
        return members[0], False
    if _PLAIN.issuperset(members):
        return kind, False
    every = [one for kind in members for one in (_below(kind) if isabstract(kind) else [kind])]
    return {one.__name__: one for one in every}.get(name), True


def _below(kind: type) -> list[type]:
    return [one for each in kind.__subclasses__() for one in (each, *_below(each))]


def _is_array(kind: Part) -> bool:
    return isinstance(kind, type) and issubclass(kind, AbstractArray)


def _field_names(kind: type) -> tuple[str, ...] | None:
    if issubclass(kind, tuple):
        return getattr(kind, "_fields", None)
    return tuple(one.name for one in fields(kind)) if is_dataclass(kind) else None


@cache
def hints(kind: type) -> dict[str, Part]:
    """Return the annotations of a record's fields."""
    return get_type_hints(kind, include_extras=True)


def _items(kind: Part, n: int) -> list[Part]:
    """Return the annotation of each of n parts of a tuple or a list."""
    if isinstance(kind, tuple | list):
        return [*kind]
    arguments = get_args(kind) or (None, ...)
    is_even = get_origin(kind) is list or arguments[-1] is ...
    return [arguments[0]] * n if is_even else [*arguments]


def _at(path: str, name: str | int) -> str:
    return f"{path}.{name}" if path else str(name)


def _checked(kind: type[T], stored: Json, path: str) -> T:
    """Return a plain value that is exactly of a kind; a whole number is a float, too."""
    is_whole = type(stored) is int and abs(stored) < _MOST_WHOLE
    if kind is float and isinstance(stored, int | str) and (is_whole or stored in _NOT_FINITE):
        return kind(stored)
    if type(stored) is not kind:
        name, got = getattr(kind, "__name__", str(kind)), str(stored)[:40]
        raise ValueError(f"{path or 'the header'} must be of type {name}, got {got!r}")
    if isinstance(stored, str) and not stored.isascii():
        stored.encode()  # which raises ValueError for half a character
    return stored


def _named(stored: Json, names: tuple[str, ...], path: str) -> JsonObject:
    """Return what is stored by names; ValueError unless these are they."""
    entries = _checked(dict, stored, path)
    if set(entries) != set(names):
        raise ValueError(f"{path or 'the header'} must hold {sorted(names)}, got {sorted(entries)}")
    return entries


def _taken(kind: Part, stored: Json, path: str, arrays: Arrays) -> np.ndarray:
    if arrays is None:
        try:
            return np.asarray(stored, _array_kind(kind).dtypes[0])
        except (TypeError, OverflowError) as error:
            raise ValueError(f"{path or 'the header'} must hold numbers: {error}") from error
    if stored != _ARRAY or path not in arrays:
        raise ValueError(f"the array {path} is missing")
    return arrays.pop(path)


def _check_array(kind: Part, array: np.ndarray, path: str, axes: dict[str, int]) -> None:
    """Raise ValueError where an array is not as it is annotated, or unlike its example."""
    if _is_array(kind):
        names, dtypes = _array_kind(kind)
        sizes = zip(names, array.shape, strict=False)
        is_right = len(names) == array.ndim and array.dtype in dtypes
        is_right = is_right and all(_size(name, size, axes) == size for name, size in sizes)
        must = f"{kind.__name__} of axes {[*names]} where {axes}"
    else:
        is_right = array.shape == kind.shape and array.dtype == kind.dtype
        must = f"{kind.dtype} of shape {kind.shape}"
    if not is_right:
        raise ValueError(f"array {path} must be {must}, got {array.dtype} of shape {array.shape}")


def _size(axis: str, found: int, axes: dict[str, int]) -> int:
    """Return what an axis must have: its number, or as many as where its letter stood before."""
    return int(axis) if axis.isdigit() else axes.setdefault(axis, found)


class _ArrayKind(NamedTuple):
    """Axes and kinds of number that an annotation requires of an array."""

    axes: tuple[str, ...]
    dtypes: tuple[np.dtype, ...]


@cache
def _array_kind(kind: Part) -> _ArrayKind:
    """Take an annotation apart; kinds of 64 bits where it names no width."""
    kinds = kind.dtypes if len(kind.dtypes) == 1 else sorted(_WIDE.intersection(kind.dtypes))
    return _ArrayKind(tuple(kind.dim_str.split()), tuple(map(np.dtype, kinds)))


def _written_labels(labels: np.ndarray) -> JsonObject:
    values = labels.tolist()
    for name, kind in _LABELS.items():
        if all(type(value) is kind for value in values):
            return {"object" if kind is str and labels.dtype.kind != "U" else name: values}
    raise TypeError(f"only labels of one kind, text, bool or numbers, can be saved, got {values}")


def _read_labels(stored: Json, path: str) -> np.ndarray:
    entries = _checked(dict, stored, path)
    for name, kind in _LABELS.items():
        if list(entries) == [name]:
            values = [_checked(kind, value, path) for value in _checked(list, entries[name], path)]
            return np.asarray(values, object if name == "object" or not values else kind)
    raise ValueError(f"{path} must hold labels of a kind in {list(_LABELS)}")


def label_text(label: object) -> str:
    """Write one label of a group, the same whatever its type: 1.0 as 1, a date; "" of none."""
    if label is None or _is_missing(label):
        return ""
    if isinstance(label, np.datetime64):
        label = label.astype("datetime64[us]").item()
    if isinstance(label, datetime.datetime) and label.time() == datetime.time():
        label = label.date()
    text = str(label).strip()
    return text.split(".")[0] if _WHOLE.fullmatch(text) else text


def label_texts(labels: Iterable[object]) -> Shaped[np.ndarray, " n"]:
    """Write labels of groups as text, each by itself."""
    known: dict[tuple[type, object], str] = {}
    keys = [(type(label), label) for label in labels]
    for key in dict.fromkeys(keys):
        known[key] = label_text(key[1])
    return np.array([known[key] for key in keys], str)


def are_plain_numbers(labels: Iterable[object]) -> bool:
    """Whether all labels are numbers in their plain form, as a table of numbers has them."""
    texts = label_texts(labels).tolist()
    try:
        return all(label_text(float(text)) == text for text in texts)
    except ValueError:
        return False


def _is_missing(label: object) -> bool:
    try:
        return bool(label != label)
    except TypeError:  # pandas' NA
        return True
