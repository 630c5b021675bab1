"""Put the sections of all experiments that have rows into one page, and their rows beside it.

`python -m papers.results --rows results --docs docs/records/results.md`

Published rows are read like any others: `--rows docs/records/rows` writes the page anew after its
words have changed, and `docs/records/rows/NAME.jsonl` copied into `results` is a run to go on with.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path

from bayesprop.atomic import write_atomically
from papers import rows as row_files
from papers.registry import EXPERIMENTS

_TITLE = """# Results: the papers' figures beside ours

Every section is written from the rows of the command that it names, by
`python -m papers.results`; do not edit it by hand.
"""

_ROWS = "rows"  # folder beside the page


def write_results(rows_folder: Path, page: Path) -> list[str]:
    """Replace the section of every experiment that has rows below a folder; return their names.

    Other sections stay as they are. Pictures are copied beside the page, rows to `rows` there.
    """
    text = page.read_text("utf-8") if page.exists() else _TITLE
    written = []
    for name, found in _found(rows_folder):
        experiment = EXPERIMENTS[name].load()
        section = experiment.section(row_files.read(found))
        text = _with_section(text, name, f"{section}\n\n[All rows]({_ROWS}/{found.name}).")
        _copy(found, page.parent / _ROWS)
        _copy(found.with_suffix(".svg"), page.parent)
        written.append(name)
    write_atomically(page, lambda file: file.write(text.encode()))
    return written


def _found(folder: Path) -> Iterator[tuple[str, Path]]:
    """Find the newest file of rows of every experiment."""
    for name in EXPERIMENTS:
        files = sorted(folder.rglob(f"{name}.jsonl"), key=lambda path: path.stat().st_mtime)
        if files:
            yield name, files[-1]


def _copy(file: Path, folder: Path) -> None:
    """Copy a file, if there is one, and if it does not lie in the folder anyway."""
    if file.exists() and file.resolve().parent != folder.resolve():
        folder.mkdir(exist_ok=True)
        shutil.copyfile(file, folder / file.name)


def _with_section(text: str, name: str, section: str) -> str:
    """Put a section between its markers, at the end of the text if it has none yet."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    block = f"{begin}\n{section}\n{end}"
    if begin in text and end in text:
        before, _, rest = text.partition(begin)
        return before + block + rest.partition(end)[2]
    return f"{text.rstrip()}\n\n{block}\n"


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and write the page."""
    parser = argparse.ArgumentParser(prog="python -m papers.results")
    parser.add_argument("--rows", type=Path, default=Path("results"), help="folder of the rows")
    page = Path("docs/records/results.md")
    parser.add_argument("--docs", type=Path, default=page, help="the page")
    chosen = parser.parse_args(arguments)
    print("\n".join(write_results(chosen.rows, chosen.docs)))


if __name__ == "__main__":
    main()
