"""Tables in files of other kinds than text: what went in comes out."""

from __future__ import annotations

import datetime
import gzip
import json
import signal
import sqlite3

import polars as pl
import pytest
import xlsxwriter

from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import TableError, TableWarning
from bayesprop.table.files import MOST_BYTES
from bayesprop.table.read import read_table

FRAME = pl.DataFrame({"x": [1.5, None, 3.0], "town": ["Ulm", "Bath", None], "n": [1, 2, 3]})


def database(path, **tables):
    base = sqlite3.connect(path)
    for name, frame in tables.items():
        base.execute(f'create table "{name}" ({", ".join(frame.columns)})')
        marks = ", ".join("?" * frame.width)
        base.executemany(f'insert into "{name}" values ({marks})', frame.rows())
    base.commit()
    base.close()


def sheet_of(folder, *rows, **settings):
    """A workbook of one sheet."""
    path = folder / "book.xlsx"
    with xlsxwriter.Workbook(path, settings) as book:
        sheet = book.add_worksheet()
        for k, row in enumerate(rows):
            sheet.write_row(k, 0, row)
    return str(path)


def test_a_sheet_with_dates(tmp_path):
    path = tmp_path / "book.xlsx"
    days = [datetime.date(2024, 1, 31), datetime.date(2024, 9, 2), None]
    prices = pl.DataFrame({"sold": days, "town": ["Ulm", "Bath", "Ulm"], "price": [1.5, 2, 4]})
    with xlsxwriter.Workbook(path) as book:
        pl.DataFrame({"a": [1], "b": [2]}).write_excel(book, "first")
        prices.write_excel(book, "prices")
    assert read_table(str(path)).columns == ["a", "b"]
    frame = read_table(f"{path}::prices")
    assert frame["sold"].cast(pl.Date).to_list() == days
    assert frame["price"].to_list() == [1.5, 2.0, 4.0]
    encoding = TableEncoding.fit(frame, "price", "regression")
    assert "sold (years)" in encoding.feature_names
    with pytest.raises(TableError, match="has no sheet 'other': 'first', 'prices'"):
        read_table(f"{path}::other")


def test_a_sheet_is_read_to_its_end(tmp_path, caplog):
    names, late = ["number", "late", "", "", "empty"], ["none", 2.5, "a"]
    rows = [*([k] for k in range(1100)), *[late] * 100, *[[]] * 299, [" "]]
    frame = read_table(sheet_of(tmp_path, names, *rows))
    assert frame.columns == ["number", "late", "unnamed_3", "empty"]
    assert frame.shape == (1200, 4)
    assert frame["number"].to_list() == [*map(str, range(1100)), *[None] * 100]
    assert frame["late"].to_list() == [None] * 1100 + [2.5] * 100
    assert not caplog.records


def test_names_of_a_sheet_that_repeat_are_told_apart_as_in_text(tmp_path):
    path = sheet_of(tmp_path, [], ["", " a", "a", "", 2019], ["", 1, 2, 3, 4])
    with pytest.warns(TableWarning, match="later columns are called 'a \\(2\\)'"):
        assert read_table(path).columns == ["a", "a (2)", "unnamed_3", "2019"]


TITLE = "'Prices' seems to be a title above the column names"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[]], "has no rows"),
        ([["a", "b"]], "has no rows"),
        ([["Prices"], [], ["a", "b", "c"], [1, 2, 3]], TITLE),
    ],
)
def test_a_sheet_without_rows_or_with_a_title_is_refused(tmp_path, rows, message):
    with pytest.raises(TableError, match=message):
        read_table(sheet_of(tmp_path, *rows))


def test_a_sheet_has_integers_and_days_as_people_write_them(tmp_path):
    day, noon = datetime.date(2024, 1, 31), datetime.datetime(2024, 1, 31, 12)
    rows = ["id", "sold", "seen", "area"], [100000, day, noon, 1.5], [None, None, day, 2]
    frame = read_table(sheet_of(tmp_path, *rows, default_date_format="yyyy-mm-dd hh:mm"))
    assert frame.write_csv().splitlines()[1] == "100000,2024-01-31,2024-01-31T12:00:00.000,1.5"
    assert frame.dtypes == [pl.Int64, pl.Date, pl.Datetime("ms"), pl.Float64]


