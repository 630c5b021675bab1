"""Shows files of the repository's root as pages: their links are those of the site."""

from __future__ import annotations

from pathlib import Path

from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).resolve().parent.parent.parent
SHOWN = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Put the text of the file in place of the page's."""
    name = SHOWN.get(page.file.src_uri)
    if name is None:
        return markdown
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    return text.replace("](docs/", "](").replace("](README.md", "](index.md")
