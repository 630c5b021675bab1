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


@pytest.fixture(scope="session")
def uci_folder() -> Path:
    """Folder of the UCI sets; tests that need it are skipped where there is none."""
    for candidate in (os.environ.get("BAYESPROP_DATA"), REPOSITORY.parent / "shared" / "data"):
        if candidate and (Path(candidate) / "uci" / "yacht.npz").exists():
            return Path(candidate)
    pytest.skip("no UCI data: set BAYESPROP_DATA to the folder that holds uci/")
