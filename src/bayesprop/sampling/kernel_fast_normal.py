"""The normals of `numerics.fast_normal`, 32 pairs at a time: the same counters, words, formula.

They differ from JAX's in the last bits only, so that what is drawn does not depend on who draws it.
"""
# pyright: reportCallIssue=false

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bayesprop.numerics.fast_normal import COSINE, PARITY, ROTATIONS, ROUNDS, SINE
from bayesprop.numerics.kernel_floats import log, square_root
from bayesprop.numerics.kernel_lanes import FLOATS32, inlined, polynomial

_INT32 = ir.IntType(32)
_WORDS = ir.VectorType(_INT32, FLOATS32.count)
_PAIR = types.UniTuple(FLOATS32, 2)
_sine, _cosine = (polynomial(tuple(reversed(powers))) for powers in (SINE, COSINE))


def _constant(value: int) -> ir.Constant:
    return ir.Constant(_WORDS, [value % 2**32] * FLOATS32.count)


def _everywhere(builder: Any, word: Any) -> Any:
    """Put the lower half of a whole number in all lanes."""
    nothing = ir.Constant(_WORDS, ir.Undefined)
    first = builder.insert_element(nothing, builder.trunc(word, _INT32), ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(_WORDS, [0] * FLOATS32.count))


def _threefry(builder: Any, first: Any, second: Any, counter: Any) -> tuple[Any, Any]:
    """Emit Threefry-2x32-13 at the counters (i, 0)."""
    parity = builder.xor(builder.xor(first, second), _constant(PARITY))
    words = (first, second, parity)
    x, y = builder.add(counter, first), second
    for r in range(ROUNDS):
        turn = ROTATIONS[r % 8]
        x = builder.add(x, y)
        left, right = builder.shl(y, _constant(turn)), builder.lshr(y, _constant(32 - turn))
        y = builder.xor(builder.or_(left, right), x)
        if r % 4 == 3:
            injection = r // 4 + 1
            x = builder.add(x, words[injection % 3])
            y = builder.add(y, builder.add(words[(injection + 1) % 3], _constant(injection)))
    return x, y


@intrinsic
def _uniforms(_typing, first, second, counter):
    """Return the two words of 32 counters from one on, as floats from 1 to 2."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        first, second, begin = (_everywhere(builder, word) for word in args)
        lane = ir.Constant(_WORDS, list(range(FLOATS32.count)))
        words = _threefry(builder, first, second, builder.add(begin, lane))
        floats = ir.VectorType(ir.FloatType(), FLOATS32.count)
        found = []
        for word in words:
            upper = builder.lshr(word, _constant(9))
            found.append(builder.bitcast(builder.or_(upper, _constant(0x3F800000)), floats))
        return context.make_tuple(builder, sig.return_type, found)

    wanted = (types.int64, types.int64, types.int64)
    return (_PAIR(*wanted), emit) if (first, second, counter) == wanted else None


@inlined
def pair(first, second, counter):
    """Draw the pairs of 32 counters from `counter` on, for a key of two words (int64)."""
    upper, lower = _uniforms(first, second, counter)
    u, v = upper - (1.0 - 2.0**-24), lower - 1.5
    radius, square = square_root(-2.0 * log(u)), v * v
    return radius * _cosine(square), radius * (v * _sine(square))
