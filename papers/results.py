"""Write a page for every experiment that has rows, and the index of pages; publish the rows.

`python -m papers.results --rows results`

Published rows are read like any others: `--rows papers/rows` writes the pages anew after their
words have changed.
"""

from __future__ import annotations

import argparse
import gzip
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from papers import rows as row_files
from papers.outputs import write_text
from papers.registry import EXPERIMENTS

_TITLE = """# Results: the papers' figures beside ours

Every page is written from the rows of the command that it names, by
`python -m papers.results`, and so is this list; do not edit them by hand.
"""
_HEAD = """| experiment | what is measured | cells | last run |
| --- | --- | ---: | --- |
"""
_RUN = re.compile(r"; ([\d,]+) cells?, the last on ([\d-]+)")
_PUBLISHED = Path("papers/rows")


def write_results(rows_folder: Path, index: Path, published: Path) -> list[str]:
    """Write the page of every experiment that has rows below a folder; return their names.

    Other pages stay as they are. Pages and pictures go beside the index, rows, packed, to the
    folder `published`.
    """
    written = []
    for name, found in _found(rows_folder):
        section = EXPERIMENTS[name].load().section(row_files.read(found))
        rows = f"All rows: `{_PUBLISHED}/{name}.jsonl.gz` of a checkout."
        write_text(index.parent / f"{name}.md", f"{page_of(section)}\n\n{rows}\n")
        if found.suffix != ".gz":
            published.mkdir(parents=True, exist_ok=True)
            packed = gzip.compress(found.read_bytes(), mtime=0)
            (published / f"{found.name}.gz").write_bytes(packed)
        picture = found.with_name(f"{name}.svg")
        if picture.exists():
            shutil.copyfile(picture, index.parent / picture.name)
        written.append(name)
    write_text(index, _index(index.parent))
    return written


def page_of(section: str) -> str:
    """Make a page of a section: its headings one level up."""
    return re.sub(r"^#(#+ )", r"\1", section, flags=re.MULTILINE)


def _index(folder: Path) -> str:
    """List the pages in a folder, paper by paper."""
    papers: dict[str, list[str]] = {}
    for name, entry in EXPERIMENTS.items():
        page = folder / f"{name}.md"
        if page.exists():
            run = _RUN.search(page.read_text("utf-8"))
            cells, last = run.groups() if run else ("", "")
            line = f"| [{name}]({page.name}) | {entry.summary} | {cells} | {last} |\n"
            papers.setdefault(entry.paper, []).append(line)
    tables = [f"\n## {paper}\n\n{_HEAD}{''.join(lines)}" for paper, lines in papers.items()]
    return _TITLE + "".join(tables)


def _found(folder: Path) -> Iterator[tuple[str, Path]]:
    """Find the newest file of rows of every experiment."""
    for name in EXPERIMENTS:
        both = (*folder.rglob(f"{name}.jsonl"), *folder.rglob(f"{name}.jsonl.gz"))
        files = sorted(both, key=lambda path: path.stat().st_mtime)
        if files:
            yield name, files[-1]


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and write the pages."""
    parser = argparse.ArgumentParser(prog="python -m papers.results")
    parser.add_argument("--rows", type=Path, default=Path("results"), help="folder of the rows")
    page = Path("docs/records/results.md")
    parser.add_argument("--docs", type=Path, default=page, help="the index of pages")
    parser.add_argument("--published", type=Path, default=_PUBLISHED, help="folder of packed rows")
    chosen = parser.parse_args(arguments)
    print("\n".join(write_results(chosen.rows, chosen.docs, chosen.published)))


if __name__ == "__main__":
    main()
