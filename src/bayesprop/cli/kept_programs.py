"""Where compiled programs wait for the next command; light, because every command imports it."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from pathlib import Path

import platformdirs

_MOST_BYTES, _WORTH_KEEPING_SECONDS = 256 * 2**20, 0.2
_CPU = Path("/proc/cpuinfo")


def keep_programs() -> Path | None:
    """Let JAX find again, in the next process, what this one compiles; return where.

    A folder a kind of processor in the user's cache, up to 256 MiB, the least used going first.
    Returns None, and changes nothing, if JAX is imported already, a variable of its own,
    JAX_COMPILATION_CACHE_DIR or JAX_ENABLE_COMPILATION_CACHE, decides, or nothing can be written.
    """
    own = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE")
    if "jax" in sys.modules or any(name in os.environ for name in own):
        return None
    try:
        lines = _CPU.read_text().splitlines()
        facts = {line for line in lines if line.startswith(("flags", "Features"))}
    except OSError:
        facts = {platform.processor()}
    kind = hashlib.sha256("\n".join([platform.machine(), *sorted(facts)]).encode()).hexdigest()[:12]
    folder = platformdirs.user_cache_path("bayesprop") / f"programs-{kind}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(folder, os.W_OK | os.X_OK):
        return None
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(_MOST_BYTES))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(_WORTH_KEEPING_SECONDS))
    return folder
