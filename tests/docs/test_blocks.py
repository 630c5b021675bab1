"""Every Python and shell block of README and documentation runs as it stands.

Those of README and the first page, which compute for longer than they compile, do so in
`test_first_pages.py`; those of pages with pictures where the site is built, in `test_site.py`.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import pytest
from blocks import Block, blocks_of, run_page
from doc_pages import PAGES, REPOSITORY, text_of

LANGUAGES = {"python", "sh", "text", "console", "json", "toml"}
"""`text` is what is read or printed; a shell block that no one types is none."""


def has_pictures(page: str) -> bool:
    """Whether building the site runs it."""
    return any(block.runs and "savefig(" in block.code for block in blocks_of(text_of(page)))


ELSEWHERE = {"README.md", "docs/index.md"} | {page for page in PAGES if has_pictures(page)}
RUN = [p for p in PAGES if p not in ELSEWHERE and any(b.runs for b in blocks_of(text_of(p)))]


@pytest.mark.parametrize("page", RUN)
def test_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    run_page(REPOSITORY / page, tmp_path)


def test_blocks_say_what_they_are_and_those_that_are_not_run_name_what_exists():
    for page in PAGES:
        for block in blocks_of(text_of(page)):
            assert block.language in LANGUAGES, f"{page}:{block.line}: {block.language!r}"
            for code in python_in(block) if block.not_run is not None else ():
                check_imports(ast.parse(code))


def python_in(block: Block) -> list[str]:
    """The Python of a block: all of it, what the shell hands to `python -`, or to `python -c`."""
    if block.language == "python":
        return [block.code]
    here = re.findall(r"<<'END'\n(.*?)^END$", block.code, re.M | re.S)
    return here + re.findall(r'python -c "\n(.*?)"$', block.code, re.M | re.S)


def check_imports(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module.split(".")[0] not in ("bayesprop", "benchmarks", "papers"):
                continue
            module = importlib.import_module(node.module)
            for name in node.names:
                is_there = name.name == "*" or hasattr(module, name.name)
                whole = f"{node.module}.{name.name}"
                assert is_there or importlib.util.find_spec(whole) is not None, whole


def test_what_a_block_shows_is_compared_up_to_digits(tmp_path: Path):
    page = tmp_path / "page.md"
    block = "```python\nprint('error   1.25 of 30')\n```\n\n```text\n{}\n```\n"
    page.write_text(block.format("error 0.9 of 30\n…"))
    run_page(page, tmp_path)
    page.write_text(block.format("width 0.9 of 30"))
    with pytest.raises(RuntimeError, match=r"page\.md:2: the page shows 'width"):
        run_page(page, tmp_path)


def test_a_failing_command_fails_the_page(tmp_path: Path):
    page = tmp_path / "page.md"
    for command in ("bayesprop inspect nothing.bayesprop", "cat nothing.csv | wc"):
        page.write_text(f"```sh\n{command}\n```\n")
        with pytest.raises(RuntimeError, match=r"page\.md:2: .*nothing\."):
            run_page(page, tmp_path)
    page.write_text("<!-- not run: there is no such file -->\n```sh\nfalse\n```\n")
    run_page(page, tmp_path)
