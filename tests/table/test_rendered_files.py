"""Tables in every kind of file that is read, written by other programs, and read back."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import sqlite3
from contextlib import closing

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesprop.cli.completion import column_names
from bayesprop.table.errors import TableError
from bayesprop.table.files import zstd
from bayesprop.table.read import read_table
from bayesprop.table.write import write_table

pytestmark = pytest.mark.filterwarnings("ignore::bayesprop.table.errors.TableWarning")

NAMES = ["n", "price (net, EUR)", "a; b", "<script>", "Größe m²", "it's", "No. 1"]
WORDS = [
    "red",
    "x,y",
    "q;r",
    'say "hi"',
    "it's",
    "Köln",
    "two\nlines",
    "a b",
    "#1x",
    "c|d",
    "5' in",
]
CODECS = {
    "utf-8": b"", "utf-8-sig": b"", "utf-16": b"", "utf-16-le": b"", "utf-16-be": b"",
    "utf-32": b"", "utf-32-be": codecs.BOM_UTF32_BE, "cp1252": b"",
}  # fmt: skip
"""Which are read, and a mark before the text where Python writes none."""
PACKERS = {
    "": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
    ".zst": lambda one: zstd.compress(one[:50]) + zstd.compress(one[50:]),
}  # fmt: skip


@st.composite
def tables(draw):
    """Whole numbers, fractions, words and truth, with gaps, but not in the first and last row."""
    n = draw(st.integers(0, 8))
    kinds = (
        st.integers(-(10**6), 10**6),
        st.integers(-999, 999).map(lambda k: k + 0.25),
        st.sampled_from(WORDS) | st.text("ab1.,- \"'\n;é").map("w{}w".format),
        st.booleans(),
    )
    columns = [draw(st.lists(st.none() | one, min_size=n, max_size=n)) for one in kinds]
    columns = [[draw(one), *rest, draw(one)] for one, rest in zip(kinds, columns, strict=True)]
    return dict(zip(draw(st.permutations(NAMES)), columns, strict=False))


def line_of(row, separator, quote, how):
    buffer = io.StringIO()
    quoting = csv.QUOTE_MINIMAL if how == "needed" else csv.QUOTE_ALL
    csv.writer(buffer, delimiter=separator, quotechar=quote, quoting=quoting).writerow(row)
    return buffer.getvalue().removesuffix("\r\n")


@st.composite
def texts(draw, table):
    """What spreadsheets and scripts make of a table; and the ending of the file."""
    separator, end = draw(st.sampled_from(",;\t|")), draw(st.sampled_from(["\n", "\r\n", "\r"]))
    mark, blank = draw(st.sampled_from(["", "NA", "nan", "null"])), draw(st.sampled_from(["", " "]))
    point = draw(st.sampled_from(".,")) if separator == ";" else "."
    how = draw(st.sampled_from(["needed", "all", "single"]))

    def written(value):
        if value is None:
            return mark
        return str(value).replace(".", point) if isinstance(value, float) else str(value)

    rows = [
        list(table),
        *([written(one) for one in row] for row in zip(*table.values(), strict=True)),
    ]
    has_double = any('"' in one for row in rows for one in row)
    quote = "'" if how == "single" and not has_double else '"'
    lines = [line_of(row, separator, quote, how) for row in rows]
    if not any(quote in line for line in lines):
        lines = [line.replace(separator, f"{blank}{separator}{blank}") for line in lines]
    ends = draw(st.lists(st.integers(1, 3), min_size=len(lines), max_size=len(lines)))
    ends[-1] = draw(st.integers(0, 3))
    text = "".join(line + n * end for line, n in zip(lines, ends, strict=True))
    heads = ["", "\n", f"sep={separator}\n", f"SEP={separator}\n", "# by NASA\n\n"]
    head = draw(st.sampled_from(heads)).replace("\n", end)
    codec = draw(st.sampled_from([*CODECS]))
    packer = draw(st.sampled_from([*PACKERS]))
    content = PACKERS[packer](CODECS[codec] + (head + text).encode(codec))
    endings = [".csv", ".tsv"] if separator == "\t" else [".csv"]
    return draw(st.sampled_from(endings)) + packer, content


@given(tables().flatmap(lambda table: st.tuples(st.just(table), texts(table))))
def test_text_of_any_dialect_is_the_table(tmp_path, given_ones):
    table, (ending, content) = given_ones
    path = tmp_path / f"t{ending}"
    path.write_bytes(content)
    assert column_names(str(path)) == [*table]
    assert read_table(str(path)).to_dict(as_series=False) == table


def database(frame, path):
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as base:
        names = ", ".join('"' + name + '"' for name in frame.columns)
        base.execute(f"create table houses ({names})")
        base.executemany(
            f"insert into houses values ({', '.join('?' * frame.width)})", frame.rows()
        )
        base.commit()


WRITERS = {
    ".feather": pl.DataFrame.write_ipc,
    ".json": pl.DataFrame.write_json,
    ".ndjson": pl.DataFrame.write_ndjson,
    ".db": database,
    ".xlsx": lambda frame, path: frame.write_excel(path),
    **dict.fromkeys(
        [".csv", ".tsv", ".tab", ".txt", ".CSV", ".parquet", ".pq", ".jsonl"],
        lambda frame, path: write_table((frame[k : k + 4] for k in range(0, 12, 4)), str(path)),
    ),
}
"""By other programs, and by our own in parts."""


@given(tables(), st.sampled_from([*WRITERS]))
def test_other_files_are_the_table(tmp_path, table, ending):
    path = tmp_path / f"t{ending}"
    WRITERS[ending](pl.DataFrame(table), path)
    assert column_names(str(path)) == [*table]
    assert read_table(str(path)).to_dict(as_series=False) == table


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Files of all kinds, and what is in them."""
    frame = pl.DataFrame({"a": [1.5, None, 3.0] * 9, "b": ["x", "y", None] * 9, "c": range(27)})
    paths = [tmp_path_factory.mktemp("whole") / f"t{ending}" for ending in WRITERS]
    for path in paths:
        WRITERS[path.suffix](frame, path)
    return {path: path.read_bytes() for path in paths}


@settings(max_examples=100)
@given(st.data())
def test_a_file_with_other_bytes_is_read_or_refused_in_one_line(whole, data):
    path = data.draw(st.sampled_from([*whole]))
    content = bytearray(whole[path])
    places = st.tuples(st.integers(0, len(content) - 1), st.binary(max_size=4))
    for at, others in data.draw(st.lists(places, min_size=1)):
        content[at : at + max(1, len(others))] = others
    path.write_bytes(content)
    try:
        read_table(str(path))
    except TableError as error:
        assert not any("\n" in str(one) for one in error.problems)  # noqa: PT017
