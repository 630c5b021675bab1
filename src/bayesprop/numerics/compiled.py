"""What is asked of the compiler, and how many of its programs one process can hold.

Every program that JAX compiles on a CPU takes some memory maps, a fit of a new shape several
hundred. Linux grants a process 65 530 by default (`vm.max_map_count`); beyond that the compiler
dies, and the process with it. A long search over layer sizes gets there in an hour.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

WIDE_VECTORS = {"xla_cpu_prefer_vector_width": 512}
"""For `jax.jit(compiler_options=...)` of what stays in the cache: XLA's own 256 bits are half of
what many a core can do. What waits for the memory gains nothing."""

_MAPS = Path("/proc/self/maps")
_MOST_MAPS = Path("/proc/sys/vm/max_map_count")


def forget_when_crowded(share: float = 0.5) -> bool:
    """Let JAX forget its compiled programs when they take too many memory maps; say whether.

    share
        Of the maps that this process may have. Programs in use stay; the others are compiled again
        when they are needed. Does nothing where the system does not count maps, or JAX was never
        imported.
    """
    if "jax" not in sys.modules:
        return False
    try:
        most = int(_MOST_MAPS.read_text())
        with _MAPS.open("rb") as maps:
            n_maps = sum(1 for _ in maps)
    except OSError:
        return False
    if n_maps < share * most:
        return False
    sys.modules["jax"].clear_caches()
    gc.collect()
    return True
