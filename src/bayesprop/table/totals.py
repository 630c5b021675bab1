"""A last row that is none: the totals or the means of the rows above it, as sheets end."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import NamedTuple, cast

import numpy as np
import polars as pl

from bayesprop.table.errors import Message, quoted, row_name

_WORD = re.compile(
    r"((grand|overall|column) )?totals?|sums?|(overall )?(average|mean)s?|avg|[ΣØ∑]"
    r"|summe|gesamt(summe|ergebnis)?|insgesamt|durchschnitt|mittelwert|mittel"
    r"|total général|somme|moyenne|total general|suma|promedio|media|total geral|soma|média"
    r"|totale|somma|totaal|gemiddelde|razem|średnia|итого|всего|сумма|среднее"
    r"|合計|平均|合计|总计|平均值|합계|평균",
    re.I,
)
_LEAST_ABOVE, _LEAST_COLUMNS = 3, 2
_LEAST_VALUES = 1e6
"""Values that sums could have had, all together, from which they need no word beside them."""
_ALIKE = 0.01
"""Difference of shares of two sums, beside the largest, up to which one column is the other in
another unit."""


class Totals(NamedTuple):
    """A remark on the last row, and whether it is certainly a total."""

    remark: Message
    is_sure: bool


def totals(frame: pl.DataFrame) -> Totals | None:
    """Look for totals or means in the last row of a table; None where it is a row as any other.

    It is sure by two columns of numbers that are sums or means to rounding where a text says so;
    without one by two sums at least, of most columns, that are larger than all above, cannot be
    chance, are not the same in two units, and have no text beside them that a row above has, too.
    """
    above, n_above = frame[:-1], len(frame) - 1
    if n_above < _LEAST_ABOVE:
        return None
    texts = {one.name: one[-1] for one in frame if one.dtype == pl.String and one[-1] is not None}
    words = [
        text
        for name, text in texts.items()
        if _WORD.fullmatch(text.strip(" .:*")) and not (above[name] == text).any()
    ]
    numbers = [one for one in frame if one.dtype.is_numeric()]
    numbers = [one for one in numbers if one[-1] is not None and math.isfinite(one[-1])]
    sums = [one for one in numbers if one[-1] and _is(one[-1], float(one[:-1].sum()))]
    means = [one for one in numbers if words and _is_mean(one)]
    row = row_name(n_above)
    if len(sums) + len(means) >= _LEAST_COLUMNS and (
        words or (_are_telling(sums, len(numbers)) and not _repeats(above, texts))
    ):
        what = " and ".join(word for word, some in (("sums", sums), ("means", means)) if some)
        names = [one.name for one in (*sums, *means)]
        word = f", {quoted(words[0])}," if words else ""
        own = {"row": row, "word": word, "what": what}
        return Totals(Message.of("left_out.totals", *names, **own), is_sure=True)
    if words:
        maybe = Message.of("rows.maybe_totals", row=row, word=words[0])
        return Totals(maybe, is_sure=False)
    return None


def _is(value: float, exact: float) -> bool:
    """Whether a number is another one to its last digit."""
    return math.isclose(value, exact, rel_tol=1e-9, abs_tol=0.5 * _last_digit(value))


def _last_digit(value: float) -> float:
    return 10.0 ** min(cast(int, Decimal(f"{value:.15g}").as_tuple().exponent), 0)


def _is_mean(column: pl.Series) -> bool:
    above = column[:-1]
    return above.min() != above.max() and _is(column[-1], float(above.sum()) / above.count())


def _are_telling(sums: list[pl.Series], n_numbers: int) -> bool:
    """Whether sums can be no chance, although nothing says what they are."""
    distinct: list[np.ndarray] = []
    n_values = 1.0
    for one in sums:
        share = one[:-1].cast(pl.Float64).fill_null(0.0).to_numpy() / one[-1]
        largest = np.abs(share).max()
        is_new = all(np.abs(share - other).max() > _ALIKE * largest for other in distinct)
        if largest < 1.0 and is_new:
            distinct.append(share)
            n_values *= abs(one[-1]) / _last_digit(one[-1])
    is_most = 2 * len(sums) > n_numbers
    return is_most and len(distinct) >= _LEAST_COLUMNS and n_values >= _LEAST_VALUES


def _repeats(above: pl.DataFrame, texts: dict[str, str]) -> bool:
    return any((above[name] == text).any() for name, text in texts.items())
