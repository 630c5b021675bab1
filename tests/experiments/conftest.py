"""Settings of the tests of the experiments."""

from __future__ import annotations

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation():
    """Compile quickly: every experiment is a configuration of its own, tiny, and run once."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
