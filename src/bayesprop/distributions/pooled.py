"""One prediction of all rows from several models, each for its own rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from jaxtyping import Float, Int

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import OF_ALL_ROWS, Moments, Predictive

if TYPE_CHECKING:
    from bayesprop.distributions.mixture import MixturePredictive


@dataclass(frozen=True, repr=False, eq=False)
class PooledPredictive(Predictive):
    """Predictions, the rows of `parts` put in another order.

    Built by `pooled`: where models were fitted to folds, every row is predicted by the one that
    has not seen it, and rows with gaps are predicted in another way. Their predictions may be of
    several kinds.

    at
        Place of every row among those of all parts, one part after another, (n,).
    """

    parts: tuple[Predictive, ...] = field(metadata=OF_ALL_ROWS)
    at: Int[np.ndarray, " n"]

    def rescaled(self, shift: np.ndarray | float, scale: np.ndarray | float) -> Any:
        """Predict shift + scale y instead of y; numbers."""
        return _of_parts([part.rescaled(shift, scale) for part in self.parts], self.at)

    def target(self, k: int) -> Any:
        """Select one of several targets."""
        return _of_parts([part.target(k) for part in self.parts], self.at)

    @classmethod
    def joined(cls, parts: Sequence) -> Any:
        """Put the rows of several predictions one after another."""
        first = np.cumsum([0, *(sum(map(len, part.parts)) for part in parts[:-1])])
        at = np.concatenate([k + part.at for k, part in zip(first, parts, strict=True)])
        return _of_parts([one for part in parts for one in part.parts], at)

    def _cdfs(self, y: np.ndarray) -> np.ndarray:
        by_row = self._each(
            lambda part, at: part.cdfs(at.swapaxes(0, 1)).swapaxes(0, 1), y.swapaxes(0, 1)
        )
        return by_row.swapaxes(0, 1)

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""
        return self._each(lambda part: part.sample(rng, n).swapaxes(0, 1)).swapaxes(0, 1)

    @property
    def step(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Distance of neighbouring values: 1 for counts, 0 where values lie densely."""
        return self.parts[0].step

    def pit(self, y: Moments) -> Moments:
        """Probability integral transform of each observation; uniform on 0..1 if calibrated."""
        return self._each(lambda part, own: part.pit(own), self.checked(y))

    @property
    def gap_share(self) -> Moments:
        """Share of the variance that knowing all inputs exactly would remove on average."""
        return self._each(lambda part: part.gap_share)

    @property
    def group_share(self) -> Moments:
        """Share of the variance that knowing the effects of a row's group would remove."""
        return self._each(lambda part: part.group_share)

    @property
    def group_var(self) -> Moments:
        """Part of `noise_var` that knowing the effects of a row's group would remove, y²."""
        return self.group_share * self.var

    def in_groups(self, shift: Moments, factor: Moments, noise_share: Moments) -> Predictive:
        """Move rows by the effects of their groups, as mixtures do."""
        order, ends = np.argsort(self.at), np.cumsum([len(part) for part in self.parts])
        rows = np.split(order, ends[:-1])
        parts = zip(cast("tuple[MixturePredictive, ...]", self.parts), rows, strict=True)
        moved = [part.in_groups(shift[own], factor[own], noise_share[own]) for part, own in parts]
        return _of_parts(moved, self.at)

    def limited(self, interval: Float[np.ndarray, "n ... 2"]) -> Float[np.ndarray, "n ... 2"]:
        """Bring the bounds of intervals to where the target can lie."""
        return self.parts[0].limited(interval)

    def _each(self, ask: Callable[..., Moments], *y: Moments) -> Moments:
        """Ask every part about its rows, and the values that these have."""
        ends = np.cumsum([len(part) for part in self.parts])
        order = np.argsort(self.at, kind="stable")
        rows = np.split(order, np.searchsorted(self.at[order], ends[:-1]))
        answers = [
            ask(part[self.at[own] - end], *(values[own] for values in y))
            for part, own, end in zip(self.parts, rows, ends, strict=True)
            if len(own) or not len(self)
        ]
        return np.concatenate(answers)[np.argsort(order)]

    def _log_prob(self, y: Moments) -> Moments:
        return self._each(lambda part, own: part.log_prob(own), y)

    def _crps(self, y: Moments) -> Moments:
        return self._each(lambda part, own: part.crps(own), y)

    def _quantiles(self, levels: Float[np.ndarray, "q ..."]) -> Float[np.ndarray, "q ..."]:
        return np.moveaxis(self._each(lambda part: part.quantile(levels.ravel())), -1, 0)


def pooled(parts: Sequence, places: Sequence[Int[np.ndarray, " m"]]) -> Any:
    """Put predictions of parts of the rows together, of numbers, of the same classes, or arrays.

    places
        Of the rows of every part; together 0 to n - 1, once each.
    """
    at = np.argsort(np.concatenate(list(places)))
    if isinstance(parts[0], ClassPredictive):
        return ClassPredictive.joined(parts)[at]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)[at]
    return _of_parts(cast("Sequence[Predictive]", parts), at)


def _of_parts(parts: Sequence[Predictive], at: np.ndarray) -> PooledPredictive:
    mean, epistemic_var, noise_var = (
        np.concatenate([getattr(part, name) for part in parts])[at]
        for name in ("mean", "epistemic_var", "noise_var")
    )
    return PooledPredictive(mean, epistemic_var, noise_var, tuple(parts), at)
