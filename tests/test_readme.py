"""The Python blocks of README and documentation run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

OPTIMISED = True

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md",
    "docs/index.md",
    "docs/decide-what-to-measure.md",
    "docs/when-to-abstain.md",
    "docs/bandits.md",
    "docs/compare-policies.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run(page: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})


def test_links_point_to_files():
    for page in (REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (REPOSITORY / target).exists(), f"{page.name}: {target}"
