"""Help and usage: instant, and every mistake is one line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bayesprop import __version__
from bayesprop.cli import app, main

COMMANDS = [one.name for one in app.registered_commands]
HEAVY = "numpy scipy jax numba sklearn polars pandas matplotlib rich jinja2 safetensors joblib"


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from bayesprop.cli import main; code = main(['--help']); "
        f"print([m for m in '{HEAVY}'.split() if m in sys.modules], file=sys.stderr); "
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "Examples:" in done.stdout


def test_compiled_programs_are_kept(monkeypatch):
    calls = []
    monkeypatch.setattr("bayesprop.cli.keep_programs", lambda: calls.append(1))
    assert main(["methods"]) == 0
    assert calls


def test_module_runs_and_says_its_version():
    words = [sys.executable, "-m", "bayesprop", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == f"bayesprop {__version__}\n"


def test_bare_command_helps(cli):
    result = cli()
    assert result.code == 0
    assert all(f"\n  {name} " in result.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(cli, name):
    result = cli(name, "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"Usage: bayesprop {name}")


@pytest.mark.parametrize("columns", [60, 120])
def test_help_fits_and_examples_go_on_as_a_shell_has_it(columns):
    """In a process of its own: the width is known before the examples are written."""
    code = "from bayesprop.cli import main; main(['fit', '--help']); main(['predict', '--help'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"COLUMNS": str(columns)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert max(map(len, done.stdout.splitlines())) <= columns
    for page in done.stdout.split("Usage:")[1:]:
        lines = page.partition("Examples:")[2].splitlines()
        assert lines
        assert all(line.strip() != "\\" for line in lines)
        assert all(line.count("(") == line.count(")") for line in lines)


def test_usage_error_in_json(cli):
    result = cli("inspect", "--json")
    assert result.code == 2
    assert "MODEL" in result.json["error"]
