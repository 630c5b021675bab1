"""What the shell completes: asked as the shell asks."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing

import polars as pl
import pytest
import typer
from house_table import as_csv, house_rows

from bayesprop.cli import app
from bayesprop.cli.completion import column_names

COMMAND = typer.main.get_command(app)


@pytest.fixture
def complete(monkeypatch, capsys, tmp_path):
    """Return what bash would be offered after some words; files are those of a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "houses.csv").write_text(as_csv(house_rows(n=3)))
    (tmp_path / "m.bayesprop").write_text("")
    (tmp_path / "models").mkdir()
    monkeypatch.setenv("_BAYESPROP_COMPLETE", "complete_bash")

    def ask(line):
        monkeypatch.setenv("COMP_WORDS", f"bayesprop {line}")
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" "))))
        with pytest.raises(SystemExit):
            COMMAND.main([], prog_name="bayesprop")
        return capsys.readouterr().out.split()

    return ask


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("fit houses.csv --target pr", ["price"]),
        ("fit houses.csv --group ", ["area", "rooms", "town", "price"]),
        ("predict m.bayesprop houses.csv --columns area,to", ["area,town"]),
        ("fit diabetes --drop b", ["bmi", "bp"]),
        ("fit houses.csv --drop area,to", ["area,town"]),
        ("fit houses.csv --method lo", ["logistic"]),
        ("compare houses.csv --method lin", ["linear"]),
        ("fit hou", ["houses.csv"]),
        ("fit diab", ["diabetes"]),
        ("predict m", ["m.bayesprop", "models/"]),
        ("fit absent.csv --target pr", []),
        ("fi", ["fit"]),
    ],
)
def test_what_is_offered(complete, line, offered):
    assert complete(line) == offered


@pytest.mark.parametrize(
    "content",
    [
        "sep=;\na;Stadt;Größe\n1;2;3\n".encode("cp1252"),
        "# of 2024\n\na,Stadt,Größe\n1,2,3\n".encode(),
        "a;Stadt;Größe\n1;2;3\n".encode("utf-16"),
        "a Stadt Größe\n1 2 3\n4 5 6\n".encode(),
        "a,Stadt,Größe\n".encode() + b"1,2,3\n" * 200_000,
    ],
)
def test_columns_are_those_that_a_fit_reads(content, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    assert column_names(str(path)) == ["a", "Stadt", "Größe"]


def test_columns_of_every_kind_of_file(tmp_path):
    header, frame = 'a;"b;c"; d\n', pl.DataFrame({"a": [1], "b;c": [2], "d": [3]})
    (tmp_path / "t.csv").write_text(header + "broken rows are not read\n" * 3)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(f"{header}1;2;3\n".encode()))
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ndjson(tmp_path / "t.jsonl")
    frame.write_excel(tmp_path / "t.xlsx")
    with closing(sqlite3.connect(tmp_path / "t.db")) as base:
        base.execute('create table houses (a, "b;c", d)')
        base.execute("insert into houses values (1, 2, 3)")
        base.commit()
    for kind in ("csv", "csv.gz", "parquet", "jsonl", "xlsx", "db", "db::houses"):
        assert column_names(str(tmp_path / f"t.{kind}")) == frame.columns
