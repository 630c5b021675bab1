"""What is predicted of some rows, numbers or classes: selected, joined, drawn from, shown."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from functools import cache
from typing import Any, Self

import numpy as np

BY_MEMBER, OF_ALL_ROWS = {"axis": 1}, {"axis": None}
"""Metadata of fields of a prediction: whether their first axis runs over members and the second
over rows, or they are the same for all rows."""


@dataclass(frozen=True, repr=False)
class Prediction(ABC):
    """A prediction that draws observations, and shows itself in a notebook.

    Every field is an array whose first axis runs over rows, unless its metadata say otherwise, or
    a prediction or a map of so many rows.
    """

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self, rows: Any) -> Self:
        """Select rows (a slice, mask or index array)."""
        return self._map(lambda part, how: part[:, rows] if how.get("axis") else part[rows])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Put the rows of several predictions of one kind one after another."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            *(_joined([getattr(part, one.name) for part in parts], one) for one in fields(cls))
        )

    def _map(self, act: Callable[[Any, Mapping[str, Any]], Any]) -> Self:
        """Return what `act` makes of every field and its metadata."""
        parts = ((getattr(self, name), how) for name, how in _fields(type(self)))
        return type(self)(*(part if how is OF_ALL_ROWS else act(part, how) for part, how in parts))

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> Any:
        """Draw n new observations for every row, independently over rows; (n, rows[, o])."""

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: Any = None) -> Any:
        """Draw new observations, independently over rows: (*size, n[, o]); None: one, (n[, o]).

        random_state
            A number, a `numpy.random.Generator`, or None for other draws at every call.

        ValueError where the size is none of draws.
        """
        shape = _shape_of(size)
        draws = self.sample(np.random.default_rng(random_state), math.prod(shape))
        return draws.reshape(*shape, *draws.shape[1:])

    def plot(self, ax: Any = None) -> Any:
        """Draw a few rows by their densities, many by their intervals, classes by bars; the Axes.

        ax
            Of matplotlib, to draw in. None: new ones.
        """
        from bayesprop.distributions import plots as predictive_plots

        return predictive_plots.plot(self, ax)

    def __repr__(self) -> str:
        from bayesprop.distributions import plots as predictive_plots

        return predictive_plots.line(self)

    def _repr_html_(self) -> str:
        from bayesprop.distributions import plots as predictive_plots

        return predictive_plots.table(self)


@cache
def _fields(kind: type[Prediction]) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Return the names of the fields of a prediction and their metadata."""
    metadata = {one.name: dict(one.metadata) for one in fields(kind)}
    return tuple((n, OF_ALL_ROWS if how == OF_ALL_ROWS else how) for n, how in metadata.items())


def check_coverage(coverage: Any) -> None:
    """Raise ValueError unless coverage is between 0 and 1."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}")


def _shape_of(size: Any) -> tuple[int, ...]:
    """Return the axes of draws."""
    axes = () if size is None else size if isinstance(size, tuple | list) else (size,)
    if not all(isinstance(n, int | np.integer) and n >= 0 for n in axes):
        raise ValueError(f"size must be a whole number of draws, or a tuple of them, got {size!r}")
    return tuple(map(int, axes))


def _joined(parts: Sequence[Any], of: Field) -> Any:
    """Put a field of several predictions together."""
    if of.metadata == OF_ALL_ROWS:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=of.metadata.get("axis", 0))
    return type(parts[0]).joined(parts)
