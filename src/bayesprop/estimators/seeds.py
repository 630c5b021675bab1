"""Random numbers of a seed, made when they are first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from sklearn.utils import check_random_state


class LazyRandomState:
    """What `check_random_state` gives for a seed, made when something is drawn.

    NumPy takes 70 µs to make it, longer than many a method learns a row, and most draw nothing for
    one.
    """

    def __init__(self, seed: Any) -> None:
        self._seed = seed

    @cached_property
    def _made(self) -> Any:
        return check_random_state(self._seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)
