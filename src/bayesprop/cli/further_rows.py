"""What can be asked of models whose rows are not all in one table: `update` and `merge`."""
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
    """Let a model learn rows that were measured since.

    It is judged on them first. Methods that learn row by row (pbp, ebp, linear, logistic) need
    nothing else; the others are fitted anew to all rows.
    """

    examples: ClassVar = (
        "bayesprop update m.bayesprop measured.csv",
        "bayesprop update m.bayesprop measured.csv --with houses.csv --out new.bayesprop",
        "bayesprop update m.bayesprop today.csv --half-life 10000",
    )

    known: tuple[str, ...] = repeated(
        "Fit anew, to this table as well: first the one of `fit`, then any learnt since; "
        "repeatable. Default: learn the new rows alone.",
        "--with",
        metavar="TABLE",
    )
    half_life: float | None = option(
        "Forget: rows learnt so many rows ago count half, those before them a quarter (pbp, "
        "linear, logistic). Default: nothing is forgotten.",
        metavar="ROWS",
    )
    out: Path | None = output("Where it goes. Default: MODEL itself.")


@dataclass(frozen=True, kw_only=True)
class Merge(WithJson, WithRemarks):
    """Make one model of several that were fitted to rows apart: only the models travel.

    Linear ones may have been fitted alone, and are then what one fit to all rows is. Logistic and
    pbp go on from one model that all of them were given (`update --out`), named by --start.
    """

    summary: ClassVar = "Make one model of several fitted to rows apart."
    examples: ClassVar = (
        "bayesprop merge north.bayesprop south.bayesprop --out both.bayesprop",
        "bayesprop merge a.bayesprop b.bayesprop --start s.bayesprop --out all.bayesprop",
    )

    models: tuple[Path, ...] = argument(
        "MODELS...", "Files that `fit` or `update` wrote.", completion.models, default=()
    )
    start: Path | None = option(
        "The model that all of them went on from; its rows count once.", metavar="FILE"
    )
    out: Path = output("Where the model goes.", MISSING)
