"""The page of results: one section an experiment, and the rows that it was written from."""

from __future__ import annotations

from pathlib import Path

import pytest

from papers import closed_form_relu, rows
from papers.registry import EXPERIMENTS
from papers.results import main, write_results

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs" / "records"
PUBLISHED = sorted(path.stem for path in (DOCS / "rows").glob("*.jsonl"))


def test_sections_are_put_in_and_replaced(reproduce, tmp_path):
    reproduce(closed_form_relu.EXPERIMENT)
    page = tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    stale = "<!-- closed-form-relu -->\nstale text\n<!-- /closed-form-relu -->\n"
    page.write_text(f"# Ours\n\n<!-- other -->\nkept\n<!-- /other -->\n\n{stale}")
    main(["--rows", str(tmp_path), "--docs", str(page)])
    once = page.read_text()
    assert once.startswith("# Ours\n\n<!-- other -->\nkept\n<!-- /other -->\n")
    assert "## A Gaussian through the ReLU" in once
    assert "stale text" not in once
    assert (page.parent / "closed-form-relu.svg").exists()
    published = page.parent / "rows" / "closed-form-relu.jsonl"
    assert published.read_bytes() == (tmp_path / "closed-form-relu.jsonl").read_bytes()
    assert "(rows/closed-form-relu.jsonl)" in once

    assert write_results(page.parent / "rows", page) == ["closed-form-relu"]
    assert page.read_text() == once


@pytest.mark.parametrize("name", PUBLISHED)
def test_our_page_says_what_its_rows_say(name):
    section = EXPERIMENTS[name].load().section(rows.read(DOCS / "rows" / f"{name}.jsonl"))
    assert section in (DOCS / "results.md").read_text("utf-8")


def test_every_experiment_has_its_words():
    words = {path.stem for path in (REPOSITORY / "papers" / "words").glob("*.md")}
    assert words == set(EXPERIMENTS) | {"tuned-baselines"}
