"""What one process compiled, the next one finds, if there is a place for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CHILD = """
import sys
from bayesprop.cli import keep_programs
print(keep_programs())
import jax, jax.numpy as jnp
found = []
jax.monitoring.register_event_listener(lambda name, **_: found.append(name))
print(float(jax.jit(lambda x: jnp.tanh(x).sum() + 2.0)(jnp.zeros(3))))
print("/jax/compilation_cache/cache_hits" in found)
print(keep_programs())
"""


def child(cache, **settings) -> tuple[list[str], str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    env = kept | {"XDG_CACHE_HOME": str(cache), **settings}
    env["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    done = subprocess.run([sys.executable, "-c", CHILD], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


@pytest.mark.exhaustive
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="another cache than XDG's")
def test_programs_are_found_again_by_the_next_process(tmp_path):
    first, _ = child(tmp_path)
    (folder,) = (tmp_path / "bayesprop").iterdir()
    assert first == [str(folder), "2.0", "False", "None"]  # afterwards, JAX is imported
    assert folder.stat().st_mode & 0o077 == 0
    kept = list(folder.glob("*-cache"))
    assert kept
    assert child(tmp_path) == ([str(folder), "2.0", "True", "None"], "")
    for file in kept:
        file.write_bytes(b"damaged")
    assert child(tmp_path)[0][:3] == [str(folder), "2.0", "False"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="another cache than XDG's")
def test_without_a_place_or_a_wish_no_program_is_kept(tmp_path):
    (tmp_path / "file").touch()
    assert child(tmp_path / "file") == (["None", "2.0", "False", "None"], "")
    own = tmp_path / "own"
    assert child(tmp_path / "not", JAX_COMPILATION_CACHE_DIR=str(own))[0][0] == "None"
    assert own.exists()
    assert not (tmp_path / "not").exists()
