"""What is asked of the machine and of the compiler: threads, processes, memory, vectors, float64.

JAX and Polars compute in threads, which `os.fork` does not copy: a forked process that would wait
for ever is refused. Linux names the threads that run; elsewhere only what this package itself began
is known.

Every program that JAX compiles on a CPU takes some memory maps, a fit of a new shape several
hundred. Linux grants a process 65 530 by default (`vm.max_map_count`); beyond that the compiler
dies, and the process with it. A long search over layer sizes gets there in an hour.
"""

from __future__ import annotations

import functools
import gc
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from threading import Lock
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import DTypeLike

if TYPE_CHECKING:
    from jaxtyping import Array, PRNGKeyArray
    from threadpoolctl import LibController


_THREADS = {"JAX": "tf_", "Polars": "polars-0"}
"""How the names of a library's threads begin, once it has computed."""
_begun, _left_behind = set[str](), set[str]()
P = ParamSpec("P")
R = TypeVar("R")

CACHE_LINE = 64  # bytes, and the widest register

WIDE_VECTORS = {"xla_cpu_prefer_vector_width": 512}
"""For `jax.jit(compiler_options=...)` of what stays in the cache: XLA's own 256 bits are half of
what many a core can do. What waits for the memory gains nothing."""

_VALUES_AT_ONCE = 4_000_000
_MAPS = Path("/proc/self/maps")
_MOST_MAPS = Path("/proc/sys/vm/max_map_count")
_MEMORY = Path("/proc/meminfo")
_MOST_MEMORY = Path("/sys/fs/cgroup/memory.max")
_last_count = [-math.inf]
_of_blas = Lock()
_holders: list[list[tuple[LibController, int]]] = []
"""Blocks that hold the process to one BLAS thread, each with the threads that there were before."""
_PATIENCE = 30.0
"""Seconds that a fit waits at its end: to compile takes one or two."""


def check_not_forked(library: str) -> None:
    """Raise RuntimeError in a process whose parent had begun to use a library before the fork."""
    if library in _left_behind:
        raise RuntimeError(
            f"{library} cannot be used here, because this process was forked from one where "
            f"{library} had computed already, and would hang: start worker processes by 'spawn' or "
            "'forkserver' (gunicorn: without --preload), or load and use models after the fork only"
        )
    _begun.add(library)


def random_key(seed: int | Array | np.integer) -> PRNGKeyArray:
    """Return JAX's key of a seed; RuntimeError as `check_not_forked` raises it."""
    import jax

    check_not_forked("JAX")
    return jax.random.key(seed)


def _look() -> None:
    """Note the libraries whose threads run."""
    for task in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # the thread has ended
            name = task.read_text()
            _begun.update(library for library, start in _THREADS.items() if name.startswith(start))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_look, after_in_child=lambda: _left_behind.update(_begun))


def forget_when_crowded(share: float = 0.5, every: float = 1.0) -> bool:
    """Let JAX forget its compiled programs when they take too many memory maps; say whether.

    share
        Of the maps that this process may have. Programs in use stay; the others are compiled again
        when they are needed. Does nothing where the system does not count maps, or JAX was never
        imported.
    every
        Seconds between two counts, which take milliseconds: a second is longer than a row of a
        stream takes, and too short to compile as many programs as there are maps for.
    """
    now = time.monotonic()
    if "jax" not in sys.modules or now - _last_count[0] < every:
        return False
    _last_count[0] = now
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


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> float:
    """Bytes that this process can still have; infinite where the system does not say."""
    try:
        free = re.search(r"MemAvailable:\s+(\d+)", _MEMORY.read_text())
        most = math.inf if free is None else 1024.0 * int(free[1])
    except OSError:
        most = math.inf
    try:
        return min(most, float(_MOST_MEMORY.read_text()))
    except (OSError, ValueError):  # "max"
        return most


def is_core_idle() -> bool:
    """Whether one of these cores had nothing to do in the last minute; False where nobody knows."""
    try:
        return n_cores() - os.getloadavg()[0] >= 1.0
    except (AttributeError, OSError):
        return False


