"""A method's page can be read at once; what was tried is on another shelf."""

from __future__ import annotations

import pytest
from doc_pages import PAGES, text_of

MOST_WORDS = 1500
"""Of a page about a method; what was tried, and every measurement, is on record."""


@pytest.mark.parametrize("page", [one for one in PAGES if one.startswith("docs/understand/")])
def test_a_page_about_a_method_is_short(page: str):
    n_words = len(text_of(page).split())
    assert n_words <= MOST_WORDS, f"{page} has {n_words} words: move records to docs/records/"
