"""A way to run the command line in this process, and a table and model to run it on."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bayesprop.cli import main
from command_result import Result
from house_table import as_csv, house_rows

Run = Callable[..., Result]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*words: object, stdin: str = "") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capfd.readouterr()
        code = main([str(word) for word in words])
        return Result(code, *capfd.readouterr())

    return run


@pytest.fixture
def fitted(cli: Run, tmp_path: Path) -> Callable[..., tuple[Path, Path, Result]]:
    """Fit a table of some text: its path, that of its model, and what the command answered."""

    def fit(text: str, *words: object, target: str = "y") -> tuple[Path, Path, Result]:
        table, model = tmp_path / "t.csv", tmp_path / "m.bayesprop"
        table.write_text(text)
        result = cli("fit", table, "-t", target, "-o", model, *words)
        assert result.code == 0, result.err
        return table, model, result

    return fit


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
