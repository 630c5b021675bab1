"""Settings of the tests and of the examples in docstrings."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path

import pytest

QUICK = "--xla_cpu_parallel_codegen_split_count=1"
"""An option of XLA: one part a program."""

# Set before anything imports JAX; a flag of the caller's counts.
os.environ["XLA_FLAGS"] = f"{QUICK} {os.environ.get('XLA_FLAGS', '')}"
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "false")  # no test leans on an earlier one
for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # of every worker: more would wait for cores

STATM, PAGE = Path("/proc/self/statm"), os.sysconf("SC_PAGE_SIZE")
_most_memory = 1.1e9


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
    """Let JAX forget its compiled programs when they have grown to a quarter of a gigabyte.

    The libraries alone take up to one. What was freed goes back to the system, so that two
    workers fit into 3 GB. Does nothing where the system is no Linux.
    """
    yield
    global _most_memory
    if not STATM.exists() or memory() < _most_memory:
        return
    import jax

    jax.clear_caches()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    _most_memory = max(_most_memory, memory() + 0.25e9)


def memory() -> int:
    """How much of the machine's memory this process holds, in bytes."""
    return int(STATM.read_text().split()[1]) * PAGE
