import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesprop.table import read as tables
from bayesprop.table.errors import TableError, TableWarning
from bayesprop.table.headers import Header


def read(table, **kwargs):
    content = table if isinstance(table, bytes) else table.encode()
    return tables.parse(content, "'t.csv'", **kwargs).to_dict(as_series=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a,b\n5" pipe,2\n', {"a": ['5" pipe'], "b": [2]}),
        ("a\tb\n1,5\t2\n", {"a": ["1,5"], "b": [2]}),
        ("a\n1\n2\n", {"a": [1, 2]}),
        ("a,b\n1,\n,NA\nnan,n/a\n", {"a": [1, None, None], "b": [None, None, None]}),
        ("a,b\nTrue,yes\nfalse,no\n", {"a": [True, False], "b": ["yes", "no"]}),
        ("a,b\n1e3,99999999999999999999\n", {"a": [1000.0], "b": [1e20]}),
        ("a,\n1,\n", {"a": [1]}),
        ('"a\nm²";b\n1.5;2\n', {"a\nm²": [1.5], "b": [2]}),
        (",a\n0,5\n", {"unnamed_1": [0], "a": [5]}),
        ("a b  y\n1 x 3.5\n\n2   y 4\n", {"a": [1, 2], "b": ["x", "y"], "y": [3.5, 4.0]}),
        (
            '"a" "b c"\n"1" 2 "x z"\n"2" NA "y"\n',
            {"rownames": [1, 2], "a": [2, None], "b c": ["x z", "y"]},
        ),
        ("  a  b\n 1.5 2\n 2.5 3\n", {"a": [1.5, 2.5], "b": [2, 3]}),
        ("name of thing\na red car\na blue car\n", {"name of thing": ["a red car", "a blue car"]}),
        ("price net\n3\n4\n", {"price net": [3, 4]}),
        ("a,b\n1,None\n,2\n", {"a": [1, None], "b": [None, 2]}),
        ("a,b\n1,None\n,Some\n", {"a": [1, None], "b": ["None", "Some"]}),
        ("a\ninf\n1e999\n", {"a": [float("inf")] * 2}),  # for the encoding to refuse
    ],
)
def test_usual_text_is_understood(text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("a,b\n", "has a header line but no rows"),
        ("a,b", "has a header line but no rows"),
        ("a,b\n1,2\n3\n", "line 3: 1 field, but the header has 2"),
        ("a,b\n1,2\n3,4,5\n", "line 3: 3 fields, but the header has 2"),
        ("\n\na,b\n\n1,2\n3\n", "line 6: 1 field, but the header has 2"),
        ("sep=;\na;b\n1;2\n3\n", "line 4: 1 field, but the header has 2"),
        ('a,b\n"x\ny",2\n3\n', "line 4: 1 field"),
        ("a,b\n1,2\n3,4,5\n6\n", "line 3: 3 fields"),
        ('a,b\n"1,2\n3,4\n', "field"),
        ("x,y\n1,2,3\n4,5\n", "fields, but the header has"),
        ("x,y\n1,2,3\n4,5,6\n4,5,6,7\n", "fields, but the header has"),
        ("name,price\nA,1,200\nA,2,300\n", "fields, but the header has"),
        (",x,y\n0,1,2,3\n1,4,5,6\n", "fields, but the header has"),
        ('x,y\n1,2,3\n"4,5,6\n', "field, but the header has"),
        ("a,b,c\n1,2,3\nnote\n4,5,6\n", "1 field, but the header has"),
        ("a,b,c\n1,2,3\n" + "note\n" * 6, "but the header has"),
        ("a,b,c\n1,2,3\n4\n", "1 field, but the header has"),
        ("a,b,c\n1,2,3\nNA\n", "1 field, but the header has"),
        ("a,b\n1,2\nnote\n", "1 field, but the header has"),
        ("a,b,c\nnote\n", "1 field, but the header has"),
        ('a,b,c\n1,2,3\n"4,5,6', "1 field, but the header has"),
        ('a,b,c\n1,2,3\n"4;5;6\n7;8;9\n', "1 field, but the header has"),
        ('a,b\n"' + "x" * 200_000, "is a quotation mark left open?"),
        ("a\0b,c\n1,2\n", "is not text"),
        (b"\xff\xfea\x00,\x00b", "damaged UTF-16"),
        (b"\xff\xfe\x00\x00a\x00\x00\x00,", "damaged UTF-32"),
        ("Prices, 2024\na,b,c,d\n1,2,3,4\n", "line 1: 'Prices, 2024' seems to be a title above"),
        ("Prices\n\na,b\n1,2\n", "line 1: 'Prices' seems to be a title above the names of"),
        ("Prices\nof 2024\na;b\nx;2\n", "of columns, 'a', 'b': take out what stands above them"),
        ("\n\nPrices,,\na,b,c\n1,x,2\n3,y,4\n", "line 3: 'Prices' seems to be a title"),
    ],
)
def test_unusable_text_is_refused_in_one_line(text, message):
    with pytest.raises(TableError) as caught:
        read(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith("'t.csv'")
    assert "\n" not in str(caught.value)


def test_a_tsv_keeps_its_commas_even_when_the_header_has_more_of_them():
    assert read("a,b,c\td\n1\t2\n", separator="\t") == {"a,b,c": [1], "d": [2]}


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


@pytest.mark.filterwarnings("ignore::bayesprop.table.errors.TableWarning")
def test_dots_that_part_thousands_only_in_some_numbers_are_decimal_points():
    assert read("a;b\n1,5;0.593\n2,5;1.250\n")["b"] == [0.593, 1.25]
    assert read("a;b\n1;2.593\n2;773\n")["b"] == [2.593, 773.0]


def test_a_header_longer_than_a_field_of_the_csv_module_is_read():
    names = [f"gene_{i:0100d}" for i in range(1_400)]
    found = read(",".join(names) + "\n" + ",".join(["1"] * 1_400) + "\n")
    assert list(found) == names


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("x\n1,5\n2,5\n", ["x"]),
        ("name\nSmith, John\nDoe, Jane\n", ["name"]),
        (",y\na,b\nc,3\n", ["y"]),
    ],
)
@pytest.mark.filterwarnings("ignore:decimal commas")
def test_one_column_is_no_title(text, columns):
    assert list(read(text))[-1:] == columns
