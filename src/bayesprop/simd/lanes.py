"""Eight float64 or sixteen float32 in vector registers, as one numba value.

A loop over plain floats is vectorised or not as the optimiser sees fit, on many machines at half
the register width and behind overlap checks that cost as much as the loop. Here `load8` gives eight
lanes; ``+ - * / < >`` and `select` work lane by lane; a float spreads to all lanes; LLVM splits the
lanes where registers are narrower. A function made of these operations runs on a single float64 as
well.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from inspect import signature as signature_of
from pathlib import Path
from typing import Any, NamedTuple

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, lower_builtin, lower_cast, models, register_model

from bayesprop.simd import hooks

_jit: Any = njit  # whose type stubs know only a few of its options

OPTIONS: dict[str, Any] = {
    "nogil": True,
    # a * b + c in one rounding. Nothing more: the guards look for NaN and infinity, and the
    # exponential needs (x + c) - c as it is written.
    "fastmath": {"contract"},
    "error_model": "numpy",
    **hooks.NO_REFERENCE_COUNTS,
}


def inlined(function: Callable) -> Any:
    """Compile a function that only compiled functions call."""
    return _jit(forceinline=True, **hooks.ONLY_LINKED, **OPTIONS)(function)


def called(function: Callable) -> Any:
    """Compile one with long loops, which inlined would be compiled again with all that call it."""
    return _jit(**hooks.ONLY_LINKED, **OPTIONS)(function)


def compiled(function: Callable) -> Any:
    """Compile an entry point at its first call; keep the result on disk where a folder allows."""
    try:
        entry = _jit(cache=True, **hooks.ENTRY, **OPTIONS)(function)
    except RuntimeError:  # numba found no folder that it may write to
        return _jit(**hooks.ENTRY, **OPTIONS)(function)
    # numba compiles anew when the file of the entry point has changed. It must do so when any file
    # of the engine has, or it would run yesterday's code.
    folder = Path(function.__code__.co_filename).parent
    hooks.recompile_when(entry, source_stamp(folder))
    hooks.load_lean(entry)
    return entry


@cache
def source_stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of all that entry points of a folder may be made of."""
    files = sorted(f for each in {folder, Path(__file__).parent} for f in each.glob("*.py"))
    return tuple((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files)


class Lanes(types.Type):
    """The numba type of a fixed number of float64 or float32."""

    def __init__(self, count: int, element: types.Type = types.float64) -> None:
        self.count = count
        self.element = element
        super().__init__(name=f"{element}x{count}")

    def can_convert_from(self, typingctx: Any, other: types.Type) -> Any:
        """Accept a float of their own kind or a float64, which spreads to all lanes."""
        del typingctx
        return hooks.SAFE if other in (types.float64, self.element) else None


class LaneMask(types.Type):
    """The numba type of a comparison of `Lanes`."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(name=f"bool_x{count}")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, lanes: Lanes) -> None:
        super().__init__(dmm, lanes, _floats(lanes))


@register_model(LaneMask)
class _LaneMaskModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, mask: LaneMask) -> None:
        super().__init__(dmm, mask, ir.VectorType(ir.IntType(1), mask.count))


_INT64, _INT32 = ir.IntType(64), ir.IntType(32)
_FLOAT = {types.float64: ir.DoubleType(), types.float32: ir.FloatType()}
_BITS = {types.float64: _INT64, types.float32: _INT32}
_ALIGNMENT = {types.float64: 8, types.float32: 4}
LANES8 = Lanes(8)
FLOATS16 = Lanes(16, types.float32)
_MASKS = {lanes: LaneMask(lanes.count) for lanes in (LANES8, FLOATS16)}


def _element(of: types.Type) -> Any:
    return of.element if isinstance(of, Lanes) else of


def _llvm(of: types.Type, element: ir.Type) -> Any:
    """Return an LLVM vector type with as many elements as lanes, or the element for a float."""
    return ir.VectorType(element, of.count) if isinstance(of, Lanes) else element


def _floats(of: types.Type) -> Any:
    return _llvm(of, _FLOAT[_element(of)])


def _integers_of(of: types.Type) -> Any:
    return _llvm(of, _BITS[_element(of)])


def constant(of: types.Type, value: int) -> ir.Constant:
    """Return an integer in every lane, as wide as the floats."""
    kind = _integers_of(of)
    return ir.Constant(kind, [value] * of.count if isinstance(of, Lanes) else value)


def places(values: Sequence[int]) -> ir.Constant:
    """Return what `shuffle_vector` takes for the choice of lanes."""
    return ir.Constant(ir.VectorType(_INT32, len(values)), list(values))


def in_lanes(builder: ir.IRBuilder, value: Any, of: types.Type) -> Any:
    """Return a float in all lanes."""
    if not isinstance(of, Lanes):
        return value
    nothing = ir.Constant(_floats(of), ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, nothing, places([0] * of.count))


def _register_cast(lanes: Lanes) -> None:
    def spread(context, builder, fromty, _toty, value):
        return in_lanes(builder, context.cast(builder, value, fromty, lanes.element), lanes)

    for kind in {types.float64, lanes.element}:
        lower_cast(kind, lanes)(spread)


def _register_operator(op: Callable, result: Callable, emit: Callable) -> None:
    hooks.type_operator(op, {lanes: result(lanes) for lanes in _MASKS})
    for lanes in _MASKS:
        lower_builtin(op, lanes, lanes)(lambda _context, builder, _sig, args: emit(builder, *args))


def _comparison(sign: str) -> Callable:
    return lambda builder, a, b: builder.fcmp_ordered(sign, a, b)


for _lanes in _MASKS:
    _register_cast(_lanes)
_register_operator(operator.add, lambda lanes: lanes, ir.IRBuilder.fadd)
_register_operator(operator.sub, lambda lanes: lanes, ir.IRBuilder.fsub)
_register_operator(operator.mul, lambda lanes: lanes, ir.IRBuilder.fmul)
_register_operator(operator.truediv, lambda lanes: lanes, ir.IRBuilder.fdiv)
_register_operator(operator.lt, _MASKS.__getitem__, _comparison("<"))
_register_operator(operator.gt, _MASKS.__getitem__, _comparison(">"))


class _Call(NamedTuple):
    """What an emitter needs to know: where to put instructions, and the numba types."""

    context: Any
    builder: Any
    kinds: tuple[types.Type, ...]

    def address(self, array: Any, index: Any) -> Any:
        """Return the address of array[index], the first two arguments; unchecked."""
        data = self.context.make_array(self.kinds[0])(self.context, self.builder, array).data
        index = self.context.cast(self.builder, index, self.kinds[1], types.int64)
        return self.builder.gep(data, [index])

    def lanes_at(self, array: Any, index: Any, lanes: Lanes) -> Any:
        """Return the lanes that begin at array[index]."""
        address = self.builder.bitcast(self.address(array, index), _floats(lanes).as_pointer())
        return self.builder.load(address, align=_ALIGNMENT[lanes.element])

    def bits(self, value: Any) -> Any:
        """Return the bits of the first argument as integers."""
        return self.builder.bitcast(value, _integers_of(self.kinds[0]))

    def floats(self, bits: Any) -> Any:
        """Undo `bits`."""
        return self.builder.bitcast(bits, _floats(self.kinds[0]))


def emitted_by(typing: Callable) -> Callable[[Callable], Any]:
    """Make a compiled function of one that emits LLVM; `typing` gives its numba signature."""

    def decorate(emit: Callable) -> Any:
        def typed(*kinds: types.Type) -> tuple[Any, Callable]:
            def generate(context, builder, sig, args):
                return emit(_Call(context, builder, sig.args), *args)

            return typing(*kinds), generate

        by_arity = (
            lambda _typingctx: typed(),
            lambda _typingctx, a: typed(a),
            lambda _typingctx, a, b: typed(a, b),
            lambda _typingctx, a, b, c: typed(a, b, c),
            lambda _typingctx, a, b, c, d: typed(a, b, c, d),
        )
        return intrinsic(by_arity[len(signature_of(emit).parameters) - 1])

    return decorate


def _loader(lanes: Lanes) -> Any:
    typed = emitted_by(lambda array, index: lanes(array, index))
    return typed(lambda call, array, index: call.lanes_at(array, index, lanes))


load8, load_floats = _loader(LANES8), _loader(FLOATS16)
"""The lanes that begin at array[index]."""


@emitted_by(lambda array, index, value: types.void(array, index, value))
def store(call, array, index, value):
    """Write lanes to array[index:]."""
    address = call.builder.bitcast(call.address(array, index), value.type.as_pointer())
    call.builder.store(value, address, align=_ALIGNMENT[call.kinds[2].element])
    return call.context.get_dummy_value()


@emitted_by(lambda _value: LANES8(types.float64))
def spread8(call, value):
    """Return eight lanes of one float."""
    return in_lanes(call.builder, value, LANES8)


def _filled_by(array: Any) -> Lanes:
    return LANES8 if array.dtype == types.float64 else FLOATS16


@emitted_by(lambda array, index: _filled_by(array)(array, index))
def spread_at(call, array, index):
    """Return eight lanes of array[index], sixteen of a float32."""
    value = call.builder.load(call.address(array, index))
    return in_lanes(call.builder, value, _filled_by(call.kinds[0]))


@emitted_by(lambda lanes: lanes.element(lanes))
def total(call, lanes):
    """Return the sum of all lanes, added pairwise."""
    builder, count = call.builder, lanes.type.count
    while count > 1:
        count //= 2
        nothing = ir.Constant(lanes.type, ir.Undefined)
        low, high = places(range(count)), places(range(count, 2 * count))
        lanes = builder.fadd(
            builder.shuffle_vector(lanes, nothing, low),
            builder.shuffle_vector(lanes, nothing, high),
        )
    return builder.extract_element(lanes, ir.Constant(_INT32, 0))


def _select_signature(mask: types.Type, yes: types.Type, no: types.Type) -> Any:
    kind = yes if isinstance(yes, Lanes) else no
    return kind(mask, kind, kind)


@emitted_by(_select_signature)
def select(call, mask, yes, no):
    """Return `yes` where the mask holds, else `no`."""
    return call.builder.select(mask, yes, no)


def _per_kind(x: types.Type, of_float64: int, of_float32: int) -> ir.Constant:
    return constant(x, of_float64 if _element(x) == types.float64 else of_float32)


@emitted_by(lambda x: x(x))
def absolute(call, x):
    """Return |x|."""
    mask = _per_kind(call.kinds[0], 2**63 - 1, 2**31 - 1)
    return call.floats(call.builder.and_(call.bits(x), mask))


@emitted_by(lambda x, shifted: x(x, shifted))
def scaled_by_power(call, x, shifted):
    """Return x * 2^k where `shifted` is k + 1.5 * 2^52, whose lowest bits are those of k.

    Of float32, k + 1.5 * 2^23.
    """
    exponent = call.builder.shl(call.bits(shifted), _per_kind(call.kinds[0], 52, 23))
    return call.floats(call.builder.add(call.bits(x), exponent))


@emitted_by(lambda x: x(x))
def rsqrt_guess(call, x):
    """Return 1 / sqrt(x) to 3.4 % for x > 0: the exponent bits halved and negated."""
    half = call.builder.lshr(call.bits(x), constant(call.kinds[0], 1))
    magic = _per_kind(call.kinds[0], 0x5FE6EB50C7B537A9, 0x5F3759DF)
    return call.floats(call.builder.sub(magic, half))


def _constant_table(builder: Any, element: ir.Type, values: Sequence[float]) -> Any:
    """Return the address of a table of constants, which the optimiser takes for variables."""
    kind, module = ir.ArrayType(element, len(values)), builder.module
    table: Any = ir.GlobalVariable(module, kind, module.get_unique_name("table"))
    table.initializer = ir.Constant(kind, list(values))
    address: Any = ir.GlobalVariable(module, table.type, module.get_unique_name("table_address"))
    address.initializer = table
    table.linkage = address.linkage = "internal"
    return hooks.volatile_load(builder, address)


def polynomial(coefficients: Sequence[float]) -> Any:
    """Return a compiled polynomial, constant term first, by Horner's rule.

    Its coefficients are read from memory each time, which costs nothing extra. Known to be
    constants, they would all be spread over whole registers ahead of the loop over the data, and
    since there are not that many registers, kept on the stack, eight times larger.
    """

    @emitted_by(lambda x: x(x))
    def evaluate(call, x):
        builder = call.builder
        element = _FLOAT[_element(call.kinds[0])]
        table = _constant_table(builder, element, coefficients)

        def coefficient(k: int) -> Any:
            address = builder.gep(table, [ir.Constant(_INT32, 0), ir.Constant(_INT32, k)])
            return in_lanes(builder, builder.load(address), call.kinds[0])

        value = coefficient(len(coefficients) - 1)
        for k in reversed(range(len(coefficients) - 1)):
            value = builder.fadd(builder.fmul(value, x), coefficient(k))
        return value

    return evaluate
