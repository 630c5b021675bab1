"""A way to run the command line in this process, and a table and model to run it on."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from house_table import as_csv, house_rows

from bayesprop.cli import main


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} in JSON")

        assert self.out.count("\n") == 1, "one object on one line"
        return json.loads(self.out, parse_constant=refuse)

    @property
    def rows(self) -> list[dict[str, str]]:
        """The table of predictions on stdout."""
        return list(csv.DictReader(io.StringIO(self.out)))

    @property
    def numbers(self) -> list[float]:
        """Every number of that table, row numbers left out."""
        return [float(cell) for row in self.rows for name, cell in row.items() if name != "row"]

    @property
    def refusal(self) -> str:
        """The one line that says what was wrong with a request."""
        assert self.code == 2, self.err
        return self.error

    @property
    def error(self) -> str:
        """The one line that a failed command prints."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        return lines[0]


Run = Callable[..., Result]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*words: object, stdin: str = "") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capfd.readouterr()
        code = main([str(word) for word in words])
        return Result(code, *capfd.readouterr())

    return run


@pytest.fixture(scope="session")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "houses.csv"
    path.write_text(as_csv(house_rows()))
    return path


@pytest.fixture(scope="session")
def house_model(houses: Path) -> Path:
    path = houses.with_name("houses.bayesprop")
    words = ["fit", str(houses), "--target", "price", "--unit", "kEUR", "--out", str(path)]
    words += ["--method", "pbp", "--test-fraction", "0.1"]
    assert main([*words, "--hidden", "10", "--epochs", "20", "--quiet"]) == 0
    return path
