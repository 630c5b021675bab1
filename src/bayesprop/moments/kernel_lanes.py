"""Eight or sixteen float64 in vector registers, as one numba value.

A loop over plain floats is vectorised or not as the optimiser sees fit, on many machines at half
the register width and behind overlap checks that cost as much as the loop. Here ``load8`` gives
eight lanes; ``+ - * / < >`` and `select` work lane by lane; a float spreads to all lanes; LLVM
splits the lanes where registers are narrower. Sixteen lanes are two or more registers whose
instructions come out interleaved, which hides the latency of long polynomials. A function made of
these operations runs on a single float64 as well.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core.typeconv import Conversion
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, lower_cast, models, register_model

# contract is a * b + c in one rounding. Nothing more: the guards look for NaN and infinity, and
# the exponential needs (x + c) - c as it is written.
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy", "_nrt": False}


def inlined(function: Callable) -> Any:
    """Compile a function that only compiled functions call."""
    return njit(forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)(
        function
    )


def compiled(function: Callable) -> Any:
    """Compile an entry point at its first call; keep the result on disk where a folder allows."""
    try:
        entry = njit(cache=True, no_cfunc_wrapper=True, **_OPTIONS)(function)
    except RuntimeError:  # numba found no folder that it may write to
        return njit(no_cfunc_wrapper=True, **_OPTIONS)(function)
    # numba compiles anew when the file of the entry point changes. It must do so when any file of
    # the engine does, or it would run yesterday's code.
    entry._cache._cache_file._source_stamp = _source_stamp()
    return entry


@cache
def _source_stamp() -> tuple[tuple[str, int, int], ...]:
    files = sorted(Path(__file__).parent.glob("kernel_*.py"))
    return tuple((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files)


class Lanes(types.Type):
    """The numba type of a fixed number of float64."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(name=f"float64x{count}")

    def can_convert_from(self, typingctx: Any, other: types.Type) -> Conversion | None:  # noqa: ARG002
        """Accept a float64, which spreads to all lanes."""
        return Conversion.safe if other == types.float64 else None


