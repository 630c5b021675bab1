"""A first fit compiles on two cores: what it ends with in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Any

from bayesprop.numerics.machine import is_core_idle

_PATIENCE = 30.0
"""Seconds that a fit waits at its end: to compile takes one or two."""


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
