"""The sub-commands `update` and `merge`, for models whose rows are in several tables."""
# ruff: noqa: RUF009  (`option` and `argument` call `dataclasses.field`)

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import ClassVar

from bayesprop.cli import completion
from bayesprop.cli.actions import OfModel, OfTable, WithJson, WithRemarks
from bayesprop.cli.options import argument, option, output, repeated


@dataclass(frozen=True, kw_only=True)
class Update(OfTable, OfModel):
    """Update a model with new rows.

    The model is evaluated on the new rows first. Methods that learn row by row (pbp, ebp, linear,
    logistic) need only the new rows; the others are refitted to all rows, given by --with.
    """

    examples: ClassVar = (
        "bayesprop update m.bayesprop measured.csv",
        "bayesprop update m.bayesprop measured.csv --with houses.csv --out new.bayesprop",
        "bayesprop update m.bayesprop today.csv --half-life 10000",
    )

    known: tuple[str, ...] = repeated(
        "Refit to the new rows and this table: first the table of `fit`, then those of earlier "
        "updates; repeatable. Default: learn only the new rows.",
        "--with",
        metavar="TABLE",
    )
    half_life: float | None = option(
        "Forgetting: the weight of a row halves with every ROWS later rows (pbp, linear, "
        "logistic). Default: no forgetting.",
        metavar="ROWS",
    )
    out: Path | None = output("Model file to write. Default: MODEL.")


@dataclass(frozen=True, kw_only=True)
class Merge(WithJson, WithRemarks):
    """Combine models that were trained on separate data.

    Merged linear models equal one fit to all rows. Logistic and pbp models must have been updated
    from one common model (`update --out`), named by --start.
    """

    summary: ClassVar = "Combine models that were trained on separate data."
    examples: ClassVar = (
        "bayesprop merge north.bayesprop south.bayesprop --out both.bayesprop",
        "bayesprop merge a.bayesprop b.bayesprop --start s.bayesprop --out all.bayesprop",
    )

    models: tuple[Path, ...] = argument(
        "MODELS...", "Model files written by `fit` or `update`.", completion.models, default=()
    )
    start: Path | None = option(
        "Common model that all of them were updated from; its rows count once.", metavar="FILE"
    )
    out: Path = output("Model file to write.", MISSING)
