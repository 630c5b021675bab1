"""Libraries that a forked process cannot use: refused at once, where they would wait for ever.

JAX and Polars compute in threads, which `os.fork` does not copy. Linux names the threads that run;
elsewhere only what this package itself began is known.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Array, PRNGKeyArray

_THREADS = {"JAX": "tf_", "Polars": "polars-0"}
"""How the names of a library's threads begin, once it has computed."""
_begun, _left_behind = set[str](), set[str]()


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