def side_by_side(function: Callable[..., R], *arguments: Iterable) -> list[R]:
    """Map a function over arguments in threads, as many as there are cores."""
    with ThreadPoolExecutor(n_cores()) as pool:
        return list(pool.map(function, *arguments))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the products of matrices to one thread.

    Matrices of a thousand rows gain nothing from more, and lose where a core is busy. The limit is
    the whole process's, from the first block that asks for it to the end of the last. Not by
    `threadpool_limits`: it ends in no other thread than it began in, and the last block may.
    """
    from threadpoolctl import ThreadpoolController

    with _of_blas:
        before = _holders[0] if _holders else []
        if not _holders:
            libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            before = [(one, one.num_threads) for one in libraries]
            _set_threads([(one, 1) for one in libraries])
        _holders.append(before)
    try:
        yield
    finally:
        with _of_blas:
            before = _holders.pop()
            if not _holders:
                _set_threads(before)


def _set_threads(numbers: list[tuple[LibController, int]]) -> None:
    """Set the number of threads of libraries, whatever thread set it before."""
    for library, number in numbers:
        forget = getattr(library, "clear_controlling_thread", lambda **_: None)
        forget(force=True)
        library.set_num_threads(number)
        forget(force=True)


def chunks(n_rows: int, values_a_row: int) -> list[slice]:
    """Slices of rows that keep temporary arrays within some 32 MB."""
    step = max(1, _VALUES_AT_ONCE // max(values_a_row, 1))
    return [slice(first, first + step) for first in range(0, n_rows, step)]


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with 64-bit JAX types, and leave the caller's setting as it was."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        import jax

        check_not_forked("JAX")
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return wrapped


def aligned_zeros(size: int, dtype: DTypeLike = np.float64) -> np.ndarray:
    """Return zeros that begin with a cache line: a register that spans two costs twice."""
    n_bytes = size * np.dtype(dtype).itemsize
    room = np.zeros(n_bytes + CACHE_LINE, np.uint8)
    start = -room.__array_interface__["data"][0] % CACHE_LINE
    return room[start : start + n_bytes].view(dtype)


def aligned_parts(*sizes: int) -> list[np.ndarray]:
    """Return zeros of float32 in one allocation; every part begins with a cache line."""
    ends = [*accumulate(round_up(size, CACHE_LINE // 4) for size in sizes)]
    room = aligned_zeros(ends[-1], np.float32)
    return [room[at : at + size] for at, size in zip([0, *ends], sizes, strict=False)]


def round_up(n: int, step: int) -> int:
    """Return the least multiple of `step` that is n or more."""
    return -(-n // step) * step


@contextmanager
def compiled_beside(entry: Any, rehearsal: str) -> Iterator[None]:
    """Where an entry point is still to be compiled, let an idle core run a function meanwhile.

    What that compiles is kept on disk, where this process finds it, which waits for it; where it
    fails, or nothing can be kept, this one compiles in its turn.

    rehearsal
        "module:function", of no arguments.
    """
    process = None
    if _is_still_to_be_kept(entry) and is_core_idle():
        process = _started(rehearsal)
    try:
        yield
    except BaseException:
        if process is not None:
            process.kill()
        raise
    finally:
        if process is not None:
            _awaited(process)


def _is_still_to_be_kept(entry: Any) -> bool:
    """Whether an entry point is neither compiled nor on disk, and will be there once it is.

    False of a plain function.
    """
    folder = getattr(getattr(entry, "stats", None), "cache_path", None)
    if folder is None or entry.signatures:
        return False
    return not any(Path(folder).glob(f"*.{entry.py_func.__qualname__}-*.nbi"))


def _awaited(process: Popen) -> None:
    """Wait for a process, but not for one that hangs."""
    try:
        process.wait(_PATIENCE)
    except TimeoutExpired:
        process.kill()
        process.wait()


def _started(rehearsal: str) -> Popen | None:
    """Start a process that looks for modules where this one does; None where there can be none."""
    module, _, name = rehearsal.partition(":")
    code = f"from {module} import {name}; {name}()"
    where = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    quiet: dict[str, Any] = {"stdin": DEVNULL, "stdout": DEVNULL, "stderr": DEVNULL}
    try:
        return Popen([sys.executable or "", "-c", code], env=where, **quiet)
    except OSError:  # an interpreter within another program has no executable
        return None
