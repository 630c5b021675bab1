"""Products of tables of float32 for compiled loops: sixteen columns in a register, tiles of them.

The optimiser leaves a plain triple loop at a tenth of what the machine can do, and is not asked
here: a tile of the result stays in registers while its terms are added up. Tables are parts of
flat arrays; nothing is checked. What lies behind the last column of a table may be read, and is
never written.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from bayesprop.numerics.kernel_lanes import FLOATS16, called, places

LANES = FLOATS16.count
_INT64, _INT32 = ir.IntType(64), ir.IntType(32)
_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_ZERO = ir.Constant(_FLOATS, [0.0] * LANES)
_WIDEST, _NARROW, _WIDEST_SPARSE = 4, 2, 8  # registers of a tile's row


class _Emitter:
    """Addresses, loads and stores of one call; `arrays` and `numbers` are its arguments."""

    def __init__(self, context: Any, builder: Any, sig: Any, args: Any) -> None:
        self.builder = builder
        self.arrays, self.numbers = [], []
        for kind, value in zip(sig.args, args, strict=True):
            if isinstance(kind, types.Array):
                self.arrays.append(context.make_array(kind)(context, builder, value).data)
            else:
                self.numbers.append(context.cast(builder, value, kind, types.int64))

    def at(self, begin: Any, step: Any, count: int) -> list[Any]:
        """Return begin, begin + step, ..."""
        found = [begin]
        for _ in range(count - 1):
            found.append(self.builder.add(found[-1], step))
        return found

    def one(self, array: Any, index: Any) -> Any:
        """Load one number."""
        return self.builder.load(self.builder.gep(array, [index]))

    def spread(self, number: Any) -> Any:
        """Put a number in all lanes."""
        nothing = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
        first = self.builder.insert_element(nothing, number, ir.Constant(_INT32, 0))
        return self.builder.shuffle_vector(first, nothing, places([0] * LANES))

    def address(self, array: Any, index: Any) -> Any:
        """Point to sixteen floats."""
        return self.builder.bitcast(self.builder.gep(array, [index]), _FLOATS.as_pointer())

    def sixteen(self, array: Any, index: Any) -> Any:
        """Load sixteen floats."""
        return self.builder.load(self.address(array, index), align=4)

    def write(self, array: Any, index: Any, value: Any) -> None:
        """Store sixteen floats."""
        self.builder.store(value, self.address(array, index), align=4)

    def first_few(self, count: Any) -> Any:
        """Return a mask of the first `count` of sixteen lanes, of all if it is larger."""
        return self.builder.icmp_signed("<", _counted(_INT64), self.spread(count))

    def masked(self, name: str, result: Any, *args: Any) -> Any:
        """Call an intrinsic of LLVM."""
        kind = ir.FunctionType(result, [arg.type for arg in args])
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.masked.{name}")
        return self.builder.call(function, args)

    def write_some(self, array: Any, index: Any, value: Any, count: Any) -> None:
        """Store the first `count` of sixteen floats, all if it is larger."""
        address, by_four = self.address(array, index), ir.Constant(_INT32, 4)
        mask = self.first_few(count)
        self.masked("store.v16f32.p0", ir.VoidType(), value, address, by_four, mask)

    def tile(
        self, n_rows: int, width: int, n_terms: Any, factors: Callable[[Any], tuple[list, list]]
    ) -> list[list[Any]]:
        """Emit the sum of n_terms products of a column and a row; return rows of registers.

        factors
            From the number of the term to the spread numbers of the column, and the registers.
        """
        builder = self.builder
        sums = [
            [cgutils.alloca_once(builder, _FLOATS) for _ in range(width)] for _ in range(n_rows)
        ]
        for row in sums:
            for place in row:
                builder.store(_ZERO, place)
        with cgutils.for_range(builder, n_terms) as loop:
            column, registers = factors(loop.index)
            for row, left in zip(sums, column, strict=True):
                for place, right in zip(row, registers, strict=True):
                    product = builder.fmul(left, right)
                    builder.store(builder.fadd(builder.load(place), product), place)
        return [[builder.load(place) for place in row] for row in sums]

    def by_width(self, n_columns: Any, widest: int, emit: Callable[[int], None]) -> None:
        """Branch to the code for as many registers as the columns that are left fill."""
        builder = self.builder
        most = ir.Constant(_INT64, LANES * widest)
        few = builder.select(builder.icmp_signed("<", n_columns, most), n_columns, most)
        width = builder.sdiv(builder.add(few, ir.Constant(_INT64, LANES - 1)), _lanes(1))
        after = builder.append_basic_block("after")
        choice = builder.switch(width, after)
        for registers in range(1, widest + 1):
            block = builder.append_basic_block(f"width_{registers}")
            choice.add_case(ir.Constant(_INT64, registers), block)
            builder.position_at_end(block)
            emit(registers)
            builder.branch(after)
        builder.position_at_end(after)


def _counted(kind: Any) -> ir.Constant:
    """0, 1, 2, ... in sixteen lanes."""
    return ir.Constant(ir.VectorType(kind, LANES), list(range(LANES)))


def _lanes(registers: int) -> ir.Constant:
    return ir.Constant(_INT64, LANES * registers)


def _offsets(builder: Any, begin: Any, width: int) -> list[Any]:
    return [builder.add(begin, _lanes(v)) for v in range(width)]


def _typed(emit: Callable[[_Emitter], None], kinds: tuple) -> tuple[Any, Callable]:
    """Return what `intrinsic` asks for: a signature without result, and a code generator."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        emit(_Emitter(context, builder, sig, args))
        return context.get_dummy_value()

    return types.void(*kinds), generate


