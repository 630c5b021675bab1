"""Numbers as people write them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesprop.table.columns import fit_column
from bayesprop.table.division import HoldOut, divide
from bayesprop.table.encoded import stand_in
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import Message, TableError
from bayesprop.table.read import read_table
from bayesprop.table.target import Marks
from bayesprop.table.values import unmarked


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (["2,438", "1,000", None], "thousands"),
        (["1,92", "2,438"], "decimal comma"),
        (["0,123", "3,456"], "decimal comma"),
    ],
)
def test_three_digits_behind_every_comma_part_thousands(words, written):
    assert unmarked(pl.Series("c", words)).written == written


def test_later_rows_are_of_the_same_unit():
    frame = pl.DataFrame({"w": [f"{k % 17} kg" for k in range(40)], "y": range(40)})
    encoding = TableEncoding.fit(frame, "y", "regression")
    rows = pl.DataFrame({"w": ["3 kg", "5kg"]})
    assert encoding.encode(rows).X.tolist() == [[3.0], [5.0]]
    assert encoding.encode(pl.DataFrame({"w": [3.0]})).X.tolist() == [[3.0]]
    other = encoding.encode(pl.DataFrame({"w": ["3 lb", "4 lb"]}))
    assert np.isnan(other.X).all()
    where = "'3 lb' in data row 1, '4 lb' in data row 2"
    assert other.warnings[0] == Message.of("stray.missing", "w", holds="numbers", where=where)


@pytest.mark.parametrize(
    "words",
    [
        ["$5", "€5"],
        ["12%", "12"],
        ["12 kg", "3 lb"],
        ["$5M", "€5K"],
        ["USD 5", "EUR 5"],
        ["ABC 12", "ABC 13"],
        ["1.234,56", "1.5"],
        ["1.23,4"],
        ["1,2,3", "4"],
        ["(1)", "(2)"],
        ["(-1)", "2"],
        ["1 (2)", "2 (3)"],
        ["1.5,2"],
        [None],
        [],
    ],
)
def test_other_text_stays_text(words):
    assert unmarked(pl.Series("c", words, pl.String)) is None


def test_commas_mean_what_they_meant_in_training(tmp_path):
    table, later = tmp_path / "t.csv", tmp_path / "later.csv"
    rows = [f'"{k},{k % 10}5",{k % 5}.{k % 7}' for k in range(40)]
    table.write_text("\n".join(["share,y", *rows]))
    later.write_text('share\n"2,438"\n')
    encoding = TableEncoding.fit(read_table(str(table)), "y")
    own = {"example": "10,05", "number": 10.05}
    assert Message.of("column.marks", "share", **own) in encoding.report
    assert encoding.text_columns == ("share",)
    assert encoding.encode(read_table(str(later), encoding.text_columns)).X.tolist() == [[2.438]]
    assert encoding.encode(pl.DataFrame({"share": [2.5]})).X.tolist() == [[2.5]]


@pytest.mark.parametrize(
    "words", [[f"{k},92" for k in range(40)], [f"{k}.100,5" for k in range(40)]]
)
def test_a_later_table_with_points(words):
    """Programs write points: what cannot be as the training table had it is a plain number."""
    column = fit_column(
        pl.Series("c", ["1.200,5", *words[1:]] if "." in words[0] else words)
    ).column
    assert column.encode(pl.Series("c", ["2.5", "13.25"])).X.ravel().tolist() == [2.5, 13.25]
    with pytest.raises(TableError, match="must hold numbers, got 'three' in data row 2"):
        column.encode(pl.Series("c", ["2.5", "three"]))


MILLIONS = [*(f"${k}M" for k in range(1, 40)), "$500K"]


def test_marks_that_training_did_not_have_are_said():
    column = fit_column(pl.Series("x", [0.22, None, 0.05, 1.0])).column
    (said,) = column.encode(pl.Series("x", ["0.22", "NA", "<3"])).warnings
    assert said.code == "column.unknown_limits"
    assert not column.encode(pl.Series("x", [" 0.22", "NA", "1e-3"])).warnings
    (said,) = column.encode(pl.Series("x", [" 0.5%", "22%", None])).warnings
    assert said == Message.of("column.marks", "x", example="0.5%", number=0.5)


def test_what_only_looks_like_a_number_is_missing():
    frame = pl.DataFrame({"zip": [float(k % 37) for k in range(200)], "y": range(200)})
    encoding = TableEncoding.fit(frame, "y")
    words = pl.DataFrame({"zip": ["3", "94707-1620", "5"], "y": [1.0, 2.0, 3.0]})
    rows, remarks = encoding.encode(words)[:2]
    np.testing.assert_array_equal(rows[:, 0], [3.0, np.nan, 5.0])
    assert remarks[0].values["where"] == "'94707-1620' in data row 2"


def test_magnitudes_mean_the_same_in_any_company():
    encoding = TableEncoding.fit(pl.DataFrame({"p": MILLIONS, "y": range(40)}), "y", "regression")
    for words, dollars in ((["$545K"], 545e3), (["$7"], 7.0), (["7"], 7.0)):
        assert encoding.encode(pl.DataFrame({"p": words})).X.tolist() == [[dollars]]


def test_codes_that_begin_with_0_are_levels():
    column = fit_column(pl.Series("zip", ["01234", "98765", "00501"] * 10)).column
    assert column.levels == ("00501", "01234", "98765")
    numbers = fit_column(pl.Series("n", ["0123", "45"] * 10)).column
    assert numbers.feature_names == ["n"]


def target_of(words: list[str]) -> TableEncoding:
    return TableEncoding.fit(pl.DataFrame({"x": range(len(words)), "y": words}), "y")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["€1,200", "€1,300"], "is '€1,200' in data row 1, but the unit of the model is '$'"),
        (["1,92 €", None], "is '1,92 €' in data row 1, but the unit of the model is '$'"),
        (["$5", "$6", "€6"], "all in '$' or all plain numbers, got '$5', and '€6' in data row"),
        (["$5", None, "6"], "all in '$' or all plain numbers, got '$5', and '6' in data row 3"),
        (["three", "four"], "must be a number, got 'three'"),
    ],
)
def test_another_unit_is_refused_however_it_is_written(words, message):
    encoding = target_of([f"${k}.50" for k in range(40)])
    with pytest.raises(TableError, match=message.replace("$", r"\$")):
        encoding.target(pl.DataFrame({"x": range(len(words)), "y": words}))
    for own, value in (("$1,200.50", 1200.5), ("7.25", 7.25), ("$2K", 2000.0)):
        assert encoding.target(pl.DataFrame({"x": [1], "y": [own]})).tolist() == [value]


def test_a_part_of_a_target_is_read_as_the_whole():
    """Of eight rows that all have three digits behind the comma only the whole tells."""
    words = ["1,234"] * 8 + [f"{k},5" for k in range(32)]
    frame = pl.DataFrame({"x": range(40), "y": words})
    parts = divide(frame, "y", None, HoldOut(0.0))
    assert parts.frame["y"][:8].to_list() == [1.234] * 8
    parts = parts._replace(is_test=parts.numbers > 8)
    assert parts.encoding().marks == Marks("decimal comma", "")


@settings(deadline=None)
@given(
    digit=st.integers(1, 9),
    length=st.integers(2, 15),
    sign=st.sampled_from([-1, 1]),
    share=st.sampled_from([0.1, 0.3, 0.6, 1.0]),
    n=st.sampled_from([1, 2, 3, 40]),
)
def test_stand_ins_of_any_length_are_asked_about_where_they_are_far(digit, length, sign, share, n):
    """One of three digits or more is beyond twice all others, in rows enough."""
    value = float(f"{sign * digit}" + str(digit) * (length - 1))
    others = [-0.1 * share * abs(value), 0.0, 0.5 * share * abs(value), share * abs(value)]
    numbers = pl.Series("temperature", others * 10 + [value] * n)
    is_far = (length > 2 or sign < 0) and share < 0.5 and n >= (2 if digit == 9 else 3)
    asked = stand_in(numbers)
    remark = Message.of("column.stand_in", "temperature", value=value, n=n)
    assert asked == (remark,) * is_far


def test_stand_ins_are_asked_about_in_columns_and_in_the_target():
    numbers = pl.Series([0.0, 3.0, 8.0] * 10 + [-9.0] * 2 + [999999.0] * 2)
    frame = pl.DataFrame({"x": range(len(numbers)), "z": numbers, "y": numbers})
    questions = TableEncoding.fit(frame.with_columns(x=pl.col("x") % 7), "y").questions
    asked = [one for one in questions if one.code.endswith(".stand_in")]
    assert len(asked) == 4
    assert asked[0] == Message.of("target.stand_in", "y", value=-9.0, n=2)


def test_a_few_numbers_of_another_unit_count_as_missing():
    words = [f"{k % 17} kmpl" for k in range(60)] + ["3 km/kg", "0"]
    frame = pl.DataFrame({"w": words, "y": range(62)})
    encoding = TableEncoding.fit(frame, "y", "regression")
    shown = "'0', '3 km/kg' in 2 rows"
    assert Message.of("column.words", "w", others="numbers", words=shown) in encoding.questions
    later = encoding.encode(pl.DataFrame({"w": ["9 kmpl", "8 km/kg", "0"]}))
    assert np.isnan(later.X[:, 0]).tolist() == [False, True, True]
    where = "'8 km/kg' in data row 2"
    assert later.warnings[0] == Message.of("stray.missing", "w", holds="numbers", where=where)


def test_thousands_and_millions_are_one_unit_where_another_currency_is_none():
    frame = pl.DataFrame({"w": [f"${k % 17}K" for k in range(60)] + ["$1M"], "y": range(61)})
    encoding = TableEncoding.fit(frame, "y", "regression")
    later = encoding.encode(pl.DataFrame({"w": ["$2M", "$3K", "€5K"]}))
    np.testing.assert_array_equal(later.X[:, 0], [2e6, 3e3, np.nan])
    where = "'€5K' in data row 3"
    assert later.warnings[0] == Message.of("stray.missing", "w", holds="numbers", where=where)


def test_columns_that_hold_one_far_number_share_a_remark():
    far = [float(k % 5) for k in range(40)] + [-9.0] * 3
    frame = pl.DataFrame({"a": far, "b": far[::-1], "y": range(43)})
    questions = TableEncoding.fit(frame, "y", "regression").questions
    assert [one.columns for one in questions if one.code == "column.stand_in"] == [("a", "b")]
