"""Files, and what stands in them, that pages name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_pages import PAGES, text_of

ROOT = Path(__file__).parents[2]
FILES = [
    path.relative_to(ROOT)
    for folder in ("src", "papers", "benchmarks", "tests", "docs", "examples")
    for path in (ROOT / folder).rglob("*.py")
]
OF_EXAMPLES = {"swag.py", "test_swag.py"}
"""Which `add-a-method.md` asks a reader to write."""


@pytest.mark.parametrize("page", PAGES)
def test_files_are_there(page: str):
    spans = re.findall(r"`([^`\n]+)`", text_of(page))
    named = {Path(name) for span in spans for name in re.findall(r"[\w/-]+\.py\b", span)}
    there = {
        path for path in named for file in FILES if file.parts[-len(path.parts) :] == path.parts
    }
    assert {path for path in named - there if path.name not in OF_EXAMPLES} == set()


@pytest.mark.parametrize("page", PAGES)
def test_what_stands_in_files_is_there(page: str):
    """As `stack.mixture_weights`: a module with an underscore, or one of ours, and a name in it."""
    of_module: dict[str, str] = {}
    for path in FILES:
        if path.parts[0] == "src":
            of_module[path.stem] = of_module.get(path.stem, "") + (ROOT / path).read_text()
    del of_module["model"]  # what examples call theirs
    pairs = re.findall(r"`([a-z]+(?:_[a-z]+)*)\.([A-Za-z_]+)(?:\(\))?`", text_of(page))
    lost = [
        f"{module}.{name}"
        for module, name in pairs
        if name not in ("py", "html", "toml") and (module in of_module or "_" in module)
        if module not in of_module or name not in of_module[module]
    ]
    assert lost == []
