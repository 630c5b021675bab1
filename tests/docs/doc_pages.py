"""The pages of the documentation, README first, and their texts."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DOCS = REPOSITORY / "docs"
PAGES = ["README.md"]
PAGES += [page.relative_to(REPOSITORY).as_posix() for page in sorted(DOCS.rglob("*.md"))]


def text_of(page: str) -> str:
    """Return what a page holds, by its name in the repository."""
    return (REPOSITORY / page).read_text(encoding="utf-8")
