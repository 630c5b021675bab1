"""Settings of the tests and of the examples in docstrings."""

from __future__ import annotations

import gc
import os
import sys

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


@pytest.fixture(scope="module", autouse=True)
def _programs_end_with_their_module():
    """Forget compiled programs: few serve a second module, and all take memory."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
        gc.collect()
