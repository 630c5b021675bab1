"""The worked notebooks run, hold no outputs, and are named where one looks for them."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from doc_pages import DOCS, text_of

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


@by_name
def test_a_notebook_is_stored_without_outputs(path: Path):
    code = [cell for cell in cells(path) if cell["cell_type"] == "code"]
    assert code
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    assert f"notebooks/{path.name}" in text_of("docs/use/from-python.md")


@by_name
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Cell by cell, what the last line is worth shown as a notebook shows it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict = {"__name__": "__main__"}
    for cell in (cell for cell in cells(path) if cell["cell_type"] == "code"):
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, path.name, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), path.name, "eval"), names)
            shown = getattr(value, "_repr_html_", value.__repr__)()
            assert value is None or shown
    import matplotlib.pyplot

    matplotlib.pyplot.close("all")
