"""All that a prediction needs: method, task, encoding of inputs, and what was learnt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from jaxtyping import Float

from bayesprop.distributions.gaussian_copula import (
    COMPLETIONS,
    NO_INPUT_MODEL,
    GaussianCopula,
    KnownInputs,
)
from bayesprop.distributions.imputed import one_of_each, over_gaps
from bayesprop.model.method import MOST_ROWS, Learned, Method
from bayesprop.model.progress import current
from bayesprop.model.task import Encoding, Numbers, Task


@dataclass(frozen=True, eq=False)
class Fitted:
    """Everything that a prediction needs; rows in the original units, checked for shape already.

    inputs
        How the columns go together; None where rows with gaps are refused.
    """

    method: Method
    task: Task
    encoding: Encoding
    learned: Learned
    inputs: KnownInputs | None

    @property
    def n_inputs(self) -> int:
        """Number of columns."""
        return len(self.encoding.scaler.mean)

    def encoded(self, X: Float[np.ndarray, "n d"], first_row: int = 0) -> np.ndarray:
        """Standardise rows."""
        return self.encoding.encode(X, self.method.furthest_input, first_row)

    def parts(self, X: Float[np.ndarray, "n d"]) -> Iterator[Any]:
        """Predict some rows at a time, in the units of y or by its labels."""
        has_gaps = bool(np.isnan(X).any())
        most = min(MOST_ROWS, self.method.rows_at_once) // (COMPLETIONS if has_gaps else 1)
        step = max(1, min(most, len(X)))
        for first in range(0, len(X), step):
            some = X[first : first + step]
            x = self.encoded(some, first)
            ask: Callable[..., Any] = self.method.predict
            of_some = self._over_gaps(ask, some) if has_gaps else ask(self.learned.state, x)
            if step < len(X):
                current().report(min(first + step, len(X)), len(X), "predictions")
            yield self.task.of_rows(some).decode(of_some)

    def _over_gaps(self, ask: Callable[[Any, np.ndarray], Any], X: np.ndarray) -> Any:
        """Ask the method about rows in the original units, some with gaps."""
        state, standardised = self.learned.state, self.encoding.standardised
        return over_gaps(lambda rows: ask(state, standardised(rows)), X, self._known_inputs)

    def _completions(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "m d"]:
        """Return standardised completions of rows, those of a row after one another."""
        d = X.shape[1]
        completions = self._known_inputs.of_columns(d).completions(X)  # the others are targets
        return self.encoding.standardised(completions.reshape(-1, d))

    @property
    def _known_inputs(self) -> GaussianCopula:
        if self.inputs is None:
            raise ValueError(NO_INPUT_MODEL)
        return self.inputs.model

    def predict(self, X: Float[np.ndarray, "n d"]) -> Any:
        """Predictive distribution of every row."""
        parts = list(self.parts(X))
        return type(parts[0]).joined(parts)

    def filled(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return rows with their gaps filled in one way of many."""
        gap = np.isnan(X).any(axis=1)
        if not gap.any():
            return X
        filled = X.copy()
        filled[gap] = self._known_inputs.of_columns(X.shape[1]).completions(X[gap], 1)[:, 0]
        return filled

    def features(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n o k"]:
        """Return what has the posterior covariances of functions, of rows with gaps their mean."""
        ask, x = cast(Any, self.method).features, self.encoded(X)
        has_gaps = np.isnan(x).any()
        return self._over_gaps(ask, X) if has_gaps else ask(self.learned.state, x)

    def draw(
        self, X: np.ndarray, rng: np.random.RandomState, n: int, *, include_noise: bool
    ) -> Float[np.ndarray, "s n o"]:
        """Draw functions jointly over all rows, or observations, in the units of y."""
        method, task = cast(Any, self.method), cast(Numbers, self.task.of_rows(X))
        x = self.encoded(X)
        has_gaps = np.isnan(x).any()
        if has_gaps:
            x = self._completions(X)
        functions, observations = method.draw(self.learned.state, x, rng, n)
        drawn = observations() if include_noise else functions()
        if has_gaps:
            drawn = one_of_each(drawn, COMPLETIONS, rng.random_sample((n, len(X))))
        return task.decode_draws(drawn, include_noise=include_noise)
