"""Encodings as model files give them back: made ones equal, altered ones refused or as good."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored_encoding import stored, stored_and_back

from altered_values import altered
from bayesprop import codec
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import TableError

N = 720
START = datetime(2022, 11, 3, 6, 30)
LIMITED = [*(f"{k},5 mg" for k in range(99)), "<0,5 mg", ">98,5 mg", "?!"]
TOWNS = [f"{one}{two}" for one in "ABCDEFGHIJ" for two in "lmnopqrst"]


def moments(rng):
    return [START + timedelta(hours=k) for k in rng.integers(0, 9999, N).tolist()]


def names(rng):
    words = ["".join(rng.choice([*"abcdefghijklmnopqrstuvwxyz"], 7)) for _ in range(N)]
    return [f"{rng.choice(['Mr', 'Mrs', 'Dr'])}. {word}" for word in words]


COLUMNS = {
    "number": ("numeric", lambda rng: rng.choice([np.nan, *rng.standard_normal(90)], N)),
    "truth": ("numeric", lambda rng: rng.choice([True, False], N)),
    "limited": ("numeric", lambda rng: rng.choice(LIMITED, N)),
    "time": (
        "numeric",
        lambda rng: [timedelta(seconds=k) for k in rng.integers(1, 99, N).tolist()],
    ),
    "city": ("category", lambda rng: rng.choice(["Rome", "Oslo", "", '"é\n'], N)),
    "plot": ("category", lambda rng: rng.integers(1, 31, N)),
    "day": ("date", lambda rng: [f"{moment:%d.%m.%Y %H:%M}" for moment in moments(rng)]),
    "at": ("date", moments),
    "batch": ("target-encoded", lambda rng: rng.integers(1, 61, N)),
    "town": ("target-encoded", lambda rng: rng.choice(TOWNS, N)),
    "name": ("text", names),
}
"""Columns that become every kind there is, as their target depends on each value, or on a title."""


TARGETS = [*((name, "numbers") for name in COLUMNS), ("town", "classes"), ("truth", "marks")]


@cache
def made(name: str, target: str) -> tuple[pl.DataFrame, TableEncoding]:
    rng = np.random.default_rng(0)
    column = pl.Series(name, COLUMNS[name][1](rng))
    keys = [str(one).split(".")[0] if name == "name" else str(one) for one in column]
    place = np.unique(keys, return_inverse=True)[1]
    y = pl.Series("y", 2.0 * rng.standard_normal(N)[place] + rng.standard_normal(N))
    if target == "classes":
        y = pl.Series("y", np.array(["a", "b", "c"])[np.digitize(y, [-1.0, 1.0])])
    elif target == "marks":
        y = pl.Series("y", [f"{one:.2f} kg" if one > -2.0 else "<-2 kg" for one in y])
    frame = pl.DataFrame([pl.Series("x", rng.standard_normal(N)), column, y])
    encoding = TableEncoding.fit(frame, "y")
    assert [one.kind for one in encoding.columns] == ["numeric", COLUMNS[name][0]]
    return frame, encoding


@given(st.sampled_from(TARGETS), st.lists(st.integers(0, N - 1), max_size=9))
def test_what_was_stored_is_the_same_encoding(columns, rows):
    frame, encoding = made(*columns)
    again = stored_and_back(encoding)
    assert again == encoding
    for part in (frame[rows], frame[rows].with_columns(pl.lit("other").alias(columns[0]))):
        encoded, expected = again.encode(part), encoding.encode(part)
        np.testing.assert_array_equal(encoded.X, expected.X)
        assert encoded.warnings == expected.warnings
        np.testing.assert_array_equal(again.target(part), encoding.target(part))


def is_of(value: Any, kind: Any) -> bool:
    parts = get_args(kind)
    if get_origin(kind) in (tuple, list):
        return type(value) is get_origin(kind) and all(is_of(one, parts[0]) for one in value)
    return any(is_of(value, part) for part in parts) or isinstance(value, kind)


def assert_sound(encoding: TableEncoding):
    """Every field has its type, labels differ, and classes and limits are in order."""
    json.dumps(stored(encoding), allow_nan=False, ensure_ascii=False).encode()
    assert stored_and_back(encoding) == encoding
    for one in (*encoding.columns, encoding):
        kinds = get_type_hints(type(one))
        for field in fields(one):
            assert is_of(getattr(one, field.name), kinds[field.name]), (field, one)
    for column in encoding.columns:
        for labels in (getattr(column, name, "x") for name in ("levels", "texts", "trigrams")):
            assert len(set(labels)) == len(labels) > 0
        assert getattr(column, "penalty", 1.0) > 0.0
        assert getattr(column, "form", "%d.%m.%Y %H:%M") in ("", "%d.%m.%Y %H:%M")
    assert len({column.name for column in encoding.columns}) == len(encoding.columns)
    for ordered in (encoding.classes, encoding.limits):
        assert list(ordered) == sorted(set(ordered))
    assert len(encoding.classes) != 1
    assert bool not in map(type, encoding.limits)
    assert len({*map(type, encoding.classes)}) < 2


@pytest.mark.parametrize(("name", "target"), TARGETS)
def test_what_was_altered_is_refused_or_an_encoding_still(name, target):
    """Refused by ValueError alone; else sound, and every row has finite values."""
    frame, encoding = made(name, target)
    frame, header = frame[:40], json.loads(json.dumps(stored(encoding)))
    for forged in altered(header):
        if not isinstance(forged, dict):
            continue
        try:
            loaded = codec.from_json(TableEncoding, json.loads(json.dumps(forged)))
        except ValueError:
            continue
        assert_sound(loaded)
        try:
            X, y = loaded.encode(frame).X, loaded.target(frame)
        except TableError:
            continue
        assert not np.isinf(X).any()
        assert X.shape == (len(frame), len(loaded.feature_names))
        assert loaded.classes or np.isfinite(y).all()
