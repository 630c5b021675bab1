"""The questions that scipy's distributions answer, under scipy's names, of any prediction.

`mean` and `std` are arrays here, not methods, and `interval` and `quantile` put their bounds last.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

Values = Float[np.ndarray, "..."]


class Drawn(ABC):
    """A prediction that draws observations, and shows itself in a notebook."""

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
        from bayesprop.model import predictive_plots

        return predictive_plots.plot(self, ax)

    def __repr__(self) -> str:
        from bayesprop.model import predictive_plots

        return predictive_plots.line(self)

    def _repr_html_(self) -> str:
        from bayesprop.model import predictive_plots

        return predictive_plots.table(self)


def _shape_of(size: Any) -> tuple[int, ...]:
    """Return the axes of draws."""
    axes = () if size is None else size if isinstance(size, tuple | list) else (size,)
    if not all(isinstance(n, int | np.integer) and n >= 0 for n in axes):
        raise ValueError(f"size must be a whole number of draws, or a tuple of them, got {size!r}")
    return tuple(map(int, axes))


class AskedByScipyNames(Drawn):
    """Densities, probabilities, quantiles and draws of a predicted number, row by row.

    Values `y` have the shape of `mean`, with any axes in front of it, or are one number.
    """

    step: ClassVar[float] = 0.0
    """Distance of neighbouring values: 1 for counts, 0 where values lie densely."""

    @abstractmethod
    def log_prob(self, y: Any) -> Values:
        """Log density of values, of counts log probability."""

    @abstractmethod
    def quantile(self, level: Any) -> Values:
        """Value that an observation stays below with a probability; levels last."""

    def logpdf(self, y: Any) -> Values:
        """Log density, nats; TypeError for counts, which have `logpmf`."""
        if self.step:
            raise TypeError("a count has probabilities and no density: ask for logpmf or pmf")
        return self.log_prob(y)

    def pdf(self, y: Any) -> Values:
        """Density, 1/y; TypeError for counts, which have `pmf`."""
        return np.exp(self.logpdf(y))

    def logpmf(self, k: Any) -> Values:
        """Log probability of counts, nats; TypeError where values lie densely."""
        if not self.step:
            raise TypeError("such a value has a density and no probability: ask for logpdf or pdf")
        return self.log_prob(k)

    def pmf(self, k: Any) -> Values:
        """Probability of counts; TypeError where values lie densely."""
        return np.exp(self.logpmf(k))

    def ppf(self, q: Any) -> Values:
        """Return quantiles, the axes of the levels first, where `cdf` takes those of its values."""
        quantiles, n_levels = self.quantile(q), np.ndim(q)
        last = tuple(range(quantiles.ndim - n_levels, quantiles.ndim))
        return np.moveaxis(quantiles, last, tuple(range(n_levels)))
