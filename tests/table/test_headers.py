"""Files without a header, with comments above it, names that repeat or lack, notes below."""

from __future__ import annotations

import random

import polars as pl
import pytest

from bayesprop.table.errors import TableError, TableWarning
from bayesprop.table.headers import unique_names
from bayesprop.table.read import parse, read_table


def read(text, separator=None):
    return parse(text.encode(), "'t.csv'", separator).to_dict(as_series=False)


def told(text, *messages, separator=None):
    """Return the table, which is read with one warning that holds the messages."""
    with pytest.warns(TableWarning) as caught:
        table = read(text, separator)
    sentences = [str(one.message) for one in caught]
    assert len(sentences) == 1, sentences
    assert sentences[0].startswith("'t.csv' ")
    for message in messages:
        assert message in sentences[0]
    return table


ROWS = {
    "pima": "6,148,72,35,0,33.6,0.627,50,1\n1,85,66,29,0,26.6,0.351,31,0\n",
    "a class behind": "5.1,3.5,1.4,setosa\n4.9,3.0,1.4,setosa\n6.3,3.3,6.0,virginica\n",
    "a class before": "M,0.455,0.365\nF,0.53,0.42\nM,0.35,0.265\n",
    "whole numbers, one of them twice": "30,64,1,1\n30,62,3,1\n31,65,4,2\n",
    "words, and a number twice": "25, Private, 0, 0, <=50K\n38, Private, 0, 0, <=50K\n",
    "missing values": "2,?,38.50,?\n1,1,39.2,NA\n",
    "nothing but a row": "1.5,2\n",
    "blanks": " 0.00632  18.00   2.310  0\n 0.02731   0.00   7.070  0\n",
    "semicolons": "1.5;2;x\n2.5;3;y\n",
    "below a comment": "# from the archive\n1.5,2,3\n2.5,3,4\n",
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.filterwarnings("ignore:.*comments:bayesprop.table.errors.TableWarning")
def test_a_first_line_of_values_is_a_row(name):
    lines = [line for line in ROWS[name].splitlines() if not line.startswith("#")]
    separator = ";" if ";" in lines[0] else "," if "," in lines[0] else None
    rows = [[field.strip() for field in line.split(separator)] for line in lines]
    n_columns = len(rows[0])
    with pytest.warns(TableWarning, match=f"--target column_{n_columns}, in Python"):
        table = read(ROWS[name])
    assert list(table) == [f"column_{k}" for k in range(1, n_columns + 1)]
    for k, values in enumerate(table.values()):
        for value, row in zip(values, rows, strict=True):
            field = row[k]
            expected = None if field in ("?", "NA") else field
            is_number = isinstance(value, int | float)
            assert value == (float(field) if is_number else expected)


def test_what_is_said_of_a_file_without_a_header():
    told(
        "6,148,33.6,1\n1,85,26.6,0\n",
        "has no header line, as its first line holds values ('6', '148', '33.6' and 1 more)",
        "the columns are called 'column_1' to 'column_4'; name a target so",
    )


HEADERS = [
    "a,b\n1,2\n",
    "country,1990,1991\nA,1,2\nB,3,4\n",
    "1990,1991,1992\n1990,1991,1992\n",
    "1990.0,1991.0\n1,2\n",
    "2,1,0\n1,1,1\n",
    ",".join(map(str, range(784))) + "\n" + ",".join(["0"] * 784) + "\n",
    "label," + ",".join(map(str, range(784))) + "\n" + ",".join(["5"] + ["0"] * 784) + "\n",
    "date,0.025,0.5,0.975\n2024-01-01,1,2,3\n2024-01-02,1,2,3\n",
    "country,0.1,0.5,0.9\nA,1,2,3\ncountry,0.1,0.5,0.9\nB,1,2,3\n",
    ",0.1,0.5\n0,1.5,2.5\n1,2.5,3.5\n",
    "-1,0,1\n0.5,1.5,2.5\n",
    "Apples,Pears\nApples,\n,Pears\n",
    "2.5\n3.5\n",
    "#id,x,y\n1,2,3\n",
    "# id,x,y\n1,2,3\n",
    "#id,x,y\na,b,c\nd,e,f\n",
    "#name,city,age\nA,B,?\nC,D,5\n",
    "#ticket,name\n17599,A\nPC 1,B\n",
    "#colour,name\n#ff0000,red\n#00ff00,green\n",
    "#colour,name\n#ff0000,red\nblue,blue\n",
    "#x\n1\n2\n",
    "a,b\n#1,2\n3,4\n",
]


@pytest.mark.parametrize("text", HEADERS)
def test_a_header_stays_one(text):
    header, *rows = text.splitlines()
    table = read(text)
    assert len(next(iter(table.values()))) == len(rows)
    assert [*table][1:] == header.split(",")[1:]
    assert next(iter(table)) == (header.split(",")[0] or "unnamed_1")


def test_lines_are_counted_in_the_file_and_rows_in_the_data():
    with pytest.warns(TableWarning), pytest.raises(TableError, match="line 3: 1 field, but"):
        read("1.5,2\n3,4\n5\n")
    with pytest.warns(TableWarning), pytest.raises(TableError, match="line 5: 1 field, but"):
        read("# c\n\na,b\n3,4\n5\n")
    with pytest.warns(TableWarning):
        frame = parse(b"1.5,2\n3,?\n", "'t.csv'")
    assert frame["column_2"].to_list() == [2, None]


def test_the_first_of_columns_of_one_name_keeps_it():
    table = told(
        "a,b,a,,b,a\n1,2,3,4,5,6\n",
        "has more than one column called 'a', 'b': the name means the first, also as a target",
        "later ones are called 'a (2)', 'b (2)', 'a (3)'",
    )
    assert table == {"a": [1], "b": [2], "a (2)": [3], "unnamed_4": [4], "b (2)": [5], "a (3)": [6]}


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
    with pytest.warns(TableWarning, match="called 'a': .* later ones are called 'a \\(2\\)'"):
        assert read_table(str(path)).columns == ["a", "a (2)"]


def test_names_of_rows_are_a_column_without_a_name():
    table = told(
        '"x","y"\n"Mazda",1,2\n"Fiat",3,4\n',
        "has 2 names in its header and 3 fields in every row: the first column is taken to have no",
    )
    assert table == {"unnamed_1": ["Mazda", "Fiat"], "x": [1, 3], "y": [2, 4]}


def test_a_separator_that_ends_every_row_is_no_column():
    table = told("x,y\n1,2,\n3,4,\n", "ends every row with ',', but not its header")
    assert table == {"x": [1, 3], "y": [2, 4]}


COMMENTS = {
    "of a line": "# by NASA\nx,y\n1,2\n",
    "of many": "# by NASA\n# in 2014, or so\n#\n# x: the first\n#\nx,y\n1,2\n",
    "with a blank line": "# by NASA\n\nx,y\n1,2\n",
    "with as many fields": "# by NASA, in 2014\nx,y\n1,2\n",
    "above blanks": "# by NASA\nx  y\n1  2\n3  4\n",
    "above words": "# by NASA\nx,y\na,b\nc,d\n",
}


@pytest.mark.parametrize("name", COMMENTS)
def test_comments_above_the_header_are_left_out(name):
    n_comments = COMMENTS[name].count("#")
    lines = "1 line" if n_comments == 1 else f"{n_comments} lines"
    table = told(COMMENTS[name], f"begins with {lines} of comments, which are left out: '# by NASA")
    assert list(table) == ["x", "y"]


def test_comments_above_a_header_that_begins_as_they_do():
    table = told("# by NASA\n# in 2014\n#x,y\n1,2\n", "begins with 2 lines of comments")
    assert table == {"#x": [1], "y": [2]}


def test_notes_below_the_data_are_left_out():
    body = "a,b,c\n1,2,3\n4,5,6\n"
    table = read(body)
    assert told(f"{body}\nSource: IMF\n", "1 line of one field, left out as notes: 'Source: IMF'")
    notes = "\n".join(f"note {k}" for k in range(5))
    assert told(f"{body}{notes}\n\n", "ends with 5 lines of one field", "'note 0'") == table


def test_a_note_does_not_hide_other_broken_lines():
    with pytest.warns(TableWarning, match="notes"), pytest.raises(TableError) as found:
        read("a,b,c\n1,2\n4,5,6\nsource\n")
    assert "line 2: 2 fields, but the header has 3" in str(found.value)
