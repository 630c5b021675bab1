"""What the shell completes: asked as the shell asks."""

from __future__ import annotations

import pytest
import typer

from bayesprop.cli import app
from bayesprop.cli.completion import column_names
from house_table import as_csv, house_rows

COMMAND = typer.main.get_command(app)


@pytest.fixture
def complete(monkeypatch, capsys, tmp_path):
    """Return what bash would be offered after some words; files are those of a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "houses.csv").write_text(as_csv(house_rows(n=3)))
    (tmp_path / "m.bayesprop").write_text("")
    (tmp_path / "models").mkdir()
    monkeypatch.setenv("_BAYESPROP_COMPLETE", "complete_bash")

    def ask(line):
        monkeypatch.setenv("COMP_WORDS", f"bayesprop {line}")
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" "))))
        with pytest.raises(SystemExit):
            COMMAND.main([], prog_name="bayesprop")
        return capsys.readouterr().out.split()

    return ask


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("fit houses.csv --target pr", ["price"]),
        ("fit houses.csv --group ", ["area", "rooms", "town", "price"]),
        ("predict m.bayesprop houses.csv --columns area,to", ["area,town"]),
        ("fit diabetes --drop b", ["bmi", "bp"]),
        ("fit houses.csv --drop area,to", ["area,town"]),
        ("fit houses.csv --method lo", ["logistic"]),
        ("compare houses.csv --method lin", ["linear"]),
        ("fit hou", ["houses.csv"]),
        ("fit diab", ["diabetes"]),
        ("predict m", ["m.bayesprop", "models/"]),
        ("fit absent.csv --target pr", []),
        ("fi", ["fit"]),
    ],
)
def test_what_is_offered(complete, line, offered):
    assert complete(line) == offered


def test_columns_of_long_and_broken_files(tmp_path):
    """Others are in test_rendered_files."""
    path = tmp_path / "t.csv"
    path.write_text("a,Stadt,Größe\n" + "1,2,3\n" * 200_000)
    assert column_names(str(path)) == ["a", "Stadt", "Größe"]
    path.write_text('a;"b;c"; d\n' + "broken rows are not read\n" * 3)
    assert column_names(str(path)) == ["a", "b;c", "d"]
