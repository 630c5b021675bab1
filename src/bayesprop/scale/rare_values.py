"""Rows of values that a sample would miss: levels of text, classes, and what is nearly constant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import polars as pl
from jaxtyping import Int

from bayesprop.table.supervised import MAX_LEVELS
from bayesprop.table.target import MAX_CLASSES

ENOUGH = 5
"""Rows of every value in a sample, where the table has so many: some are held out of a fit."""
_AT = "\0at"


class RareValues:
    """Up to ENOUGH rows of every value of the columns that have few, from a pass over a table.

    most
        Different values, by column, beyond which it is given up: memory stays bounded.
    """

    def __init__(self, most: Mapping[str, int]) -> None:
        self.most = dict(most)
        self.numbers: dict[str, dict[object, int]] = {name: {} for name in most}
        self.frames: list[pl.DataFrame] = []
        self.places: list[Int[np.ndarray, " n"]] = []

    @classmethod
    def of(cls, columns: Iterable[str], target: str | None) -> RareValues:
        """Look for levels of all columns, and for classes of the target."""
        most = dict.fromkeys(columns, MAX_LEVELS)
        return cls(most if target is None else most | {target: MAX_CLASSES})

    def look(self, frame: pl.DataFrame, places: Int[np.ndarray, " n"]) -> None:
        """Take in the rows of values that there are too few of yet."""
        chosen: set[int] = set()
        for name, numbers in [*self.numbers.items()]:
            if frame[name].dtype.is_nested() or frame[name].n_unique() > self.most[name]:
                del self.numbers[name]
                continue
            firsts = frame.select(pl.int_range(pl.len()).alias(_AT), name).group_by(name)
            for value, at in firsts.agg(pl.col(_AT).head(ENOUGH)).iter_rows():
                number = numbers.get(value, 0)
                chosen.update(at[: ENOUGH - number])
                numbers[value] = min(number + len(at), ENOUGH)
            if len(numbers) > self.most[name]:
                del self.numbers[name]
        at = np.sort(np.fromiter(chosen, int))
        self.frames.append(frame[at])
        self.places.append(places[at])

    def only(self, names: Collection[str]) -> None:
        """Give up all other columns."""
        self.numbers = {name: each for name, each in self.numbers.items() if name in names}

    def beside(
        self, frame: pl.DataFrame, places: Int[np.ndarray, " n"]
    ) -> tuple[pl.DataFrame, Int[np.ndarray, " n"]]:
        """Return a sample, in the order of the table, with rows of the values it has too few of."""
        rows, at = pl.concat(self.frames), np.concatenate(self.places)
        is_wanted = np.zeros(len(at), bool)
        for name in self.numbers:
            counts = frame[name].value_counts(name="\0n")
            enough = counts.filter(pl.col("\0n") >= ENOUGH)[name]
            is_wanted |= ~rows[name].is_in(enough.implode(), nulls_equal=True).to_numpy()
        is_wanted &= ~np.isin(at, places)
        order = np.argsort(both := np.concatenate([places, at[is_wanted]]))
        return pl.concat([frame, rows.filter(is_wanted)])[order], both[order]
