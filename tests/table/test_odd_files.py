"""Damaged and odd files: each gives the table, or one error that names all that is wrong."""

from __future__ import annotations

import gzip
import json
from functools import partial

import duckdb
import numpy as np
import polars as pl
import pytest
from backports import zstd

from bayesprop.table.division import HoldOut, divide
from bayesprop.table.errors import TableError
from bayesprop.table.read import read_table

N = 24
ROWS = [(f"{1.5 + k}", ["Köln", "Genève"][k % 2], f"{k * k}") for k in range(N)]
FRAME = pl.DataFrame(
    {
        "area": [1.5 + k for k in range(N)],
        "town": ["Köln", "Genève"] * (N // 2),
        "y": [k * k for k in range(N)],
    }
)


def text(separator=",", end="\n", header=("area", "town", "y"), **changed):
    """Write the table, with other lines where some are given by their number."""
    lines = [separator.join(row) for row in (header, *ROWS)]
    for number, line in changed.items():
        lines[int(number.removeprefix("line")) - 1] = line
    return end.join([*lines, ""])


def with_column(name, values):
    return "\n".join(f"{name if k == 0 else values[k - 1]},{line}" for k, line in LINES)


LINES = list(enumerate(text().splitlines()))


@pytest.mark.parametrize(
    ("codec", "name", "words"),
    [
        ("cp1252", "Windows-1252", ["€ 5 – “new”"]),
        ("cp1252", "Windows-1252", ["21 °C", "± 5 µg", "£ 3"]),
        ("cp1252", "Windows-1252", ["Jyväskylä", "Hämeenlinna"]),
        ("cp932", "Shift-JIS", ["東京", "名古屋"]),
        ("gb18030", "GB 18030", ["北京", "上海", "广州"]),
        ("cp949", "EUC-KR", ["서울", "부산"]),
        ("big5", "Big5", ["臺北", "高雄"]),
        ("cp1251", "Windows-1251", ["Москва", "Казань"]),
        ("koi8_r", "KOI8-R", ["Москва", "Казань"]),
        ("cp1253", "Windows-1253", ["Αθήνα", "Πάτρα"]),
        ("cp1253", "Windows-1253", ["πόλη", "εμβαδόν", "τιμή"]),
        ("koi8_r", "KOI8-R", ["город", "площадь", "Москва"]),
        ("cp1251", "Windows-1251", ["город", "площадь", "цена"]),
    ],
)
def test_older_codecs_are_guessed_by_their_words(codec, name, words, tmp_path):
    path, rows = tmp_path / "t.csv", words * 20
    path.write_bytes("\n".join(["price,note", *(f"1,{row}" for row in rows)]).encode(codec))
    with pytest.warns(UserWarning, match=f"is not UTF-8: read as {name};"):
        assert read_table(str(path))["note"].to_list() == rows


def test_a_long_file_is_not_cut_within_a_letter(tmp_path):
    path, rows = tmp_path / "t.csv", ["東京", "名古屋"] * 20_000
    path.write_bytes("\n".join(["price,note", *(f"1,{row}" for row in rows)]).encode("cp932"))
    with pytest.warns(UserWarning, match="read as Shift-JIS"):
        assert read_table(str(path))["note"].to_list() == rows
    path.write_bytes(path.read_bytes() + b"1,\x81\n")
    with (
        pytest.warns(UserWarning, match="read as Shift-JIS"),
        pytest.raises(TableError, match="is damaged Shift-JIS text: save it as UTF-8"),
    ):
        read_table(str(path))


def test_single_quotes_hold_separators_and_apostrophes_are_left_alone(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("n,note,y\n1,'a, b',3\n2,'it''s, c',4\n3,don't,5\n")
    assert read_table(str(path))["note"].to_list() == ["a, b", "it's, c", "don't"]
    path.write_text("n,note,y\n1,'70s,3\n2,rock 'n' roll,4\n3,5',5\n")
    assert read_table(str(path))["note"].to_list() == ["'70s", "rock 'n' roll", "5'"]
    path.write_text(f"note,y\n'{'x' * 200_000},3\n")  # longer than a field in quotes may be
    assert read_table(str(path)).shape == (1, 2)


@pytest.mark.exhaustive
def test_ten_thousand_columns_are_read(tmp_path):
    path = tmp_path / "t.csv"
    lines = [",".join(f"{k}{j}" for j in range(10_000)) for k in ("c", "1", "2")]
    path.write_text("\n".join(lines))
    assert read_table(str(path)).shape == (2, 10_000)
    path.write_text("\n".join([*lines, "1,2", lines[1] + ",3"]))
    with pytest.raises(TableError, match=r"line 4: 2 fields, line 5: 10001 fields, but the header"):
        read_table(str(path))


def test_a_folder_of_parquet_is_one_table(tmp_path):
    for name, rows in (("b.parquet", FRAME[5:]), ("a.parquet", FRAME[:5])):
        rows.write_parquet(tmp_path / name)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".cache").mkdir()
    FRAME.drop("town").write_parquet(tmp_path / ".cache" / "other.parquet")
    assert read_table(f"{tmp_path}/").equals(FRAME)
    years = tmp_path / "run=7"
    for year in (2023, 2024):
        (years / f"year={year}").mkdir(parents=True)
        FRAME.write_parquet(years / f"year={year}" / "part.parquet")
    frame = read_table(str(years))
    assert frame.columns == ["area", "town", "y", "year"]
    assert frame["year"].to_list() == [2023] * N + [2024] * N


def test_parts_of_a_folder_that_do_not_fit_are_all_named(tmp_path):
    FRAME.write_parquet(tmp_path / "a.parquet")
    FRAME.drop("town").write_parquet(tmp_path / "b.parquet")
    FRAME.select("y", "town", "area").write_parquet(tmp_path / "c.parquet")
    FRAME.cast({"y": pl.String}).write_parquet(tmp_path / "d.parquet")
    with pytest.raises(TableError) as found:
        read_table(str(tmp_path))
    assert [problem.split(": ", 1)[1] for problem in found.value.problems] == [
        "'a.parquet' and 'b.parquet' differ in their columns: 'town' (String, absent)",
        "'a.parquet' and 'd.parquet' differ in their columns: 'y' (Int64, String)",
    ]


def test_duckdb(tmp_path):
    path = tmp_path / "base.db"  # whatever it is called
    with duckdb.connect(str(path)) as base:
        base.register("frame", FRAME.to_arrow())
        base.execute("create table houses as select * from frame")
        base.execute("create schema old; create table old.flats as select 1 as a")
        base.execute("create view hosts as select * from read_text('/etc/hosts')")
    assert read_table(f"{path}::houses").equals(FRAME)
    assert read_table(f"{path}::old.flats")["a"].to_list() == [1]
    with pytest.raises(TableError, match=r"holds 'hosts', 'houses', 'old\.flats': name one"):
        read_table(str(path))
    with pytest.raises(TableError, match="disabled by configuration"):
        read_table(f"{path}::hosts")


def test_duckdb_says_what_it_needs(tmp_path, monkeypatch):
    path = tmp_path / "base.duckdb"
    duckdb.connect(str(path)).close()
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(TableError, match="needs the package duckdb: pip install duckdb"):
        read_table(str(path))


DATES = ["2024-01-31", "31.1.2024", "2024/01/31"] * (N // 3)
BROKEN = {
    "ragged rows": (
        text(line3="1", line5="1,2,3,4"),
        ["line 3: 1 field, line 5: 4 fields, but the header has 3"],
    ),
    "more ragged rows than are listed": (
        text(**{f"line{k}": "1" for k in range(3, 11)}),
        ["line 3: 1 field, line 4: 1 field, line 5: 1 field, line 6: 1 field, line 7: 1 field and"
         " 3 more rows, but the header has 3"],
    ),
    "a quotation mark left open": (
        text(line9='"1,Köln,4'),
        [f"lines 9 to {N + 1}: 1 field, but the header has 3: put text that holds ',' in quotation"
         " marks, close them, or complete the row"],
    ),
    "one left open in a long file": (
        text(line5="1", line9='"1,Köln,4') + "1,2,3\n" * 30_000,
        ["line 5: 1 field", "is a quotation mark left open?"],
    ),
    "one in no row": (
        "a;b;y\n" + "".join(f"1;x; y;{k}\n" for k in range(3)),
        ["line 2: 4 fields, line 3: 4 fields, line 4: 4 fields, but the header has 3"],
    ),
    "words among numbers": (
        text(line3="about 3,Köln,1", line5="n.b.,Köln,x", line6="about 3,Köln,x"),
        ["column 'y' must hold numbers, got 'x' in data rows 4, 5: correct it",
         "column 'area' holds numbers, but 'about 3', 'n.b.' in 3 rows: taken for missing"],
    ),
    "infinite numbers": (
        text(line3="inf,Köln,-inf"),
        ["column 'y' must hold finite numbers, got -inf in data row 2"],
    ),
    "thousands among decimal commas": (
        "a;b;y\n" + "".join(f"{k},5;{k + 1}.250;{k}\n" for k in range(N)),
        ["column 'b' holds '1.250' in a table with decimal commas, where a dot parts thousands"],
    ),
    "all at once": (
        text(header=("area", "area", "y"), line3="1", line4="x,Köln,?", line5="2,Köln,-999",
             line6="inf,Köln,much", line7="-999,Köln,4", line8="-999,Köln,4"),
        ["line 3: 1 field, but the header has 3",
         "'y' must hold numbers, got 'much' in data row 5", "column 'area' left out: it must ho"],
    ),
    "what is asked of other columns": (
        text(line4="-999,Köln,x", line5="-999,Köln,4"),
        ["'y' must hold numbers, got 'x' in data row 3", "column 'area' holds -999 in 2 rows"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.filterwarnings("ignore::bayesprop.table.errors.TableWarning")
def test_all_that_is_wrong_is_named_at_once(name, tmp_path):
    content, messages = BROKEN[name]
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    check = partial(divide, target="y", task=None, hold_out=HoldOut(0.0))
    with pytest.raises(TableError) as found:
        check(read_table(str(path), check=check))
    lines = str(found.value).splitlines()
    assert len(lines) == len(found.value.problems)
    told = iter(lines)
    for message in messages:
        assert any(message in line for line in told), (message, lines)
    assert len(lines) == len(messages)


NOT_UNDERSTOOD = {
    "dates in three forms": (
        with_column("when", DATES),
        "it holds dates of several forms, such as '2024-01-31', but '31.1.2024' in",
    ),
    "days and months": (
        with_column("when", [f"{k % 9 + 1}/{k % 7 + 1}/2024" for k in range(N)]),
        "it holds dates such as '1/1/2024', in which day and month could be exchanged",
    ),
    "lists": (
        "".join(json.dumps({"x": k % 7, "when": [k], "y": k}) + "\n" for k in range(N)),
        "it must hold numbers, true/false or text, got List(Int64)",
    ),
    "parts": (
        "".join(json.dumps({"x": k % 7, "when": {"a": k}, "y": k}) + "\n" for k in range(N)),
        "it must hold numbers, true/false or text, got Struct",
    ),
}


@pytest.mark.parametrize("name", NOT_UNDERSTOOD)
def test_a_column_that_is_not_understood_is_left_out(name, tmp_path):
    content, why = NOT_UNDERSTOOD[name]
    path = tmp_path / ("t.jsonl" if content.startswith("{") else "t.csv")
    path.write_text(content)
    encoding = divide(read_table(str(path)), "y", None, HoldOut(0.0)).encoding()
    assert "when" not in [column.name for column in encoding.columns]
    assert any(one.startswith(f"column 'when' left out: {why}") for one in encoding.questions)


@pytest.mark.parametrize("packer", [gzip.compress, zstd.compress])
def test_packed_text_that_ends_too_soon_is_said_to(packer, tmp_path):
    path = tmp_path / f"t.csv.{'gz' if packer is gzip.compress else 'zst'}"
    path.write_bytes(packer(text().encode())[:-5])
    with pytest.raises(TableError, match="is damaged"):
        read_table(str(path))


def test_what_does_not_fit_a_model_is_named_at_once():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({f"x{k}": rng.normal(size=30) for k in range(30)}).with_columns(
        y=pl.Series(rng.normal(size=30))
    )
    encoding = divide(frame, "y", None, HoldOut(0.0)).encoding()
    words = pl.DataFrame({name: ["1.5", "x", "?", "inf"] for name in frame.columns})
    with pytest.raises(TableError) as found:
        encoding.rows(words.drop("x0"))
    (lacks, target) = found.value.problems
    assert lacks.startswith("the table lacks 1 column that the model needs: 'x0'")
    assert target.startswith("column 'y' must hold numbers, got 'x' in data row 2: correct it, or")
    rows, remarks = encoding.encode(words)
    np.testing.assert_array_equal(rows, [[1.5] * 30, *[[np.nan] * 30] * 3])
    assert remarks[0].startswith("30 columns with values that are not understood, taken for mi")
    assert "'x0' ('x' in data row 2, 'inf' in data row 4), 'x1' ('x'" in remarks[0]
