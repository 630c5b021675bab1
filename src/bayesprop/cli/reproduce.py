"""`reproduce`: pass the words on to the experiments, where they stand beside this package."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import typer

from bayesprop.cli.console import InputError

CHECKOUT = Path(__file__).resolve().parents[3]
"""Folder of `src`, `tests` and `papers` if this package runs from its source tree."""


def pass_on(ctx: typer.Context) -> None:
    """Run an experiment of a paper again: `python -m papers` in a checkout."""
    if not (CHECKOUT / "papers" / "__main__.py").is_file():
        raise InputError(
            "the experiments are not installed with the package: they are the folder `papers` of "
            "its source tree, where `python -m papers --list` names them and `python -m papers "
            "NAME` runs one"
        )
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    raise typer.Exit(import_module("papers.command").main(ctx.args, name=ctx.command_path))
