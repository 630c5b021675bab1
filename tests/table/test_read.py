import io
import sys
from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesprop.table.errors import TableError
from bayesprop.table.read import read_table
from bayesprop.table.write import write_table

FRAME = pl.DataFrame(
    {"a": [1.5, None, 1e-300], "b": ["x,y", 'q"', "é\n"], "c": [True, False, None]}
)


def test_standard_streams(monkeypatch, capfdbinary):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a;b\n1;2\n")))
    frame = read_table("-")
    assert frame.to_dict(as_series=False) == {"a": [1], "b": [2]}
    write_table(frame, "-")
    assert capfdbinary.readouterr().out == b"a,b\n1,2\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    with pytest.raises(TableError, match="standard input is empty"):
        read_table("-")


def test_missing_files_and_folders(tmp_path):
    (tmp_path / "t.doc").write_bytes(b"PK")
    with pytest.raises(TableError, match=r"must end in \.csv, \.tsv, \.parquet,"):
        read_table(str(tmp_path / "t.doc"))
    with pytest.raises(TableError, match=r"there is no file '.*nothing.csv'$"):
        read_table(str(tmp_path / "nothing.csv"))
    (tmp_path / "none").mkdir()
    with pytest.raises(TableError, match="is a folder without"):
        read_table(str(tmp_path / "none"))
    write_table(FRAME.head(0), str(tmp_path / "t.parquet"))
    with pytest.raises(TableError, match="has no rows"):
        read_table(str(tmp_path / "t.parquet"))


@given(text=st.text(st.sampled_from("=+-@\t\r a1'"), min_size=1), number=st.floats(-9, 9))
def test_escaped_text_never_begins_as_a_formula_and_numbers_stay(tmp_path_factory, text, number):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    frame = pl.DataFrame(
        {"'+": [1], "+": [2], "=name": [text], "level": pl.Series([text], dtype=pl.Categorical)}
    )
    write_table(frame.with_columns(number=number), str(path), escape_formulas=True)
    found = pl.read_csv(path, infer_schema_length=0)
    assert found.columns == ["'+", "''+", "'=name", "level", "number"]
    assert float(found["number"][0]) == number
    for (cell,) in (found["'=name"], found["level"]):
        assert cell.removeprefix("'") == text.removeprefix("'")
        assert cell.startswith("'") or cell == text
        assert not cell.startswith(tuple("=+-@\t\r"))
    with pytest.raises(TableError, match=r"must be .*\.csv|needs out that is a \.csv"):
        write_table(frame, str(path.with_suffix(".parquet")), escape_formulas=True)


def test_unknown_suffix_and_missing_folder_of_an_output(tmp_path):
    with pytest.raises(TableError, match=r"must end in \.csv, .*, or be -"):
        write_table(FRAME, str(tmp_path / "t.xls"))
    with pytest.raises(TableError, match="No such file or directory"):
        write_table(FRAME, str(tmp_path / "none" / "t.csv"))
