"""A column of many levels as what they tell of the target, and of how many rows they tell it.

Levels stand for shrunken means of the target (Micci-Barreca 2001), as scikit-learn's TargetEncoder
learns them, and the log of their rows stands beside, by which a network can tell how far to trust
them. A row's own target must not reach it by its level: training rows are encoded by the rows of
other folds. Not by the encoder's own `fit_transform`, which knows no groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from bayesprop.table.encoded import Encoded, with_gaps
from bayesprop.table.errors import counted, listed, quoted
from bayesprop.table.values import as_levels


@dataclass(frozen=True)
class TargetEncodedColumn:
    """A column of text: of each level, the shrunken mean of the target and the log of its rows.

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
    missing, marked
        As those of numbers.
    """

    name: str
    texts: tuple[str, ...]
    means: tuple[tuple[float, ...], ...]
    log_rows: tuple[float, ...]
    prior: tuple[float, ...]
    labels: tuple[str, ...]
    missing: bool = False
    marked: bool = False

    @classmethod
    def fit(
        cls, text: pl.Series, y: Float[np.ndarray, "n k"], labels: Sequence[str], **flags: bool
    ) -> TargetEncodedColumn:
        """Learn the levels of clean text, null where missing."""
        from sklearn.preprocessing import TargetEncoder

        known = text.is_not_null().to_numpy()
        text, y = text.drop_nulls(), y[known]
        texts = text.unique().sort().to_list()
        codes = _codes(text, texts)
        encoder = TargetEncoder(target_type="continuous")
        means = [encoder.fit(codes[:, None], one).encodings_[0].tolist() for one in y.T]
        return cls(
            text.name,
            tuple(texts),
            tuple(zip(*means, strict=True)),
            tuple(np.log1p(np.bincount(codes)).tolist()),
            tuple(y.mean(axis=0).tolist()),
            tuple(labels),
            **flags,
        )

    @classmethod
    def from_stored(cls, fields: dict[str, Any]) -> TargetEncodedColumn:
        """Rebuild a column from its stored fields."""
        lists = ("texts", "log_rows", "prior", "labels")
        tuples: Any = {name: tuple(fields[name]) for name in lists}
        tuples["means"] = tuple(map(tuple, fields["means"]))
        return cls(**fields | tuples)

    @property
    def is_good(self) -> bool:
        """Whether all fields are such as a fit leaves."""
        n, k = len(self.texts), len(self.labels)
        is_text = all(isinstance(text, str) for text in (*self.texts, *self.labels))
        if not (is_text and k and len(set(self.texts)) == n == len(self.log_rows)):
            return False
        table = np.array([*self.means, self.prior], dtype=np.float64)
        numbers = np.array(self.log_rows, dtype=np.float64)
        return table.shape == (n + 1, k) and bool(np.isfinite([*table.flat, *numbers]).all())

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded columns."""
        own = [f"{self.name} ({label})" for label in (*self.labels, "log rows")]
        return [*own, f"{self.name} is missing"] if self.marked else own

    def encode(self, series: pl.Series) -> Encoded:
        """Return means and log rows; the prior and 0 for a level that training did not have."""
        text = as_levels(series)
        absent = text.is_null()
        table = np.column_stack([(*self.means, self.prior), (*self.log_rows, 0.0)])
        codes = _codes(text, self.texts)
        values = table[codes]
        values[absent.to_numpy()] = np.nan
        unseen = text.filter((codes < 0) & ~absent.to_numpy())
        encoded = with_gaps(values, absent, missing=self.missing, marked=self.marked)
        return Encoded(encoded.X, [*_of_unseen(self.name, unseen), *encoded.warnings])

    def cross_fitted(
        self, series: pl.Series, y: Float[np.ndarray, "n k"], fold: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n k"]:
        """Encode training rows, each by what the rows of other folds tell of its level."""
        text, flags = as_levels(series), {"missing": self.missing, "marked": self.marked}
        values = self.encode(series).X
        for one in np.unique(fold):
            own, others = text.filter(fold == one), text.filter(fold != one)
            if others.null_count() == len(others):
                values[fold == one, : len(self.labels) + 1] = np.nan
                continue
            learnt = type(self).fit(others, y[fold != one], self.labels, **flags)
            values[fold == one] = learnt.encode(own).X
        return values

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values."""
        return {"kind": "target-encoded", **asdict(self)}


def _codes(text: pl.Series, texts: Sequence[str]) -> Int[np.ndarray, " n"]:
    """Return places in a list of levels, -1 for what is not there."""
    codes = text.cast(pl.Enum(texts), strict=False).to_physical().cast(pl.Int64)
    return codes.fill_null(-1).to_numpy()


def _of_unseen(name: str, unseen: pl.Series) -> list[str]:
    if unseen.is_empty():
        return []
    return [
        f"column {quoted(name)}: {counted(len(unseen), 'row')} with a level that the training data"
        f" did not have ({listed(sorted(unseen.unique()), 3)}): taken for an average one"
    ]
