"""Tables in text; `test_corpus.py` reads the odd ones."""

import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesprop.table import read as tables
from bayesprop.table.delimited import Header, unique_names
from bayesprop.table.errors import TableWarning


def read(table, **kwargs):
    return tables.parse(table.encode(), "'t.csv'", **kwargs).to_dict(as_series=False)


PLAIN = st.text(alphabet="ab1. é'", max_size=3)


@given(
    st.integers(1, 3).flatmap(
        lambda d: st.lists(st.lists(PLAIN, min_size=d, max_size=d + 1), min_size=1, max_size=6)
    ),
    st.sampled_from(["\n", "\n\n", ""]),
)
def test_the_compiled_reader_agrees_with_the_exact_one_or_stands_back(rows, end):
    header = [f"c{i}" for i in range(min(len(row) for row in rows))]
    text = "\n".join(",".join(row) for row in rows) + end
    fast = tables._fast(text, ",", len(header))
    if fast is not None:
        exact, _ = tables._exact(Header(header, text, 0), ",", "'t.csv'")
        assert fast.fill_null("").rows() == exact.rows()


def test_the_compiled_reader_serves_plain_text():
    assert tables._fast("1,2\n,4\n", ",", 2) is not None


def test_columns_that_stay_text_do_so_whatever_the_other_rows_hold():
    kept = read("a,code,flag\n1,1.10,True\n2,01,False\n", text=("code", "flag"))
    assert kept == {"a": [1, 2], "code": ["1.10", "01"], "flag": ["True", "False"]}
    with pytest.warns(TableWarning, match="decimal commas"):
        kept = read("code;a\n1,10;2,5\n", text=("code",))
    assert kept == {"code": ["1,10"], "a": [2.5]}


def test_a_header_longer_than_a_field_of_the_csv_module_is_read():
    names = [f"gene_{i:0100d}" for i in range(1_400)]
    found = read(",".join(names) + "\n" + ",".join(["1"] * 1_400) + "\n")
    assert list(found) == names


def test_names_are_unique_among_all_of_them():
    assert unique_names(["a", "a", "a (2)", "a"]) == ["a", "a (3)", "a (2)", "a (4)"]
    assert unique_names(["", "unnamed_1", ""]) == ["unnamed_1_", "unnamed_1", "unnamed_3"]
    rng = random.Random(0)
    for _ in range(200):
        names = rng.choices(["", "a", "a (2)", "a (3)", "b", "unnamed_1", "unnamed_2"], k=6)
        unique = unique_names(names)
        assert len(set(unique)) == len(names)
        firsts = {name: names.index(name) for name in names if name}
        assert all(unique[place] == name for name, place in firsts.items())


def test_sheets_have_unique_names_too(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": [1], "a ": [2]}).write_parquet(path)
    with pytest.warns(TableWarning, match="called 'a': .* later columns are called 'a \\(2\\)'"):
        assert tables.read_table(str(path)).columns == ["a", "a (2)"]
