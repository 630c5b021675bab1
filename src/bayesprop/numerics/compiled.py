"""How loops are compiled: by numba, through what it promises alone.

What makes such loops fast: the innermost runs over contiguous numbers and calls nothing but what is
`inlined`; no branch and no allocation in it (a choice of two values is no branch); and of the
arrays that it writes to and reads, few whose distances are not known when it is compiled, unless
the function is `disjoint`, since for each pair the processor would have to see first that they do
not overlap.

Below 1e-38 a float32 is subnormal, and an x86 processor takes many times as long for it. On some
tables up to a seventieth of what a batch leaves between layers is subnormal in training (not the
parameters, gradients or what Adam remembers), and a fit takes up to six times as long: such numbers
count as zero while a loop runs.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from llvmlite import ir
from numba import extending, njit, types

_jit: Any = njit  # whose type stubs know only a few of its options
intrinsic: Any = extending.intrinsic
F = TypeVar("F", bound=Callable)
Numba = Any
"""What numba hands to the writer of an intrinsic: a context, LLVM's builder, values, types."""

EXACT = frozenset({"contract"})
"""a * b + c in one rounding, and nothing more: NaN and infinity are seen, (x + c) - c is done."""
SUMS = EXACT | {"reassoc"}
"""Sums in any order, so that a loop may add eight numbers at a time."""


_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_HAS_CONTROL_WORD = platform.machine().lower() in ("x86_64", "amd64")
_FLUSH = 0x8040  # results to zero, and operands (Intel's manual, volume 1, section 10.2.3)
_WORD = ir.IntType(32)


def inlined(function: F) -> F:
    """Compile a function into all that call it."""
    return _jit(forceinline=True, **_INNER, **_options(EXACT))(function)


def called(function: F) -> F:
    """Compile one with loops of its own, that only compiled functions call."""
    return _jit(**_INNER, **_options(EXACT))(function)


def summing(function: F) -> F:
    """Compile one whose loops add numbers up, in any order, into all that call it."""
    return _jit(forceinline=True, **_INNER, **_options(SUMS))(function)


def summing_apart(function: F) -> F:
    """Compile one whose loops add numbers up, in any order, that only compiled functions call."""
    return _jit(**_INNER, **_options(SUMS))(function)


def compiled(function: Callable) -> Callable:
    """Compile an entry point at its first call; keep the result on disk where a folder allows.

    numba takes it for the same as long as the entry point's file is the same. It must compile anew
    when any file has changed whose functions it may call, or it would run yesterday's code: the
    name under which it is kept tells them all.
    """
    function.__qualname__ += f"-{source_stamp(Path(function.__code__.co_filename).parent)}"
    try:
        return _jit(cache=True, no_cfunc_wrapper=True, **_options(EXACT))(function)
    except RuntimeError:  # numba found no folder that it may write to
        return _jit(no_cfunc_wrapper=True, **_options(EXACT))(function)


@intrinsic
def disjoint(_context: Numba) -> Numba:
    """Promise that no two arrays among a function's arguments overlap; ask for whole registers.

    Called in the body of a compiled function. Without the promise, loops that write to one array
    and read another would begin by comparing the addresses of every pair. Without the request,
    LLVM uses half of the width of the registers of many a processor with AVX-512. llvmlite writes
    any text among a function's attributes, but its own `add` knows no attribute with a value.
    """

    def emit(context: Numba, builder: Numba, _signature: Numba, _arguments: Numba) -> Numba:
        numbers = ir.DoubleType().as_pointer(), ir.FloatType().as_pointer()
        for argument in builder.function.args:
            if argument.type in numbers:
                argument.add_attribute("noalias")
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), emit


@cache
def source_stamp(folder: Path) -> str:
    """Return what changes with the files of a folder, and with this one's."""
    files = sorted(f for each in {folder, Path(__file__).parent} for f in each.glob("*.py"))
    stamps = [(f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files]
    return sha256(repr(stamps).encode()).hexdigest()[:12]


def _options(flags: frozenset[str]) -> dict[str, bool | str | set[str]]:
    return {"nogil": True, "fastmath": set(flags), "error_model": "numpy"}


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