def _tile_product(n_rows: int, widest: int) -> Any:
    """Make the function that writes a tile of so many rows of a product of two tables."""

    def emit(call: _Emitter) -> None:
        builder, (out, a, b) = call.builder, call.arrays
        to, out_step, n_columns, at, a_row, a_term, b_at, b_step, n_terms = call.numbers

        def of_width(width: int) -> None:
            starts = call.at(at, a_row, n_rows)

            def factors(term: Any) -> tuple[list, list]:
                along = builder.mul(term, a_term)
                column = [call.spread(call.one(a, builder.add(row, along))) for row in starts]
                row = builder.add(b_at, builder.mul(term, b_step))
                return column, [call.sixteen(b, k) for k in _offsets(builder, row, width)]

            left = builder.sub(n_columns, _lanes(width - 1))
            found = call.tile(n_rows, width, n_terms, factors)
            for row, values in zip(call.at(to, out_step, n_rows), found, strict=True):
                places = _offsets(builder, row, width)
                for place, value in zip(places[:-1], values[:-1], strict=True):
                    call.write(out, place, value)
                call.write_some(out, places[-1], values[-1], left)

        call.by_width(n_columns, widest, of_width)

    @intrinsic
    def product(
        _typing, out, to, out_step, n_columns, a, at, a_row, a_term, b, b_at, b_step, n_terms
    ):
        kinds = out, to, out_step, n_columns, a, at, a_row, a_term, b, b_at, b_step, n_terms
        return _typed(emit, kinds)

    return product


_four_rows, _one_row = _tile_product(4, _WIDEST), _tile_product(1, _WIDEST)
_eight_rows = _tile_product(8, _NARROW)


@called
def multiply(
    out, to, out_step, n_rows, n_columns, a, at, a_row, a_term, b, b_at, b_step, n_terms
):  # fmt: skip
    """Write the product of two tables: out[r, c] = sum_t a[r, t] b[t, c].

    to, out_step
        Where the result begins, and from row to row.
    at, a_row, a_term
        Where the first table begins, from row to row, and from term to term.
    b_at, b_step
        Where the second table begins, and from term to term; its columns lie side by side.
    """
    for c in range(0, n_columns, LANES * _WIDEST):
        left = n_columns - c
        if left > LANES * _NARROW:
            whole = n_rows - n_rows % 4
            for r in range(0, whole, 4):
                _four_rows(
                    out, to + r * out_step + c, out_step, left, a, at + r * a_row, a_row, a_term,
                    b, b_at + c, b_step, n_terms,
                )  # fmt: skip
        else:
            whole = n_rows - n_rows % 8
            for r in range(0, whole, 8):
                _eight_rows(
                    out, to + r * out_step + c, out_step, left, a, at + r * a_row, a_row, a_term,
                    b, b_at + c, b_step, n_terms,
                )  # fmt: skip
        for r in range(whole, n_rows):
            _one_row(
                out, to + r * out_step + c, out_step, left, a, at + r * a_row, a_row, a_term,
                b, b_at + c, b_step, n_terms,
            )  # fmt: skip


