"""Whatever a state holds comes back as it was; whatever is not such a state is refused."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from jaxtyping import Float, Float32, Int32

from bayesprop import codec
from bayesprop.codec import UNBOUNDED, Labels, Stored


class Shape(ABC):
    @property
    @abstractmethod
    def area(self) -> float: ...


@dataclass(frozen=True, eq=False)
class Square(Shape):
    side: float

    @property
    def area(self) -> float:
        return self.side**2

    def validate(self) -> None:
        if not self.side > 0.0:
            raise ValueError("side must be > 0")


@dataclass(frozen=True, eq=False)
class Polygon(Shape):
    corners: Float[np.ndarray, "n two"]

    @property
    def area(self) -> float:
        x, y = self.corners.T
        return float(0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))))


class Layer(NamedTuple):
    weight: Float32[np.ndarray, "i o"]
    bias: Float32[np.ndarray, " o"]


class State(NamedTuple):
    layers: tuple[Layer, ...]
    codes: Int32[np.ndarray, " n"]
    seen: Annotated[Float[np.ndarray, " n"], UNBOUNDED]
    shapes: list[Shape | None]
    either: Layer | Square
    labels: Labels | None
    counts: dict[str, int]
    size: tuple[int, float]
    name: str
    is_done: bool
    step: float | None
    nested: State | None = None


NUMBERS = {"allow_nan": False, "allow_infinity": False}
FLOATS = st.floats(width=32, **NUMBERS)
SIZES = st.integers(0, 3)


@st.composite
def layers(draw: Any) -> Layer:
    i, o = draw(SIZES), draw(SIZES)
    weight, bias = (draw(arrays_of.arrays(np.float32, s, elements=FLOATS)) for s in ((i, o), o))
    return Layer(weight, bias)


SQUARES = st.builds(Square, st.floats(1e-9, 1e9))
POLYGONS = st.builds(Polygon, arrays_of.arrays(np.float64, (4, 2), elements=st.floats(**NUMBERS)))
TEXT = st.lists(st.text(), min_size=1)
LABELS = st.one_of(
    TEXT.map(lambda words: np.array(words, object)),
    st.lists(st.integers(-9, 9), min_size=1).map(np.array),
    st.lists(st.booleans(), min_size=1).map(np.array),
    st.lists(st.floats(**NUMBERS), min_size=1).map(np.array),
)


@st.composite
def states(draw: Any, depth: int = 1) -> State:
    n = draw(SIZES)
    return State(
        tuple(draw(st.lists(layers(), max_size=3))),
        draw(arrays_of.arrays(np.int32, n)),
        draw(arrays_of.arrays(np.float64, n)),
        draw(st.lists(st.one_of(st.none(), SQUARES, POLYGONS), max_size=3)),
        draw(st.one_of(layers(), SQUARES)),
        draw(st.one_of(st.none(), LABELS)),
        draw(st.dictionaries(st.text(), st.integers(), max_size=3)),
        draw(st.tuples(st.integers(), st.floats(allow_nan=False))),
        draw(st.text()),
        draw(st.booleans()),
        draw(st.one_of(st.none(), st.floats(allow_nan=False))),
        draw(st.one_of(st.none(), states(depth - 1))) if depth else None,
    )


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        same = a.dtype == b.dtype and a.shape == b.shape
        return same and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, Shape):
        return type(a) is type(b) and all(equal(part, vars(b)[n]) for n, part in vars(a).items())
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a == b


def through_json(stored: Stored) -> Stored:
    return stored._replace(header=json.loads(json.dumps(stored.header, allow_nan=False)))


@given(states())
def test_a_state_comes_back_as_it_was(state):
    stored = through_json(codec.write(state, State))
    assert equal(codec.read(State, stored), state)


@given(states())
def test_a_state_comes_back_by_an_example(state):
    example = state._replace(seen=np.zeros(len(state.codes)), labels=None, nested=None)
    known = example._replace(shapes=[s for s in state.shapes if s is not None])
    stored = through_json(codec.write(known))
    assert equal(codec.read(known, stored), known)


@given(states(), st.data())
def test_what_is_altered_is_refused_or_still_a_state(state, data):
    header, arrays = deepcopy(through_json(codec.write(state, State)))
    if arrays and data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(arrays)))
        wrong = data.draw(st.sampled_from(["gone", "axis", "kind", "infinite", "more"]))
        array = arrays.pop(name)
        if wrong == "axis":
            arrays[name] = array[None]
        elif wrong == "kind":
            arrays[name] = np.zeros(array.shape, np.float64 if array.dtype.kind == "i" else int)
        elif wrong == "infinite":
            arrays[name] = np.full(array.shape or (1,), np.inf, np.float32)
        elif wrong == "more":
            arrays |= {name: array, f"{name}x": array}
    else:
        place = header
        while isinstance(place, dict | list) and place:
            keys = sorted(place) if isinstance(place, dict) else range(len(place))
            key = data.draw(st.sampled_from(list(keys)))
            if data.draw(st.booleans()) or not isinstance(place[key], dict | list):
                square, plain = {"Square": {"side": -1.0}}, (None, -1, 0.5, "x", True)
                values = [*plain, [], {}, square, 10**400, 1e400]
                place[key] = data.draw(st.sampled_from(values))
                break
            place = place[key]
    try:
        read = codec.read(State, Stored(header, arrays))
    except ValueError:
        return
    assert equal(codec.read(State, through_json(codec.write(read, State))), read)


def test_axes_of_a_record_are_one_size():
    stored = codec.write(Layer(np.zeros((2, 3), np.float32), np.zeros(2, np.float32)))
    with pytest.raises(ValueError, match=r"array bias must be Float32.* of axes \['o'\]"):
        codec.read(Layer, stored)
    stored = codec.write(Layer(np.zeros((2, 3), np.float32), np.zeros(3, np.float32)))
    assert codec.read(Layer, stored, i=2).weight.shape == (2, 3)
    with pytest.raises(ValueError, match="array weight must be"):
        codec.read(Layer, stored, i=4)


def test_a_header_alone_holds_the_numbers_of_arrays():
    polygon = Polygon(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 3.0]]))
    stored = json.loads(json.dumps(codec.to_json(polygon, Shape)))
    assert stored == {"Polygon": {"corners": [[0.0, 0.0], [2.0, 0.0], [0.0, 3.0]]}}
    assert codec.from_json(Shape, stored).area == 3.0
    for bad in ([[10**400, 0.0]], [[None, {}]], {}, [[0.0], [1.0, 2.0]]):
        with pytest.raises(ValueError, match=r"must|inhomogeneous"):
            codec.from_json(Shape, {"Polygon": {"corners": bad}})


@pytest.mark.parametrize("value", [len, object(), 1j])
def test_what_no_file_holds_is_refused(value):
    with pytest.raises(TypeError, match="a file holds no"):
        codec.write({"a": value})


def test_an_example_names_axes_by_numbers_and_by_letters_that_it_shares():
    kind = Float[np.ndarray, "c 2"], (Float[np.ndarray, " c"],)
    stored = codec.write((np.ones((3, 2)), (np.ones(3),)), kind)
    assert [part.shape for part in codec.read(kind, stored)[1]] == [(3,)]
    for shapes in ((3, 3), (3,)), ((3, 2), (4,)):
        first, second = map(np.ones, shapes)
        with pytest.raises(ValueError, match="must be Float"):
            codec.read(kind, codec.write((first, (second,)), kind))
