"""All that we use of numba and llvmlite without their promise: which, why, what if it goes.

No other module imports `numba.core` or reads a private name of either; `tests/test_layout.py` says
so. Everything else rests on `numba.extending` and `llvmlite.ir`, which are public.

`_nrt`
    No counting of references to arrays, which is half of the time of a small network. Gone: numba
    raises "Unrecognized options" at the first call; empty `NO_REFERENCE_COUNTS`.
`_cache._cache_file`, its `_source_stamp` and `_load_index`
    An entry point is compiled anew when any file that it may be made of has changed; whether it
    will be is known before. Gone: AttributeError at import; let `recompile_when` do nothing, empty
    `__pycache__` by hand, and let nothing be still to be kept.
`_cache.load_overload`, `_load_overload`, `_guard_against_spurious_io_errors`
    Code from disk runs without the tables of functions that compiling needs, whose import takes as
    long as a first prediction. Gone: AttributeError; let `load_lean` do nothing.
`infer_global`, `ConcreteTemplate`, `signature`
    The operators + - * / < > of lanes. Gone: ImportError; `numba.extending.overload`.
`Conversion`
    A float where lanes are expected spreads to all of them. Gone: ImportError; `spread8` by hand.
`cgutils.get_or_insert_function`
    Calls of LLVM's own functions. Gone: ImportError; `llvmlite.ir.Function`, once a module.
`AttributeTemplate`, `infer_getattr`
    The fields of a named tuple behind an address. Gone: ImportError; pass the tuples themselves,
    for a fifth more of the time of a first fit.
`JITCodeLibrary` and its `finalize`, `add_linking_library`, `_linking_libraries`, `_final_module`,
`_optimize_functions`, `_optimize_final_module`, `_finalize_dynamic_globals`, `_finalized`,
`_codegen._data_layout`, `_codegen._module_pass_manager`, `enable_object_caching`; `Compiler`, the
names of its passes, `get_executable`, `_dynfunc.make_function`
    A function that only compiled functions call is neither optimised nor made machine code by
    itself, but with each of its callers, which they are in any case; an entry point is optimised
    once, with all that it calls: half of the time of a first fit. Gone, or a numba newer than
    KNOWN: numba's own `Compiler` does it, to the same bits.
`LoadInstr.descr`, `IRBuilder._insert`
    The coefficients of polynomials are read where they are used (`lanes.polynomial`). Gone:
    AttributeError at the first call; `builder.load`, slower.
"""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.binding import Linkage  # pyright: ignore[reportAttributeAccessIssue]
from numba import _dynfunc, types, version_info  # pyright: ignore[reportAttributeAccessIssue]
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.typeconv.castgraph import Conversion
from numba.core.typing.templates import (
    AttributeTemplate,
    ConcreteTemplate,
    infer_getattr,
    infer_global,
    signature,
)

KNOWN = (0, 68)
"""The newest numba whose libraries of code these have been tried with."""

NO_REFERENCE_COUNTS: dict[str, Any] = {"_nrt": False}
"""Options of a compiled function that allocates nothing, and whose caller holds its arrays."""

SAFE: Any = Conversion.safe
"""What `can_convert_from` of a numba type returns for a type that it accepts."""


def recompile_when(entry: Any, stamp: tuple) -> None:
    """Take compiled code from disk only if it was written under the same stamp."""
    entry._cache._cache_file._source_stamp = stamp


def is_still_to_be_kept(entry: Any) -> bool:
    """Whether an entry point is neither compiled nor on disk, and will be there once it is.

    False of a plain function.
    """
    kept = getattr(getattr(entry, "_cache", None), "_cache_file", None)
    return kept is not None and not entry.signatures and not kept._load_index()


def load_lean(entry: Any) -> None:
    """Take compiled code from disk without what is needed to compile more."""
    cache = entry._cache

    def load(sig: Any, target_context: Any) -> Any:
        with cache._guard_against_spurious_io_errors():
            return cache._load_overload(sig, target_context)

    cache.load_overload = load


def type_operator(op: Any, result_of: dict[types.Type, types.Type]) -> None:
    """Let numba know `op` on two equal types, the keys, and the type of its result.

    On two numbers too, as numba has it, which would look for arrays first.
    """
    to_boolean = op in (operator.lt, operator.gt)
    of_integers = types.float64 if op is operator.truediv else types.int64
    of_numbers = {types.float64: types.float64, types.int64: of_integers}
    if to_boolean:
        of_numbers = dict.fromkeys(of_numbers, types.boolean)
    equal = {(k, k): signature(to, k, k) for k, to in {**result_of, **of_numbers}.items()}

    class Template(ConcreteTemplate):
        cases = [equal[kind, kind] for kind in result_of]  # noqa: RUF012
        metadata = {"target": "cpu"}  # noqa: RUF012  tried before all that are for any target

        def apply(self, args: tuple, kws: dict) -> Any:
            """Return None where no argument is of these types: two numbers would be converted."""
            if args in equal:
                return equal[args]
            return super().apply(args, kws) if result_of.keys() & args else None

    register: Any = infer_global
    register(op)(Template)


