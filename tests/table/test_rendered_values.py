"""Numbers in every form that is read, written by Python, and read back."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from stored_encoding import stored_and_back

from bayesprop import codec
from bayesprop.table.columns import fit_column
from bayesprop.table.encoded import EncodedColumn
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.values import BOTH, DECIMAL_COMMA, PLAIN, THOUSANDS, WRITTEN, unmarked

POINTS = {PLAIN: ("", "."), THOUSANDS: (",' ", "."), DECIMAL_COMMA: ("", ","), BOTH: (".' ", ",")}
"""What may part thousands, and the decimal sign, by how numbers are written."""
CURRENCIES = ("", "$", "€", "₹", "R$", "CHF", "Rs.", "kr", "USD")
SUFFIXES = ("", "%", "kg", "°C", "th", "€", "m/s", "km²")
BLANKS = (" ", "\u00a0", "\u2009", "\u202f")
MAGNITUDES = {"K": 1_000, "k": 1_000, "M": 1_000_000, "B": 1_000_000_000, "": 1}
FEWEST = 12  # different values, of which no column is levels


@st.composite
def written_numbers(draw):
    """Return how numbers are written, their unit, each as text, and the numbers."""
    written = draw(st.sampled_from(WRITTEN))
    currency, unit = draw(st.sampled_from(CURRENCIES)), draw(st.sampled_from(SUFFIXES))
    parts, point = POINTS[written]
    part = draw(st.sampled_from(parts)) if parts else ""
    is_scaled = not unit and draw(st.booleans())

    def text(value):
        sign, digits = ("-" if value < 0 else ""), f"{abs(value):,}"
        whole, _, decimals = digits.partition(".")
        whole = whole.replace(",", draw(st.sampled_from(BLANKS)) if part == " " else part)
        number = whole + (point + decimals if decimals else "")
        blank = draw(st.sampled_from(("", " ", "\u00a0")))
        before = blank if currency.isalpha() else draw(st.sampled_from(("", *BLANKS)))
        scale = draw(st.sampled_from([*MAGNITUDES])) if is_scaled else ""
        suffix = scale or (unit and blank + unit)
        way = draw(st.sampled_from(("before", "after", "brackets"))) if sign else "before"
        if way == "brackets":
            number = draw(st.sampled_from((f"({currency}{number}{suffix})",
                                           f"{currency}{before}({number}){suffix}")))  # fmt: skip
        elif way == "after":
            number = f"{currency}{before}{sign}{number}{suffix}"
        else:
            number = f"{sign}{currency}{before}{number}{suffix}"
        return number, float(value) * MAGNITUDES[scale]

    places = st.integers(0, 2) if written != PLAIN else st.integers(0, 4)
    values = st.builds(lambda n, k: Decimal(n).scaleb(-k), st.integers(-(10**7), 10**7), places)
    # One value that can only be meant so, and is in no brackets.
    telling = [Decimal("1234.5") if written in (THOUSANDS, BOTH) else Decimal("7.25")]
    values = draw(st.lists(values, min_size=FEWEST, max_size=20, unique_by=float))
    words = [*map(text, telling + values), *draw(st.sampled_from(([], [(None, None)])))]
    return written, [word for word, _ in words], [number for _, number in words]


@given(written_numbers())
def test_numbers_of_one_form_are_read_alone_and_together(numbers):
    written, words, values = numbers
    found = unmarked(pl.Series("c", words))
    assert found is not None
    assert found.written == written
    assert found.numbers.to_list() == values
    column = fit_column(pl.Series("c", words)).column
    column = codec.from_json(
        EncodedColumn, json.loads(json.dumps(codec.to_json(column, EncodedColumn)))
    )
    frame = pl.DataFrame({"x": range(len(words)), "y": words})
    encoding = stored_and_back(TableEncoding.fit(frame, "y", "regression"))
    known = [value for value in values if value is not None]
    assert encoding.target(frame).tolist() == known
    assert encoding.target(frame[:1]).tolist() == known[:1]
    assert encoding.text_columns == (() if encoding.marks is None else ("y",))
    rows = np.array(values, float)
    np.testing.assert_array_equal(column.encode(pl.Series("c", words)).X[:, 0], rows)
    for word, row in [*zip(words, rows, strict=True)][::-5]:
        np.testing.assert_array_equal(column.encode(pl.Series("c", [word], pl.String)).X, [[row]])
