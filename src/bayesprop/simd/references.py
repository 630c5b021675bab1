"""Tuples of arrays that compiled functions pass on as one address.

numba passes every field of every array of a tuple by itself: a hundred arguments, which it declares
and takes apart again in each function that gets the tuple, half of what there would be to compile.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import lower_getattr_generic, models, register_model

from bayesprop.simd import hooks
from bayesprop.simd.lanes import emitted_by


class Reference(types.Type):
    """The numba type of a named tuple's address."""

    def __init__(self, of: Any) -> None:
        self.of = of
        super().__init__(name=f"reference to {of.instance_class.__name__}")

    @property
    def key(self) -> Any:
        """What tells types apart: the name, a part of every function's, is short."""
        return self.of


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, reference: Reference) -> None:
        super().__init__(dmm, reference, dmm.lookup(reference.of).get_value_type().as_pointer())


def _field(reference: Reference, name: str) -> Any:
    fields = reference.of.fields
    return reference.of[fields.index(name)] if name in fields else None


hooks.type_attributes(Reference, _field)


@lower_getattr_generic(Reference)
def _load(_context, builder, reference, address, name):
    places = [ir.Constant(ir.IntType(32), k) for k in (0, reference.of.fields.index(name))]
    return builder.load(builder.gep(address, places, inbounds=True))


@emitted_by(lambda fields: Reference(fields)(fields))
def reference_to(call, fields):
    """Return the address of a named tuple, for as long as the caller runs."""
    with call.builder.goto_entry_block():
        address = call.builder.alloca(fields.type)
    call.builder.store(fields, address)
    return address


def row_of(kind: Any) -> Any:
    """Return a compiled function of a table of int64 and a number: the row's address, as a tuple.

    kind
        A NamedTuple of as many ints as the table has columns, which lie side by side.
    """
    row_type: Any = types.NamedUniTuple(types.int64, len(kind._fields), kind)

    @emitted_by(lambda table, number: Reference(row_type)(table, number))
    def row(call, table, number):
        width = ir.Constant(ir.IntType(64), row_type.count)
        address = call.address(table, call.builder.mul(number, width))
        row_pointer = call.context.get_value_type(Reference(row_type))
        return call.builder.bitcast(address, row_pointer)

    return row
