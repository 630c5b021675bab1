"""Settings of the tests and of the examples in docstrings."""

from __future__ import annotations

import pytest

QUICK = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
"""Options of XLA: its older generator of loops, one part a program. A third of the time."""


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation(request):
    """Compile quickly: of most tests it takes most of the time.

    A module that computes for longer than it compiles, or to the last digit, says OPTIMISED = True.
    """
    if getattr(getattr(request, "module", None), "OPTIMISED", False):
        yield
        return
    import jax
    from jax._src import compiler  # to the public, XLA's options are those of one function

    options = compiler.get_compile_options

    def quick(*args, env_options_overrides=None, **settings):
        given = QUICK | (env_options_overrides or {})
        return options(*args, env_options_overrides=given, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "get_compile_options", quick)
        jax.config.update("jax_disable_most_optimizations", True)
        yield
        jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module", autouse=True)
def _room_for_programs():
    """Thousands of programs compiled in one process would crash it."""
    yield
    from bayesprop.numerics.compiled import forget_when_crowded

    forget_when_crowded()