def _emit_sparse(call: _Emitter) -> None:
    builder, (out, index, value, b) = call.builder, call.arrays
    to, n_columns, first, n_terms, b_at, b_step = call.numbers

    def of_width(width: int) -> None:
        def factors(term: Any) -> tuple[list, list]:
            entry = builder.add(first, term)
            number = builder.sext(call.one(index, entry), _INT64)
            row = builder.add(b_at, builder.mul(number, b_step))
            left = call.spread(call.one(value, entry))
            return [left], [call.sixteen(b, k) for k in _offsets(builder, row, width)]

        (found,) = call.tile(1, width, n_terms, factors)
        places = _offsets(builder, to, width)
        for place, values in zip(places[:-1], found[:-1], strict=True):
            call.write(out, place, values)
        left = builder.sub(n_columns, _lanes(width - 1))
        call.write_some(out, places[-1], found[-1], left)

    call.by_width(n_columns, _WIDEST_SPARSE, of_width)


@intrinsic
def _sparse_row(_typing, out, to, n_columns, index, value, first, n_terms, b, b_at, b_step):
    kinds = out, to, n_columns, index, value, first, n_terms, b, b_at, b_step
    return _typed(_emit_sparse, kinds)


@called
def multiply_sparse(
    out, to, out_step, n_columns, index, value, counts, n_rows, room, b, b_at, b_step
):
    """Write the product of a table that is mostly zeros with another.

    index, value, counts, room
        Row r of the former has counts[r] entries from r * room on: their columns (int32), numbers.
    """
    for r in range(n_rows):
        for c in range(0, n_columns, LANES * _WIDEST_SPARSE):
            _sparse_row(
                out, to + r * out_step + c, n_columns - c, index, value, r * room, counts[r],
                b, b_at + c, b_step,
            )  # fmt: skip


def _emit_turn(call: _Emitter) -> None:
    builder, (a, out) = call.builder, call.arrays
    at, a_step, to, out_step = call.numbers
    rows = [call.sixteen(a, place) for place in call.at(at, a_step, LANES)]
    for size in (8, 4, 2, 1):
        lanes = range(LANES)
        low = places([k if k & size == 0 else LANES + k - size for k in lanes])
        high = places([k + size if k & size == 0 else LANES + k for k in lanes])
        for i in (k for k in lanes if k & size == 0):
            both = rows[i], rows[i + size]
            rows[i] = builder.shuffle_vector(*both, low)
            rows[i + size] = builder.shuffle_vector(*both, high)
    for place, row in zip(call.at(to, out_step, LANES), rows, strict=True):
        call.write(out, place, row)


@intrinsic
def _turn_block(_typing, a, at, a_step, out, to, out_step):
    return _typed(_emit_turn, (a, at, a_step, out, to, out_step))


@called
def turn(a, at, n_rows, n_columns, out, to, out_step):
    """Write a table's transpose, in whole blocks of sixteen by sixteen."""
    for r in range(0, n_rows, LANES):
        for c in range(0, n_columns, LANES):
            _turn_block(a, at + r * n_columns + c, n_columns, out, to + c * out_step + r, out_step)


def _emit_list(call: _Emitter) -> Any:
    builder, (x, index, value) = call.builder, call.arrays
    begin, n_columns, to = call.numbers
    end, by_four = cgutils.alloca_once(builder, _INT64), ir.Constant(_INT32, 4)
    builder.store(to, end)
    n_blocks = builder.sdiv(builder.add(n_columns, ir.Constant(_INT64, LANES - 1)), _lanes(1))
    with cgutils.for_range(builder, n_blocks) as loop:
        first, place = builder.mul(loop.index, _lanes(1)), builder.load(end)
        is_there = call.first_few(builder.sub(n_columns, first))
        address = call.address(x, builder.add(begin, first))
        found = call.masked("load.v16f32.p0", _FLOATS, address, by_four, is_there, _ZERO)
        is_listed = builder.fcmp_unordered("!=", found, _ZERO)
        number = builder.add(call.spread(builder.trunc(first, _INT32)), _counted(_INT32))
        for array, what, kind in ((value, found, "f32"), (index, number, "i32")):
            to_here = builder.gep(array, [place])
            call.masked(f"compressstore.v16{kind}", ir.VoidType(), what, to_here, is_listed)
        count = builder.ctpop(builder.bitcast(is_listed, ir.IntType(LANES)))
        builder.store(builder.add(place, builder.zext(count, _INT64)), end)
    return builder.load(end)


@intrinsic
def list_what_is_not_0(_typing, x, begin, n_columns, index, value, to):
    """Write columns and numbers of what is not zero among x[begin:][:n_columns] from `to` on.

    Returns where they end. x is flat.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _emit_list(_Emitter(context, builder, sig, args))

    return types.int64(x, begin, n_columns, index, value, to), generate
