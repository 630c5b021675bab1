"""Odd files, as people have them: `tests/corpus/NAME` is read as `NAME.json` says.

`python tests/table/test_corpus.py` writes every expected reading anew: read the difference.
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from bayesprop.table.division import HoldOut, divide
from bayesprop.table.errors import TableError, for_terminal
from bayesprop.table.read import read_table

CORPUS = Path(__file__).parents[1] / "corpus"
FILES = [path for path in sorted(CORPUS.iterdir()) if path.suffix != ".json"]


def reading(path: Path, target: str | None) -> dict[str, Any]:
    """What stands in a file, or why it is refused; with a target what is learnt from, too."""
    found: dict[str, Any] = {} if target is None else {"target": target}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found |= learnt(path.name, target) if target else columns(path.name)
        except TableError as error:
            found["refused"] = error.terminal_lines
    if caught:
        found["remarks"] = [for_terminal(one.message) for one in caught]
    return found


def columns(name: str) -> dict[str, Any]:
    return {"columns": read_table(name).to_dict(as_series=False)}


def learnt(name: str, target: str) -> dict[str, Any]:
    def check(frame):
        return divide(frame, target, None, HoldOut(0.0))

    parts = check(read_table(name, check=check))
    encoding = parts.encoding()
    said = [*parts.remarks, *encoding.report]
    rows = parts.numbers.tolist()
    return {"features": encoding.feature_names, "rows": rows, "said": [*map(for_terminal, said)]}


def expected(path: Path) -> dict[str, Any]:
    return json.loads(path.with_name(f"{path.name}.json").read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_read_as_expected(path, monkeypatch):
    monkeypatch.chdir(CORPUS)
    asked = expected(path)
    found = json.dumps(reading(path, asked.get("target")), default=str)
    assert json.loads(found) == asked
    assert not any("\n" in problem for problem in asked.get("refused", ()))


def as_lines(found: dict[str, Any]) -> str:
    """JSON of a line a column or sentence."""
    parts = []
    for key, value in found.items():
        text, inner = json.dumps(value, ensure_ascii=False, default=str), []
        if isinstance(value, dict):
            pairs = (
                json.dumps({name: column}, ensure_ascii=False) for name, column in value.items()
            )
            inner = [pair[1:-1] for pair in pairs]
        elif key in ("refused", "remarks", "said"):
            inner = [json.dumps(one, ensure_ascii=False) for one in value]
        if inner:
            text = text[0] + "\n  " + ",\n  ".join(inner) + "\n " + text[-1]
        parts.append(f' "{key}": {text}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Write what is expected as it is today; a file without any is only read."""
    os.chdir(CORPUS)
    for path in FILES:
        home = path.with_name(f"{path.name}.json")
        asked = expected(path) if home.exists() else {}
        home.write_text(as_lines(reading(path, asked.get("target"))))


if __name__ == "__main__":
    main()
