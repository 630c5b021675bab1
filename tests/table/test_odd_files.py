"""Damaged and odd files: each gives the table, or one error that names all that is wrong."""

from __future__ import annotations

import gzip
from datetime import datetime

import duckdb
import numpy as np
import polars as pl
import pytest

from bayesprop.table.division import HoldOut, divide
from bayesprop.table.errors import TableError
from bayesprop.table.files import zstd
from bayesprop.table.read import read_table
from bayesprop.table.values import as_duration

N = 24
FRAME = pl.DataFrame(
    {
        "area": [1.5 + k for k in range(N)],
        "town": ["Köln", "Genève"] * (N // 2),
        "y": [k * k for k in range(N)],
    }
)


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


@pytest.mark.parametrize("rest", ["x" * 200_000, "1,Köln,4\n" + "1,2,3\n" * 30_000])
def test_a_quotation_mark_left_open_in_a_long_file_is_asked_for(rest, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f'a,b,c\n1\n1,2,3\n"{rest}')
    with pytest.raises(TableError, match="is a closing quotation mark missing") as found:
        read_table(str(path))
    assert "line 2: 1 field" in str(found.value)
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
    assert [(one.code, one.values["other"], one.values["how"]) for one in found.value.problems] == [
        ("file.differing", "b.parquet", "'town' (String, absent)"),
        ("file.differing", "d.parquet", "'y' (Int64, String)"),
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
    with pytest.raises(TableError, match=r"package duckdb: pip install 'bayesprop\[duckdb\]'"):
        read_table(str(path))


@pytest.mark.parametrize("packer", [gzip.compress, zstd.compress])
def test_packed_text_that_ends_too_soon_is_said_to(packer, tmp_path):
    path = tmp_path / f"t.csv.{'gz' if packer is gzip.compress else 'zst'}"
    path.write_bytes(packer(FRAME.write_csv().encode())[:-5])
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
    assert (lacks.code, lacks.columns) == ("columns.lacking_but_some", ("x0",))
    assert (target.code, target.columns) == ("stray", ("y",))
    rows, remarks = encoding.encode(words)[:2]
    np.testing.assert_array_equal(rows, [[1.5] * 30, *[[np.nan] * 30] * 3])
    assert (remarks[0].code, len(remarks[0].columns)) == ("stray.missing", 30)
    assert "'x0' ('x' in data row 2, 'inf' in data row 4), 'x1' ('x'" in str(remarks[0])


def test_dates_that_there_are_not_and_text_that_is_none_are_refused(tmp_path):
    path = str(tmp_path / "t.feather")
    for days in (-719_163, 2_932_897, 2**31 - 1):
        pl.DataFrame({"when": pl.Series([0, days], dtype=pl.Int32).cast(pl.Date)}).write_ipc(path)
        with pytest.raises(TableError) as found:
            read_table(path)
        assert found.value.problems[0].code == "file.moments"
    for unit in ("ms", "us", "ns"):
        moments = [datetime(1700, 1, 2, 3), None, datetime(2200, 1, 1)]
        frame = pl.DataFrame({"when": pl.Series(moments, dtype=pl.Datetime(unit))})
        frame.with_columns(at=pl.col("when").dt.time()).write_ipc(path)
        assert read_table(path)["when"].to_list() == moments
    digits = pl.Series(["\N{FULLWIDTH DIGIT ONE}:30:00", "2:30:00"])
    assert as_duration(digits).null_count() == 1


MANY = {
    "t.jsonl": ("file.too_many_cells", [f'{{"k{i}": {i}}}' for i in range(9_000)]),
    "t.csv": ("header.too_many", [",".join(f"c{i}" for i in range(32_769)), "1," * 32_768 + "1"]),
}


@pytest.mark.parametrize("name", MANY)
def test_more_columns_than_can_be_understood_are_refused_at_once(name, tmp_path):
    """Of JSON lines before they are columns."""
    code, lines = MANY[name]
    (tmp_path / name).write_text("\n".join(lines))
    with pytest.raises(TableError) as found:
        read_table(str(tmp_path / name))
    assert found.value.problems[0].code == code