def test_a_table_of_a_base_is_named(tmp_path):
    path = tmp_path / "base.db"
    database(path, houses=FRAME, flats=FRAME[:1])
    assert read_table(f"{path}::flats").equals(FRAME[:1])
    with pytest.raises(TableError, match="holds 'houses', 'flats': name one, as in FILE::TABLE"):
        read_table(str(path))
    with pytest.raises(TableError, match="has no table 'x; drop table houses'"):
        read_table(f"{path}::x; drop table houses")


@pytest.mark.parametrize(
    "kind", ["parquet", "feather", "jsonl", "json", "db", "xlsx", "csv.gz", "csv.xz"]
)
def test_damaged_files_are_said_to_be_in_one_line(kind, tmp_path):
    path = tmp_path / f"t.{kind}"
    for content in (b"{ not what it is called", b"PAR1 and nothing", b""):
        path.write_bytes(content)
        with pytest.raises(TableError, match=r"t\.") as found:
            read_table(str(path))
        assert "\n" not in str(found.value)


def test_a_sheet_that_its_reader_cannot_hold_ends_no_more_than_the_reading(tmp_path):
    path = tmp_path / "book.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet()
        sheet.write(0, 0, "x")
        sheet.write(2**20 - 1, 2**14 - 1, 1.0)
    with pytest.raises(TableError, match=r"is not a readable .xlsx file: it is damaged, or large"):
        read_table(str(path))


@pytest.fixture
def at_most_100_kb():
    token = MOST_BYTES.set(100_000)
    yield
    MOST_BYTES.reset(token)


@pytest.mark.usefixtures("at_most_100_kb")
def test_what_is_larger_than_allowed_is_refused_before_it_is_in_memory(tmp_path):
    path, wide = tmp_path / "t.csv", [{f"x{k}": 1} for k in range(50)]
    packed, rows = gzip.compress(b"x,y\n" + b"1,2\n" * 10**6), tmp_path / "t.json"
    (tmp_path / "t.csv.gz").write_bytes(packed)
    path.write_bytes(b"x,y\n" + b"1,2\n" * 30_000)
    rows.write_text(json.dumps(wide))
    for source in (f"{path}.gz", path, rows, "/dev/zero"):
        with pytest.raises(TableError, match=r"too (large|many): at most 9.31e-05 GiB are read"):
            read_table(str(source))
    base = tmp_path / "t.db"
    database(base, t=pl.DataFrame({"a": range(3000)}))
    with pytest.raises(TableError, match="its 3000 cells or more are too many"):
        read_table(str(base))


def test_a_base_is_left_alone_and_a_view_without_end_can_be_interrupted(tmp_path):
    path = tmp_path / "base.db"
    database(path, t=FRAME)
    base = sqlite3.connect(path)
    base.execute("pragma journal_mode = wal")
    endless = (
        "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c"
    )
    base.execute(f"create view v as {endless}")
    assert read_table(f"{path}::t").equals(FRAME)  # what is not in the file itself yet, too
    base.close()
    assert read_table(f"{path}::t").equals(FRAME)
    assert [one.name for one in tmp_path.iterdir()] == ["base.db"]
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            read_table(f"{path}::v")
    finally:
        signal.signal(signal.SIGALRM, before)


def test_rows_of_json_may_differ_in_what_they_hold(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('[{"a": 1, "b": "x"}, {"a": 2.5, "c": true}, {"b": 3, "a": null}]')
    frame = read_table(str(path))
    assert frame.to_dict(as_series=False) == {
        "a": [1.0, 2.5, None], "b": ["x", None, "3"], "c": [None, True, None]
    }  # fmt: skip
    path.write_text('{"a": 1}\n{"a": 2}\n')
    assert read_table(str(path))["a"].to_list() == [1, 2]
    path.write_text("[" * 100_000)
    with pytest.raises(TableError, match="is not a readable"):
        read_table(str(path))
    path.write_text('{"rows": [{"a": 1}]}')
    with pytest.raises(
        TableError, match=r"a \.json file must contain a list of rows, such as \[\{"
    ):
        read_table(str(path))


def test_a_column_of_a_base_may_hold_anything(tmp_path):
    path = tmp_path / "base.db"
    mixed = {"a": [1, 2.5, None], "b": ["x", 3, None]}
    database(path, t=pl.DataFrame(mixed, schema=dict.fromkeys(mixed, pl.Object)))
    frame = read_table(str(path))
    assert frame.to_dict(as_series=False) == {"a": [1.0, 2.5, None], "b": ["x", "3", None]}
