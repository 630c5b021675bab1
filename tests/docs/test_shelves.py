"""A method's page can be read at once; what was tried is on another shelf."""

from __future__ import annotations

from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
MOST_WORDS = 1500
"""Of a page about a method; what was tried, and every measurement, is on record."""


@pytest.mark.parametrize("page", sorted((DOCS / "understand").glob("*.md")), ids=lambda p: p.stem)
def test_a_page_about_a_method_is_short(page: Path):
    n_words = len(page.read_text(encoding="utf-8").split())
    assert n_words <= MOST_WORDS, f"{page.name} has {n_words} words: move records to docs/records/"