def type_attributes(kind: type[types.Type], type_of: Callable) -> None:
    """Let numba know the type of an attribute, `type_of(type, name)`, or None."""

    class Template(AttributeTemplate):
        key = kind

        def generic_resolve(self, value: Any, attr: str) -> Any:
            return type_of(value, attr)

    register: Any = infer_getattr
    register(Template)


def intrinsic_function(builder: Any, kind: ir.FunctionType, name: str) -> Any:
    """Return one of LLVM's own functions, declared in the module at hand."""
    return cgutils.get_or_insert_function(builder.module, kind, name)


class _VolatileLoad(ir.LoadInstr):
    def descr(self, buf: list[str]) -> None:
        text: list[str] = []
        super().descr(text)
        buf.append("".join(text).replace("load", "load volatile", 1))


def volatile_load(builder: Any, address: Any) -> Any:
    """Load in a way that the optimiser neither moves nor foresees."""
    load = _VolatileLoad(builder.block, address)
    builder._insert(load)
    return load


class _Linked(JITCodeLibrary):
    """LLVM code as it was emitted, for those that link it, inline it and optimise the whole."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Leave it to an entry point to link all that it reaches."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"  # as numba would do to a copy for each caller
        self._finalize_dynamic_globals()
        self._finalized = True


class _Whole(JITCodeLibrary):
    """LLVM code that is optimised once, with all that it links; vectors are there already."""

    _optimize_functions = _Linked._optimize_functions

    def add_linking_library(self, library: Any) -> None:
        """Add it and what it calls."""
        if library not in self._linking_libraries:
            super().add_linking_library(library)
            for each in library._linking_libraries:
                self.add_linking_library(each)

    def _optimize_final_module(self) -> None:
        manager, passes = self._codegen._module_pass_manager(opt=1, loop_vectorize=False)
        manager.run(self._final_module, passes)


class OnlyLinked(Compiler):
    """Compiles a function that only compiled functions call."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
        library = library or _Linked(targetctx.codegen(), "linked")
        super().__init__(typingctx, targetctx, library, *rest)
        self.state.targetctx.get_executable = _unexecutable  # of a copy, for this function alone

    def define_pipelines(self) -> list[Any]:
        """Leave out the passes for what these functions do not have."""
        (pipeline,) = super().define_pipelines()
        pipeline.passes = [one for one in pipeline.passes if one[0].__name__ not in _UNNEEDED]
        pipeline.finalize()
        return [pipeline]


_UNNEEDED = frozenset(
    (
        "WithLifting",
        "InlineClosureLikes",
        "RewriteDynamicRaises",
        "MakeFunctionToJitFunction",
        "InlineInlinables",
        "FindLiterallyCalls",
        "LiteralUnroll",
        "LiteralPropagationSubPipelinePass",
        "InlineOverloads",
        "NopythonRewrites",
        "NoPythonSupportedFeatureValidation",
    )
)


def _unexecutable(library: Any, fndesc: Any, env: Any) -> Any:
    """Return what stands for a compiled function where nothing calls it from Python."""
    name = fndesc.qualname.split(".")[-1]
    return _dynfunc.make_function(fndesc.lookup_module(), name, "", 0, env, (library,))


class Entry(Compiler):
    """Compiles an entry point."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
        if library is None:
            library = _Whole(targetctx.codegen(), "whole")
            library.enable_object_caching()
        super().__init__(typingctx, targetctx, library, *rest)

    def compile_extra(self, func: Any) -> Any:
        """Compile without looking for garbage on the way: a fifteenth of the time."""
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collects:
                gc.enable()


def _compiled_by(compiler: type[Compiler]) -> dict[str, Any]:
    return {"pipeline_class": compiler} if version_info.short <= KNOWN else {}


ONLY_LINKED: dict[str, Any] = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    **_compiled_by(OnlyLinked),
}
"""Options of a compiled function that only compiled functions call."""

ENTRY: dict[str, Any] = {"no_cfunc_wrapper": True, **_compiled_by(Entry)}
"""Options of one that Python calls."""
