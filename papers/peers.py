"""What a comparison asks of models, of this library and of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol


class Forecaster(Protocol):
    """What a comparison asks of a model."""

    def fit(self, X: Any, y: Any, /) -> Any:
        """Learn from rows, as a comparison has them, and their targets."""
        ...

    def predict_dist(self, X: Any, /) -> Any:
        """Predict new rows."""
        ...


@dataclass(frozen=True)
class Peer:
    """A model of another library.

    how
        Its settings, in words.
    make
        Builds it, unfitted, from a seed.
    package
        What has to be installed; None if the library depends on it anyway.
    has_density
        Whether its predictions have a log-likelihood.
    """

    name: str
    how: str
    make: Callable[[int], Forecaster]
    package: str | None = None
    has_density: bool = True

    @property
    def missing(self) -> str | None:
        """How to install what it needs; None if it is there."""
        if self.package is None or find_spec(self.package) is not None:
            return None
        return f"{self.name}: pip install {self.package}"


def by_name(peers: Iterable[Peer]) -> dict[str, Peer]:
    """Return them by their names."""
    return {peer.name: peer for peer in peers}
