"""Declarations of the fields of an action: options, switches, arguments; readers of values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from typing import Any

from typer import Argument, Option

from bayesprop.cli import completion

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


def method() -> Declared:
    """Declare a field of the method that is fitted."""
    return option(
        "Method, as listed by `bayesprop methods`. Default: the one named default.",
        metavar="NAME",
        autocompletion=completion.methods,
    )


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
