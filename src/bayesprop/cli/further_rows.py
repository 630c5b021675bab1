"""The sub-commands `update`, `merge` and `optimise`, for models whose rows come by and by."""
# ruff: noqa: RUF009  (`option` and `argument` call `dataclasses.field`)

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import ClassVar

from bayesprop.cli import completion
from bayesprop.cli.actions import Choosing, OfModel, OfTable, WithJson, WithRemarks
from bayesprop.cli.options import argument, column, method, option, output, repeated, switch


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


@dataclass(frozen=True, kw_only=True)
class Optimise(Choosing, OfTable):
    """Choose the experiments to run next to reach the largest or smallest result.

    A model is fitted to the experiments in TABLE; of the candidates those are chosen that may beat
    the best so far, and why is printed. Rows of TABLE without a result count as planned and are
    not chosen again.
    """

    summary: ClassVar = "Choose the experiments to run next to reach the best result."
    examples: ClassVar = (
        "bayesprop optimise trials.csv --target yield --maximise",
        "bayesprop optimise trials.csv -t yield --maximise --candidates pool.csv --cost price",
        "bayesprop optimise trials.csv -t cost --minimise --where 'heat <= 80' --n 3 --append",
        "bayesprop optimise trials.csv -t yield --maximise --require 'waste <= 0.05'",
    )

    target: str = column("Column whose best value is sought.", "--target", "-t", show_default=False)
    candidates: str | None = option(
        "Table of rows that could be measured. Default: rows are made, with numbers in the ranges "
        "of TABLE and other values out of it.",
        metavar="TABLE",
    )
    make: int | None = option(
        "Number of rows to make; rows near the best ones are added. Default: 10000.",
        min=1,
        metavar="N",
    )
    ranges: tuple[str, ...] = repeated(
        "Range of a column in made rows: heat=20:90; repeatable. Default: the range in TABLE.",
        "--range",
        metavar="COL=LOW:HIGH",
    )
    method: str | None = method()
    drop: tuple[str, ...] = column(
        "Columns to leave out: id, or other results that are known only afterwards; repeatable.",
        default=(),
        metavar="COLS",
    )
    unit: str | None = option("Unit of the target.", metavar="TEXT")
    target_kind: str | None = option(
        "Range of the target, as `fit` takes it. Default: numbers.", metavar="KIND"
    )
    report: Path | None = option(
        "HTML page to write: course of the best, the rows chosen, what moves the best.",
        metavar="FILE",
    )
    append: bool = switch(
        "Add the rows to TABLE (.csv or .tsv), their results empty: fill these in, then run the "
        "same command again.",
        "--append",
    )
