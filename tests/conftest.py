"""Settings for the whole suite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def _strict_shapes():
    """Let (n,) - (n, 1) be an error in JAX code, as in a careful user's session."""
    import jax

    jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation(request):
    """Compile quickly: of most tests it takes most of the time.

    A module that computes for longer than it compiles, or to the last digit, says OPTIMISED = True.
    """
    import jax

    optimised = getattr(request.module, "OPTIMISED", False)
    jax.config.update("jax_disable_most_optimizations", not optimised)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module", autouse=True)
def _room_for_programs():
    """Thousands of programs compiled in one process would crash it."""
    yield
    from bayesprop.numerics.compiled import forget_when_crowded

    forget_when_crowded()


@pytest.fixture(scope="session")
def uci_folder() -> Path:
    """Folder of the UCI sets; tests that need it are skipped where there is none."""
    for candidate in (os.environ.get("BAYESPROP_DATA"), REPOSITORY.parent / "shared" / "data"):
        if candidate and (Path(candidate) / "uci" / "yacht.npz").exists():
            return Path(candidate)
    pytest.skip("no UCI data: set BAYESPROP_DATA to the folder that holds uci/")
