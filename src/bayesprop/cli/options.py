"""Declarations of the fields of an action: options, switches, arguments; checks of values."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import field
from pathlib import Path
from typing import Any

from typer import Argument, Option

from bayesprop.cli import completion
from bayesprop.table.errors import InputError

_BYTES = {"M": 2**20, "G": 2**30}
Declared = Any
"""The declaration of a field, assigned to it whatever its type is, as of `dataclasses.field`."""
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def option(help: str, *flags: str, default: Any = None, **about: Any) -> Declared:
    """Declare a field that is an option of its own name, or of other flags.

    about
        What else typer's `Option` takes: metavar, min, max.
    """
    return field(default=default, metadata={"parser": Option(*flags, help=help, **about)})


def column(help: str, *flags: str, **about: Any) -> Declared:
    """Declare a field that names a column of the table."""
    about = {"metavar": "COL", "autocompletion": completion.columns, "parser": str.strip} | about
    return option(help, *flags, **about)


def repeated(help: str, *flags: str, metavar: str, **about: Any) -> Declared:
    """Declare a field of all the values that an option was given."""
    return option(help, *flags, default=(), metavar=metavar, **about)


def switch(help: str, *flags: str) -> Declared:
    """Declare a field that is true where one of the flags is given."""
    return option(help, *flags, default=False)


def output(help: str, default: Any = None) -> Declared:
    """Declare a field of the file that something is written to."""
    return option(help, "--out", "-o", default=default, metavar="FILE")


def escaping() -> Declared:
    """Declare a field of whether spreadsheets are kept from running text as formulas."""
    return switch(
        "Put an apostrophe before text that a spreadsheet would run as a formula (.csv, .tsv).",
        "--escape-formulas",
    )


def argument(
    metavar: str, help: str, complete: Callable[[str], list[str]] | None = None, **default: Any
) -> Declared:
    """Declare a field that has a place and no flag; `complete` is for the shell."""
    parser = Argument(metavar=metavar, help=help, show_default=False, autocompletion=complete)
    return field(metadata={"parser": parser}, **default)


def seconds_of(text: str) -> float:
    """Read a time: "90", "60s", "5m", "1.5h"; ValueError unless it is one above 0."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|m|min|h|)", text.strip())
    if match is None or not (seconds := float(match[1]) * _SECONDS[match[2]]):
        raise ValueError(f"must be a time above 0, such as 60s, 5m or 90 (seconds), got {text!r}")
    return seconds


def time_limit(help: str) -> Declared:
    """Declare a field of seconds."""
    return option(help, "--time-limit", metavar="TIME", parser=seconds_of)


def bytes_of(text: str) -> int:
    """Read a size: "16G", "500M"; ValueError unless it is one above 0."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?)([MG])B?", text.strip().upper())
    if match is None or not (size := int(float(match[1]) * _BYTES[match[2]])):
        raise ValueError(f"must be a size above 0, such as 16G or 500M, got {text!r}")
    return size


def size(help: str) -> Declared:
    """Declare a field of bytes."""
    return option(help, "--max-size", metavar="SIZE", parser=bytes_of)


def check_one_stream(out: Path | None, *, as_json: bool) -> None:
    """Refuse rows and an object of JSON on one stream."""
    if as_json and str(out) == "-":
        raise InputError("--json prints an object on stdout, and --out - rows: leave one out")


def check_output(path: Path, option: str, inputs: Iterable[str | Path | None] = ()) -> None:
    """Refuse, before any work is done, a path that could not be written or holds an input."""
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{option} {path}: the folder {folder} does not exist; create it first")
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file in it")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option} {path}: the folder {folder} is not writable")
    for source in inputs:
        if source and path.exists() and Path(source).exists() and path.samefile(source):
            raise InputError(f"{option} {path} would overwrite an input; choose another name")
        is_of_folder = path.suffix.lower() == ".parquet" and source and Path(source).is_dir()
        if source and is_of_folder and path.resolve().is_relative_to(Path(source).resolve()):
            raise InputError(
                f"{option} {path} would be a file of the table {source}; choose another folder"
            )