class LaneMask(types.Type):
    """The numba type of a comparison of `Lanes`."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(name=f"bool_x{count}")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, lanes: Lanes) -> None:
        super().__init__(dmm, lanes, _llvm(lanes))


@register_model(LaneMask)
class _LaneMaskModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, mask: LaneMask) -> None:
        super().__init__(dmm, mask, ir.VectorType(ir.IntType(1), mask.count))


LANES8, LANES16, LANES32 = Lanes(8), Lanes(16), Lanes(32)
_MASKS = {lanes: LaneMask(lanes.count) for lanes in (LANES8, LANES16, LANES32)}


def _llvm(of: types.Type, element: ir.Type | None = None) -> Any:
    """Return the LLVM type of a float64 or of lanes, or the same shape of another element."""
    element = element or ir.DoubleType()
    return ir.VectorType(element, of.count) if isinstance(of, Lanes) else element


def _constant(of: types.Type, value: float, element: ir.Type | None = None) -> ir.Constant:
    kind = _llvm(of, element)
    return ir.Constant(kind, [value] * of.count if isinstance(of, Lanes) else value)


def _spread(builder: ir.IRBuilder, value: ir.Value, lanes: Lanes) -> ir.Value:
    kind, int32 = _llvm(lanes), ir.IntType(32)
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(int32, 0))
    zeros = ir.Constant(ir.VectorType(int32, lanes.count), [0] * lanes.count)
    return builder.shuffle_vector(first, nothing, zeros)


@lower_cast(types.float64, LANES8)
@lower_cast(types.float64, LANES16)
@lower_cast(types.float64, LANES32)
def _cast_to_lanes(context, builder, fromty, toty, value):
    return _spread(builder, value, toty)


def _define_operator(op: Callable, result: Callable, emit: Callable) -> None:
    class Template(ConcreteTemplate):
        cases = [signature(result(lanes), lanes, lanes) for lanes in _MASKS]  # noqa: RUF012

    infer_global(op)(Template)
    for lanes in _MASKS:
        lower_builtin(op, lanes, lanes)(lambda _context, builder, _sig, args: emit(builder, *args))


for _op, _name in zip(
    (operator.add, operator.sub, operator.mul, operator.truediv),
    ("fadd", "fsub", "fmul", "fdiv"),
    strict=True,
):
    _define_operator(_op, lambda lanes: lanes, getattr(ir.IRBuilder, _name))
for _op, _sign in ((operator.lt, "<"), (operator.gt, ">")):
    _define_operator(
        _op,
        _MASKS.__getitem__,
        lambda builder, a, b, sign=_sign: builder.fcmp_ordered(sign, a, b),
    )


def _address(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
    """Return the address of array[index], the first two arguments."""
    array = context.make_array(sig.args[0])(context, builder, args[0])
    return builder.gep(array.data, [context.cast(builder, args[1], sig.args[1], types.int64)])


def _loader(lanes: Lanes) -> Any:
    @intrinsic
    def load(typingctx, array, index):
        def emit(context, builder, sig, args):
            address = _address(context, builder, sig, args)
            return builder.load(builder.bitcast(address, _llvm(lanes).as_pointer()), align=8)

        return lanes(array, index), emit

    return load


load8, load16, load32 = _loader(LANES8), _loader(LANES16), _loader(LANES32)


@intrinsic
def store(typingctx, array, index, value):
    """Write lanes to array[index:]."""

    def emit(context, builder, sig, args):
        address = _address(context, builder, sig, args)
        builder.store(args[2], builder.bitcast(address, args[2].type.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(array, index, value), emit


@intrinsic
def spread8(typingctx, value):
    """Return eight lanes of one float."""

    def emit(context, builder, sig, args):
        return _spread(builder, args[0], LANES8)

    return LANES8(types.float64), emit


@intrinsic
def spread_at(typingctx, array, index):
    """Return eight lanes of array[index]; the index is not checked."""

    def emit(context, builder, sig, args):
        return _spread(builder, builder.load(_address(context, builder, sig, args)), LANES8)

    return LANES8(array, index), emit


@intrinsic
def total(typingctx, lanes):
    """Return the sum of all lanes, added pairwise."""

    def emit(context, builder, sig, args):
        value, count = args[0], lanes.count
        while count > 1:
            count //= 2
            nothing = ir.Constant(value.type, ir.Undefined)
            halves = [
                builder.shuffle_vector(value, nothing, _indices(start, count))
                for start in (0, count)
            ]
            value = builder.fadd(*halves)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return types.float64(lanes), emit


def _indices(start: int, count: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(start, start + count)))


@intrinsic
def select(typingctx, mask, yes, no):
    """Return `yes` where the mask holds, else `no`."""
    kind = yes if isinstance(yes, Lanes) else no

    def emit(context, builder, sig, args):
        return builder.select(*args)

    return kind(mask, kind, kind), emit


@intrinsic
def absolute(typingctx, x):
    """Return |x|."""

    def emit(context, builder, sig, args):
        bits, int64 = _llvm(x, ir.IntType(64)), ir.IntType(64)
        without_sign = builder.and_(builder.bitcast(args[0], bits), _constant(x, 2**63 - 1, int64))
        return builder.bitcast(without_sign, _llvm(x))

    return x(x), emit


@intrinsic
def scaled_by_power(typingctx, x, shifted):
    """Return x * 2^k where `shifted` is k + 1.5 * 2^52, whose lowest bits are those of k."""

    def emit(context, builder, sig, args):
        bits, int64 = _llvm(x, ir.IntType(64)), ir.IntType(64)
        exponent = builder.shl(builder.bitcast(args[1], bits), _constant(x, 52, int64))
        return builder.bitcast(builder.add(builder.bitcast(args[0], bits), exponent), _llvm(x))

    return x(x, x), emit


@intrinsic
def rsqrt_guess(typingctx, x):
    """Return 1 / sqrt(x) to 3.4 % for x > 0: the exponent bits halved and negated."""

    def emit(context, builder, sig, args):
        bits, int64 = _llvm(x, ir.IntType(64)), ir.IntType(64)
        half = builder.lshr(builder.bitcast(args[0], bits), _constant(x, 1, int64))
        return builder.bitcast(
            builder.sub(_constant(x, 0x5FE6EB50C7B537A9, int64), half), _llvm(x)
        )

    return x(x), emit


class _VolatileLoad(ir.LoadInstr):
    """A load that the optimiser neither moves nor foresees."""

    def descr(self, buf: list[str]) -> None:
        text: list[str] = []
        super().descr(text)
        buf.append("".join(text).replace("load", "load volatile", 1))


def _constant_table(builder: ir.IRBuilder, values: Sequence[float]) -> ir.Value:
    """Return the address of a table of constants, which the optimiser takes for variables."""
    kind = ir.ArrayType(ir.DoubleType(), len(values))
    module = builder.module
    table = ir.GlobalVariable(module, kind, module.get_unique_name("table"))
    table.initializer = ir.Constant(kind, list(values))
    address = ir.GlobalVariable(module, table.type, module.get_unique_name("table_address"))
    address.initializer = table
    table.linkage = address.linkage = "internal"
    load = _VolatileLoad(builder.block, address)
    builder._insert(load)
    return load


def polynomial(coefficients: Sequence[float]) -> Any:
    """Return a compiled polynomial, constant term first, by Horner's rule.

    Its coefficients are read from memory each time, which costs nothing extra. Known to be
    constants, they would all be spread over whole registers ahead of the loop over the data, and
    since there are not that many registers, kept on the stack, eight times larger.
    """
    int32 = ir.IntType(32)

    @intrinsic
    def evaluate(typingctx, x):
        def emit(context, builder, sig, args):
            table = _constant_table(builder, coefficients)

            def coefficient(k: int) -> ir.Value:
                address = builder.gep(table, [ir.Constant(int32, 0), ir.Constant(int32, k)])
                value = builder.load(address)
                return _spread(builder, value, x) if isinstance(x, Lanes) else value

            result = coefficient(len(coefficients) - 1)
            for k in reversed(range(len(coefficients) - 1)):
                result = builder.fadd(builder.fmul(result, args[0]), coefficient(k))
            return result

        return x(x), emit

    return evaluate


@intrinsic
def everywhere(typingctx, mask):
    """Whether a mask holds in all its lanes."""

    def emit(context, builder, sig, args):
        bits = builder.bitcast(args[0], ir.IntType(mask.count))
        return builder.icmp_unsigned("==", bits, ir.Constant(bits.type, 2**mask.count - 1))

    return types.boolean(mask), emit
