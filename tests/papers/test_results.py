"""The page of results: one section an experiment, and the rows that it was written from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from papers import closed_form_relu, rows
from papers.registry import EXPERIMENTS
from papers.results import main, write_results

DOCS = Path(__file__).parents[2] / "docs" / "records"
PUBLISHED = sorted(path.stem for path in (DOCS / "rows").glob("*.jsonl"))


def test_sections_are_put_in_and_replaced(reproduce, tmp_path):
    reproduce(closed_form_relu.EXPERIMENT)
    page = tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    page.write_text("# Ours\n\n<!-- other -->\nkept\n<!-- /other -->\n")
    main(["--rows", str(tmp_path), "--docs", str(page)])
    once = page.read_text()
    assert once.startswith("# Ours\n\n<!-- other -->\nkept\n<!-- /other -->\n")
    assert "## A Gaussian through the ReLU" in once
    assert (page.parent / "closed-form-relu.svg").exists()
    published = page.parent / "rows" / "closed-form-relu.jsonl"
    assert published.read_bytes() == (tmp_path / "closed-form-relu.jsonl").read_bytes()
    assert "(rows/closed-form-relu.jsonl)" in once

    assert write_results(page.parent / "rows", page) == ["closed-form-relu"]
    assert page.read_text() == once


def test_a_published_run_goes_on(reproduce, tmp_path):
    found = reproduce(closed_form_relu.EXPERIMENT)
    page = tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    write_results(tmp_path, page)
    file = tmp_path / "closed-form-relu.jsonl"
    whole = file.read_bytes()
    shutil.copyfile(page.parent / "rows" / file.name, file)
    assert reproduce(closed_form_relu.EXPERIMENT) == found
    assert file.read_bytes() == whole


@pytest.mark.parametrize("name", PUBLISHED)
def test_our_page_says_what_its_rows_say(name):
    section = EXPERIMENTS[name].load().section(rows.read(DOCS / "rows" / f"{name}.jsonl"))
    assert section in (DOCS / "results.md").read_text("utf-8")
