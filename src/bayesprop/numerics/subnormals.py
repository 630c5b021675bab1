"""Numbers too small for a normal float count as zero while a compiled loop runs.

Below 1e-38 a float32 is subnormal, and an x86 processor takes many times as long for it. On some
tables up to a seventieth of what a batch leaves between layers is subnormal in training (not the
parameters, gradients or what Adam remembers), and a fit takes up to six times as long.
"""

from __future__ import annotations

import platform

from llvmlite import ir
from numba import types

from bayesprop.numerics.compiled import Numba, intrinsic

_HAS_CONTROL_WORD = platform.machine().lower() in ("x86_64", "amd64")
_FLUSH = 0x8040  # results to zero, and operands (Intel's manual, volume 1, section 10.2.3)
_WORD = ir.IntType(32)


def _through(builder: Numba, name: str, slot: Numba) -> None:
    """Call one of the two functions that read and write the control word in memory."""
    address = builder.bitcast(slot, ir.IntType(8).as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [address.type])
    builder.call(builder.module.declare_intrinsic(f"llvm.x86.sse.{name}mxcsr", (), kind), [address])


@intrinsic
def flush_subnormals(_context: Numba) -> Numba:
    """Let them count as zero in this thread; return what `restore` takes."""

    def emit(_context: Numba, builder: Numba, _signature: Numba, _arguments: Numba) -> Numba:
        if not _HAS_CONTROL_WORD:
            return ir.Constant(_WORD, 0)
        slot = builder.alloca(_WORD)
        _through(builder, "st", slot)
        before = builder.load(slot)
        builder.store(builder.or_(before, ir.Constant(_WORD, _FLUSH)), slot)
        _through(builder, "ld", slot)
        return before

    return types.uint32(), emit


@intrinsic
def restore(_context: Numba, _before: Numba) -> Numba:
    """Let them count as they did."""

    def emit(context: Numba, builder: Numba, _signature: Numba, arguments: Numba) -> Numba:
        if _HAS_CONTROL_WORD:
            slot = builder.alloca(_WORD)
            builder.store(arguments[0], slot)
            _through(builder, "ld", slot)
        return context.get_dummy_value()

    return types.none(types.uint32), emit
