"""The pages of results: one an experiment, written from its rows, and the list of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from papers import rows
from papers.registry import EXPERIMENTS
from papers.results import main, page_of, write_results

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs" / "records"
ROWS = REPOSITORY / "papers" / "rows"
PUBLISHED = sorted(path.name.removesuffix(".jsonl.gz") for path in ROWS.glob("*.jsonl.gz"))


def test_pages_are_written_and_listed(reproduce, tmp_path):
    reproduce("closed-form-relu")
    index = tmp_path / "docs" / "results.md"
    index.parent.mkdir()
    kept, new = (index.parent / f"{name}.md" for name in ("pbp-toy", "closed-form-relu"))
    kept.write_text("# Kept\n\n`x`; 1,203 cells, the last on 2026-11-20; y\n")
    new.write_text("stale text")
    published = tmp_path / "published"
    main(["--rows", str(tmp_path), "--docs", str(index), "--published", str(published)])
    page = new.read_text()
    assert page.startswith("# A Gaussian through the ReLU")
    assert "All rows: `papers/rows/closed-form-relu.jsonl.gz`" in page
    assert new.with_suffix(".svg").exists()
    packed, plain = published / "closed-form-relu.jsonl.gz", tmp_path / "closed-form-relu.jsonl"
    assert rows.read(packed) == rows.read(plain)
    listed = index.read_text()
    assert "| [closed-form-relu](closed-form-relu.md) | moments of a Gaussian" in listed
    assert "[pbp-toy](pbp-toy.md)" in listed
    assert "| 1,203 | 2026-11-20 |" in listed

    assert write_results(published, index, published) == ["closed-form-relu"]
    assert (new.read_text(), index.read_text()) == (page, listed)


@pytest.mark.parametrize("name", PUBLISHED)
def test_our_page_says_what_its_rows_say(name):
    section = EXPERIMENTS[name].load().section(rows.read(ROWS / f"{name}.jsonl.gz"))
    assert page_of(section) in (DOCS / f"{name}.md").read_text("utf-8")


def test_every_experiment_has_its_words():
    words = {path.stem for path in (REPOSITORY / "papers" / "words").glob("*.md")}
    assert words == set(EXPERIMENTS) | {"today", "tuned-baselines"}
