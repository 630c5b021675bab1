"""Read a sheet of a workbook, in a process of its own: `python -P sheet.py MOST_BYTES [SHEET]`.

A workbook goes in on standard input; out come a line of JSON, with the names of all sheets and the
first row of the one read, and that sheet as Arrow. What a damaged workbook can do to its reader,
abort it or ask for all memory there is, ends this process alone. It imports nothing of bayesprop.
"""

from __future__ import annotations

import json
import logging
import sys
from functools import partial

import fastexcel


def main(most_bytes: int, sheet: str | None = None) -> None:
    """Read standard input, the first sheet or the one of a name; no sheet if it has none so."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    except (ImportError, ValueError):  # Windows has no limits, macOS none of this kind
        pass
    logging.getLogger("fastexcel").setLevel(logging.ERROR)  # it warns of columns without values
    book = fastexcel.read_excel(sys.stdin.buffer.read())
    names = book.sheet_names
    if sheet is not None and sheet not in names:
        print(json.dumps([names, None]))
        return
    load = partial(book.load_sheet, 0 if sheet is None else sheet)
    # Of all rows: a type guessed from the first thousand loses what stands below, unsaid.
    frame = load(schema_sample_rows=None, skip_whitespace_tail_rows=True).to_polars()
    first: list[str | None] = []
    if not frame.is_empty():
        first = [*load(header_row=None, n_rows=1, dtypes="string").to_polars().row(0)]
    sys.stdout.buffer.write(json.dumps([names, first]).encode() + b"\n")
    frame.write_ipc_stream(sys.stdout.buffer)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
