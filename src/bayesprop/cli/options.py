"""Options that several sub-commands share, worded once; light, because `--help` imports it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Task(StrEnum):
    """What the target is."""

    REGRESSION = "regression"
    CLASSIFICATION = "classification"


class Inference(StrEnum):
    """How the data enter the posterior."""

    ADF = "adf"
    SEP = "sep"


TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A .csv, .tsv or .parquet file, the name of a known data set, or - for CSV on stdin.",
        show_default=False,
    ),
]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that `fit` wrote.", show_default=False)
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no remarks.")]
Target = Annotated[
    str | None,
    typer.Option(
        "--target", "-t", metavar="COL", help="Column to predict; a known data set has its own."
    ),
]
TaskName = Annotated[
    Task | None,
    typer.Option(
        help="A number or a class. Default: text, true/false and whole numbers of two kinds "
        "are classes.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="COL",
        help="Column of row weights in the fit, not a feature; rows of weight 0 are left out.",
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COL", help="Column to leave out; repeatable.")
]
Hidden = Annotated[
    list[str] | None,
    typer.Option(
        metavar="UNITS",
        help="Units of each hidden layer: 50, or 50,50 for two. Default: the method's (50).",
    ),
]
InferenceName = Annotated[
    Inference | None,
    typer.Option(
        help="For pbp. adf: as published. sep: error bars survive long training. Default: adf.",
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other hyper-parameter of the method, such as activation=relu; repeatable.",
    ),
]


def examples(*lines: str) -> str:
    """Word the end of a help page."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
