"""Text as what its spelling tells of the target: names, titles, tickets, reviews.

A text is a set of trigrams, three characters in a row of a word between blanks: texts that share
some are alike in part (Cerda & Varoquaux 2022). Each has a weight by ridge regression of the target
on all of them (Hoerl & Kennard 1970), and a text is the sum of its weights. A row's own target must
not reach it so: training rows are encoded by the rows of other folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from bayesprop.table.encoded import Encoded, EncodedColumn
from bayesprop.table.values import as_levels

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FEWEST_ROWS, MOST_TRIGRAMS = 3, 1000
"""Rows that hold a trigram, and how many there are, the most frequent ones."""
_PENALTIES = 10.0 ** np.linspace(-1.0, 4.0, 11)
_MOST_ROWS = 1000
"""Rows by which one of these is chosen, drawn from more."""
_TOLERANCE = 1e-8


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
        text = as_levels(series)
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
        """Whether all fields are such as a fit leaves."""
        n, k = len(self.trigrams), len(self.labels)
        is_text = all(isinstance(text, str) for text in (*self.trigrams, *self.labels))
        if not (super().is_good and is_text and k > 0 and 0 < len(set(self.trigrams)) == n):
            return False
        table = np.array([*self.weights, self.intercept], np.float64)
        is_finite = np.isfinite([*table.flat, self.penalty]).all()
        return bool(table.shape == (n + 1, k) and is_finite and self.penalty > 0.0)

    @property
    def value_names(self) -> list[str]:
        """Names of the encoded columns but that of gaps."""
        return [f"{self.name} ({label} by spelling)" for label in self.labels]

    def encode(self, series: pl.Series) -> Encoded:
        """Return the sums of weights, NaN where a text is missing."""
        text = as_levels(self.without_words(series))
        values = _counts(text, self.trigrams) @ np.array(self.weights) + np.array(self.intercept)
        values[text.is_null().to_numpy()] = np.nan
        return self.with_gaps(values, text.is_null())

    def cross_fitted(
        self, series: pl.Series, y: Float[np.ndarray, "n k"], fold: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n k"]:
        """Encode training rows, each by the weights that rows of other folds give."""
        text = as_levels(self.without_words(series))
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
