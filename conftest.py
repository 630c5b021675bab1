"""Settings of the tests and of the examples in docstrings."""

from __future__ import annotations

import os

import pytest

QUICK = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
"""Options of XLA: its older generator of loops, one part a program. A third of the time."""

# Set before anything imports JAX; a flag of the caller's counts.
os.environ["XLA_FLAGS"] = f"{QUICK} {os.environ.get('XLA_FLAGS', '')}"
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "false")  # no test leans on an earlier one
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of every worker: more would wait for cores


@pytest.fixture(scope="module", autouse=True)
def _optimised_programs(request):
    """Compile with all optimisations where a module says OPTIMISED = True: it computes for long.

    Of most tests, compiling takes most of the time.
    """
    if not getattr(getattr(request, "module", None), "OPTIMISED", False):
        yield
        return
    import jax

    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(autouse=True)
def _room_for_programs():
    """Forget compiled programs when there are many: they take a third of a megabyte a memory map.

    Thousands would crash the process; a hundred tests' worth is a gigabyte.
    """
    yield
    from bayesprop.numerics.compiled import forget_when_crowded

    forget_when_crowded(share=0.045)
