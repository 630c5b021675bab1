"""Numbers too small for a normal float count as zero while a compiled loop runs.

Below 1e-38 a float32 is subnormal, and an x86 processor takes many times as long for it. On some
tables up to a seventieth of what a batch leaves between layers is subnormal in training (not the
parameters, gradients or what Adam remembers), and a fit takes up to six times as long.
"""

from __future__ import annotations

import platform

from llvmlite import ir
from numba import types

from bayesprop.simd import hooks
from bayesprop.simd.lanes import emitted_by

_HAS_CONTROL_WORD = platform.machine().lower() in ("x86_64", "amd64")
_FLUSH = 0x8040  # results to zero, and operands (Intel's manual, volume 1, section 10.2.3)
_WORD = ir.IntType(32)


def _through(call, name, slot):
    """Call one of the two functions that read and write the control word in memory."""
    address = call.builder.bitcast(slot, ir.IntType(8).as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [address.type])
    full_name = f"llvm.x86.sse.{name}mxcsr"
    call.builder.call(hooks.intrinsic_function(call.builder, kind, full_name), [address])


@emitted_by(lambda: types.uint32())
def flush_subnormals(call):
    """Let them count as zero in this thread; return what `restore` takes."""
    if not _HAS_CONTROL_WORD:
        return ir.Constant(_WORD, 0)
    slot = call.builder.alloca(_WORD)
    _through(call, "st", slot)
    before = call.builder.load(slot)
    call.builder.store(call.builder.or_(before, ir.Constant(_WORD, _FLUSH)), slot)
    _through(call, "ld", slot)
    return before


@emitted_by(lambda before: types.void(before))
def restore(call, before):
    """Let them count as they did."""
    if _HAS_CONTROL_WORD:
        slot = call.builder.alloca(_WORD)
        call.builder.store(before, slot)
        _through(call, "ld", slot)
    return call.context.get_dummy_value()
