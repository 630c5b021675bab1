"""Four times sixteen float32 as one numba value: what products of matrices are summed in.

Sums of four units side by side, written out one by one, would be four times as much to compile.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from bayesprop.simd.lanes import FLOATS16, emitted_by, in_lanes

FOUR = types.UniTuple(FLOATS16, 4)


def _packed(call: Any, values: list[Any]) -> Any:
    four: Any = ir.Constant(call.context.get_value_type(FOUR), ir.Undefined)
    for k, value in enumerate(values):
        four = call.builder.insert_value(four, value, k)
    return four


def _unpacked(call: Any, four: Any) -> list[Any]:
    return [call.builder.extract_value(four, k) for k in range(4)]


def _steps(call: Any, at: Any, step: Any) -> list[Any]:
    """Return `at` and the three places that follow it, every `step`-th."""
    places = [at]
    for _ in range(3):
        places.append(call.builder.add(places[-1], step))
    return places


@emitted_by(lambda x: FOUR(x))
def four_of(call, x):
    """Return the same lanes four times."""
    return _packed(call, [x] * 4)


@emitted_by(lambda array, at, step: FOUR(array, at, step))
def load_four(call, array, at, step):
    """Return the lanes that begin at array[at], array[at + step] and so on."""
    return _packed(call, [call.lanes_at(array, k, FLOATS16) for k in _steps(call, at, step)])


@emitted_by(lambda array, at, step: FOUR(array, at, step))
def spread_four(call, array, at, step):
    """Return array[at], array[at + step] and so on, each in sixteen lanes."""
    values = [call.builder.load(call.address(array, k)) for k in _steps(call, at, step)]
    return _packed(call, [in_lanes(call.builder, value, FLOATS16) for value in values])


@emitted_by(lambda array, at, step, four: types.void(array, at, step, four))
def store_four(call, array, at, step, four):
    """Write lanes to array[at:], array[at + step:] and so on."""
    for k, lanes in zip(_steps(call, at, step), _unpacked(call, four), strict=True):
        address = call.builder.bitcast(call.address(array, k), lanes.type.as_pointer())
        call.builder.store(lanes, address, align=4)
    return call.context.get_dummy_value()


@emitted_by(lambda four, x, others: four(four, x, others))
def plus_products(call, four, x, others):
    """Add to each of four the product of x with its like among others."""
    pairs = zip(_unpacked(call, four), _unpacked(call, others), strict=True)
    return _packed(call, [call.builder.fadd(a, call.builder.fmul(x, b)) for a, b in pairs])
