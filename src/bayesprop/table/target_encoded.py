"""Many levels, or numbers that name, as what they tell of the target, and of how many rows.

Levels stand for shrunken means of the target (Micci-Barreca 2001), as scikit-learn's TargetEncoder
learns them, and the log of their rows stands beside, by which a network can tell how far to trust
them. A row's own target must not reach it by its level: training rows are encoded by the rows of
other folds. Not by the encoder's own `fit_transform`, which knows no groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
from jaxtyping import Float, Int, Shaped

from bayesprop.table.encoded import LevelsColumn, levels_of, of_unseen, places_of

N_FOLDS = 10


@dataclass(frozen=True, kw_only=True)
class TargetEncodedColumn(LevelsColumn):
    """A column of levels: of each, the shrunken mean of the target and the log of its rows.

    texts
        Levels of the training rows, sorted.
    means
        One row a level; one value for a target of numbers or two classes, else one a class.
    log_rows
        Of each level: log(1 + n).
    prior
        The means of a level that the training rows did not have.
    labels
        What the means are of, such as "mean price".
    """

    kind: ClassVar = "target-encoded"

    texts: tuple[str, ...]
    means: tuple[tuple[float, ...], ...]
    log_rows: tuple[float, ...]
    prior: tuple[float, ...]
    labels: tuple[str, ...]

    @classmethod
    def fit(
        cls,
        series: pl.Series,
        y: Float[np.ndarray, "n k"],
        labels: Sequence[str],
        *,
        is_numbers: bool = False,
        **own: Any,
    ) -> TargetEncodedColumn:
        """Learn the levels of training rows.

        own
            What every column has: `missing`, `marked`, `words`.
        """
        from sklearn.preprocessing import TargetEncoder

        text = levels_of(series, is_numbers=is_numbers)
        known = text.is_not_null().to_numpy()
        text, y = text.drop_nulls(), y[known]
        texts = text.unique().sort().to_list()
        codes = places_of(text, texts)
        encoder = TargetEncoder(target_type="continuous")
        power = np.frexp(np.abs(y).max())[1]  # it squares them
        scaled = [encoder.fit(codes[:, None], one).encodings_[0] for one in np.ldexp(y, -power).T]
        means = [np.ldexp(one, power).tolist() for one in scaled]
        return cls(
            text.name,
            texts=tuple(texts),
            means=tuple(zip(*means, strict=True)),
            log_rows=tuple(np.log1p(np.bincount(codes)).tolist()),
            prior=tuple(y.mean(axis=0).tolist()),
            labels=tuple(labels),
            is_numbers=is_numbers,
            **own,
        )

    @property
    def is_good(self) -> bool:
        """Whether all fields are such as a fit leaves."""
        n, k = len(self.texts), len(self.labels)
        is_text = all(isinstance(text, str) for text in (*self.texts, *self.labels))
        is_whole = k > 0 and len(set(self.texts)) == n == len(self.log_rows)
        if not (super().is_good and is_text and is_whole):
            return False
        table = np.array([*self.means, self.prior], dtype=np.float64)
        numbers = np.array(self.log_rows, dtype=np.float64)
        return table.shape == (n + 1, k) and bool(np.isfinite([*table.flat, *numbers]).all())

    @property
    def known(self) -> tuple[str, ...]:
        """Levels of the training rows."""
        return self.texts

    @property
    def level_names(self) -> list[str]:
        """Names of the columns that stand for the levels."""
        return [f"{self.name} ({label})" for label in (*self.labels, "log rows")]

    def encode_levels(self, text: pl.Series) -> tuple[Float[np.ndarray, "n k"], list[str]]:
        """Return means and log rows; a level that training did not have counts as missing."""
        codes = places_of(text, self.texts)
        values = self._table[codes]
        values[codes < 0] = np.nan
        return values, of_unseen(text, codes)

    @property
    def _table(self) -> Float[np.ndarray, "l k"]:
        """What stands for every level, and last the prior with no rows."""
        return np.column_stack([(*self.means, self.prior), (*self.log_rows, 0.0)])

    @property
    def _places(self) -> slice:
        """Which of the encoded columns stand for the levels."""
        return slice(len(self.value_names) - len(self.level_names), len(self.value_names))

    def averaged(
        self, values: Float[np.ndarray, "n k"], series: pl.Series
    ) -> Float[np.ndarray, "n k"]:
        """Return encoded values where levels without a place are an average one of no rows."""
        text = levels_of(self.without_words(series), is_numbers=self.is_numbers)
        is_unseen = text.is_not_null().to_numpy() & (places_of(text, self.texts) < 0)
        values = values.copy()
        values[is_unseen, self._places] = self._table[-1]
        return values

    def cross_fitted(
        self, series: pl.Series, y: Float[np.ndarray, "n k"], fold: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n k"]:
        """Encode training rows, each by what the rows of other folds tell of its level.

        A level of one fold stands for an average one of no rows, so that a network learns what that
        means.
        """
        series = self.without_words(series)
        text, values = levels_of(series, is_numbers=self.is_numbers), self.encode(series).X
        known = text.is_not_null().to_numpy()
        for one in np.unique(fold):
            own, others = known & (fold == one), known & (fold != one)
            if not others.any():
                values[own, self._places] = np.nan
                continue
            learnt = self.fit(
                series.filter(others), y[others], self.labels, is_numbers=self.is_numbers
            )
            values[own, self._places] = learnt._table[places_of(text.filter(own), learnt.texts)]
        return values


def folds_of(n: int, groups: Shaped[np.ndarray, " n"] | None) -> Int[np.ndarray, " n"]:
    """Deal rows, or whole groups, out to folds."""
    number = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    deal = np.random.default_rng(0).permutation(number.max(initial=0) + 1)
    return deal[number] % N_FOLDS
