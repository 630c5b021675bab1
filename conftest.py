"""Settings of the tests and of the examples in docstrings."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation(request):
    """Compile quickly: of most tests it takes most of the time.

    A module that computes for longer than it compiles, or to the last digit, says OPTIMISED = True.
    """
    import jax

    optimised = getattr(getattr(request, "module", None), "OPTIMISED", False)
    jax.config.update("jax_disable_most_optimizations", not optimised)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module", autouse=True)
def _room_for_programs():
    """Thousands of programs compiled in one process would crash it."""
    yield
    from bayesprop.numerics.compiled import forget_when_crowded

    forget_when_crowded()
