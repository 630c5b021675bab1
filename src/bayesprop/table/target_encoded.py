"""Columns that stand for what they tell of the target: many levels, or numbers that name, and text.

Levels stand for shrunken means of the target (Micci-Barreca 2001), as scikit-learn's TargetEncoder
learns them, and the log of their rows stands beside, by which a network can tell how far to trust
them. Not by the encoder's own `fit_transform`, which knows no groups.

Text is a set of trigrams, three characters in a row of a word between blanks: texts that share some
are alike in part (Cerda & Varoquaux 2022). Each has a weight by ridge regression of the target on
all of them (Hoerl & Kennard 1970), and a text is the sum of its weights.

A row's own target must not reach it by its level or text: training rows are encoded by the rows of
other folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from bayesprop.table.encoded import (
    Encoded,
    EncodedColumn,
    LevelsColumn,
    levels_of,
    of_unseen,
    places_of,
)
from bayesprop.table.errors import Message
from bayesprop.table.values import levels_known

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FEWEST_ROWS, MOST_TRIGRAMS = 3, 1000
"""Rows that hold a trigram, and how many there are, the most frequent ones."""
_PENALTIES = 10.0 ** np.linspace(-1.0, 4.0, 11)
_MOST_ROWS = 1000
"""Rows by which one of these is chosen, drawn from more."""
_TOLERANCE = 1e-8
_MOST_LOG_ROWS = 44.0
"""Of 2^63 rows."""


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
        scaled = [encoder.fit(codes[:, None], one).encodings_[0] for one in _scaled(y).T]
        means = [np.ldexp(one, _power(y)).tolist() for one in scaled]
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
        """Whether the fields belong together as a fit leaves them."""
        if not (
            super().is_good
            and np.isfinite([*chain(*self.means), *self.prior]).all()
            and all(0.0 < one < _MOST_LOG_ROWS for one in self.log_rows)
        ):
            return False
        widths = {*map(len, self.means), len(self.prior), len(self.labels)}
        n_levels = {len(self.texts), len(self.means), len(self.log_rows)}
        return len(widths) == len(n_levels) == 1

    @property
    def known(self) -> tuple[str, ...]:
        """Levels of the training rows."""
        return self.texts

    @property
    def level_names(self) -> list[str]:
        """Names of the columns that stand for the levels."""
        return [f"{self.name} ({label})" for label in (*self.labels, "log rows")]

    def quantiles(self, n: int) -> Float[np.ndarray, "n k"]:
        """Return the means of the levels of the training rows, at n equal steps of each column."""
        means, level = np.array(self.means), (np.arange(n) + 0.5) / n
        order = np.argsort(means, axis=0)
        reached = np.cumsum(np.expm1(self.log_rows)[order], axis=0)
        places = [np.searchsorted(one / one[-1], level) for one in reached.T]
        return np.take_along_axis(means, np.take_along_axis(order, np.stack(places, 1), 0), 0)

    def encode_levels(self, text: pl.Series) -> tuple[Float[np.ndarray, "n k"], list[Message]]:
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
        self, values: Float[np.ndarray, "n k"], is_unseen: Bool[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n k"]:
        """Return encoded values where levels without a place are an average one of no rows."""
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


@dataclass(frozen=True, kw_only=True)
class TextColumn(EncodedColumn):
    """A column of text: the sum of the weights of its trigrams.

    trigrams
        Sorted.
    weights
        One row a trigram; one value for a target of numbers or two classes, else one a class.
    intercept
        Of text that has none of them.
    labels
        What the sums are of, such as "mean price".
    penalty
        Of the ridge regression: how many rows a weight is pulled to 0 by.
    """

    kind: ClassVar = "text"

    trigrams: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    intercept: tuple[float, ...]
    labels: tuple[str, ...]
    penalty: float

    @classmethod
    def fit(
        cls, series: pl.Series, y: Float[np.ndarray, "n k"], labels: Sequence[str], **own: Any
    ) -> Self | None:
        """Learn the trigrams of training rows; None where there are none.

        y
            The target as numbers, NaN where a row has none.
        own
            What every column has: `missing`, `marked`, `words`.
        """
        text = levels_known(series, ())
        is_known = text.is_not_null().to_numpy() & ~np.isnan(y[:, 0])
        text, y = text.filter(is_known), y[is_known]
        trigrams = _frequent(text)
        if not trigrams:
            return None
        counts = _counts(text, trigrams)
        penalty = _penalty(counts, y)
        weights, intercept = _ridge(counts, y, penalty)
        return cls(
            text.name,
            trigrams=trigrams,
            weights=tuple(map(tuple, weights.tolist())),
            intercept=tuple(intercept.tolist()),
            labels=tuple(labels),
            penalty=penalty,
            **own,
        )

    @property
    def is_read_as_text(self) -> bool:
        """Whether a table is to be read without taking it for numbers."""
        return True

    @property
    def is_good(self) -> bool:
        """Whether the fields belong together as a fit leaves them."""
        widths = {*map(len, self.weights), len(self.intercept), len(self.labels)}
        n_different = len(set(self.trigrams))
        if len(widths) > 1 or not 0 < n_different == len(self.trigrams) == len(self.weights):
            return False
        largest = sum(map(abs, chain(*self.weights, self.intercept)))  # of any text
        return 0.0 < self.penalty < np.inf and largest < np.inf

    @property
    def value_names(self) -> list[str]:
        """Names of the encoded columns but that of gaps."""
        return [f"{self.name} ({label} by spelling)" for label in self.labels]

    def encode(self, series: pl.Series) -> Encoded:
        """Return the sums of weights, NaN where a text is missing."""
        text = levels_known(self.without_words(series), ())
        values = _counts(text, self.trigrams) @ np.array(self.weights) + np.array(self.intercept)
        values[text.is_null().to_numpy()] = np.nan
        return self.with_gaps(values, text.is_null())

    def cross_fitted(
        self, series: pl.Series, y: Float[np.ndarray, "n k"], fold: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n k"]:
        """Encode training rows, each by the weights that rows of other folds give."""
        text = levels_known(self.without_words(series), ())
        counts, known = _counts(text, self.trigrams), text.is_not_null().to_numpy()
        values = np.full(y.shape, np.nan)
        for one in np.unique(fold):
            own, others = known & (fold == one), known & (fold != one) & ~np.isnan(y[:, 0])
            if others.any():
                weights, intercept = _ridge(counts[others], y[others], self.penalty)
                values[own] = counts[own] @ weights + intercept
        return self.with_gaps(values, text.is_null()).X


def _trigrams(text: pl.Series) -> pl.DataFrame:
    """Return the trigrams of every row, once each, in columns "row" and "trigram"."""
    words = text.str.to_lowercase().str.extract_all(r"\S+").alias("word").to_frame()
    words = words.with_row_index("row").explode("word").drop_nulls()
    spelt = words.select(pl.col("word").unique())
    threes = [[f" {word} "[i : i + 3] for i in range(len(word))] for word in spelt["word"]]
    spelt = spelt.with_columns(pl.Series("trigram", threes, pl.List(pl.String)))
    return words.join(spelt, on="word").explode("trigram").select("row", "trigram").unique()


def _frequent(text: pl.Series) -> tuple[str, ...]:
    rows = _trigrams(text).group_by("trigram").len()
    rows = rows.filter(pl.col("len").is_between(FEWEST_ROWS, len(text) - 1))
    frequent = rows.sort(["len", "trigram"], descending=[True, False]).head(MOST_TRIGRAMS)
    return tuple(frequent["trigram"].sort())


def _counts(text: pl.Series, trigrams: Sequence[str]) -> csr_array:
    """Say of every row which trigrams it holds, 1 and 0, (n, t)."""
    from scipy.sparse import csr_array

    codes = pl.DataFrame({"trigram": trigrams, "code": np.arange(len(trigrams))})
    held = _trigrams(text).join(codes, on="trigram").sort("row", "code")
    places = held["row"].to_numpy(), held["code"].to_numpy()
    return csr_array((np.ones(len(held)), places), shape=(len(text), len(trigrams)))


def _penalty(counts: csr_array, y: Float[np.ndarray, "n k"]) -> float:
    from sklearn.linear_model import RidgeCV

    some = np.sort(np.random.default_rng(0).permutation(len(y))[:_MOST_ROWS])
    chosen: Any = RidgeCV(_PENALTIES).fit(counts[some], _scaled(y)[some])
    return float(chosen.alpha_)


def _ridge(
    counts: csr_array, y: Float[np.ndarray, "n k"], penalty: float
) -> tuple[Float[np.ndarray, "t k"], Float[np.ndarray, " k"]]:
    from sklearn.linear_model import Ridge

    ridge = Ridge(penalty, solver="sparse_cg", tol=_TOLERANCE).fit(counts, _scaled(y))
    weights = np.reshape(ridge.coef_, (y.shape[1], -1)).T  # of one column they have one axis
    return np.ldexp(weights, _power(y)), np.ldexp(np.ravel(ridge.intercept_), _power(y))


def _power(y: Float[np.ndarray, "n k"]) -> int:
    """Return the power of two next to the largest target: they are squared."""
    return int(np.frexp(np.abs(y).max())[1])


def _scaled(y: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    return np.ldexp(y, -_power(y))
