"""The part of the command line that goes on with a model: what to measure, what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayesprop.cli.options import AsJson, ModelFile, Quiet, TableName, examples


def suggest(
    model: ModelFile,
    table: Annotated[
        str,
        typer.Argument(
            metavar="CANDIDATES",
            help="Rows that could be measured: a .csv, .tsv or .parquet file, or - for CSV on "
            "stdin.",
            show_default=False,
        ),
    ],
    n: Annotated[int, typer.Option("--n", "-n", min=1, metavar="N", help="Rows to choose.")] = 5,
    why: Annotated[
        bool, typer.Option("--why", help="Say of every row why, in words and numbers.")
    ] = False,
    acquisition: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What makes a row worth measuring: mutual-information, epistemic-variance, "
            "predictive-variance, predictive-entropy, expected-entropy-reduction or random.",
        ),
    ] = "mutual-information",
    batch: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="How rows are kept from saying the same: fantasy, k-means++, top or auto.",
        ),
    ] = "auto",
    cost: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Column of what a measurement costs; score per cost."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="Only such rows: 'temperature <= 80'; repeatable."),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE", help="Rows whose predictions matter: expected-entropy-reduction."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="A .csv, .tsv or .parquet file."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31, metavar="N", help="Fixes draws, and ties.")
    ] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Choose the rows of a table that the model would learn most from.

    Each is chosen as if those above it had been measured, so that no two say the same.
    """
    from bayesprop.cli.suggest import Options, run

    run(
        Options(
            model=model,
            table=table,
            n=n,
            why=why,
            acquisition=acquisition,
            batch=batch,
            cost=cost,
            where=tuple(where or ()),
            reference=reference,
            out=out,
            seed=seed,
            as_json=as_json,
            quiet=quiet,
        )
    )


def update(
    ctx: typer.Context,
    model: ModelFile,
    table: TableName,
    known: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="TABLE",
            help="Fit anew, to this table as well: first the one of `fit`, then any learnt since; "
            "repeatable. Default: learn the new rows alone.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Where it goes. Default: MODEL itself."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Let a model learn rows that were measured since.

    It is judged on them first. Methods that learn row by row (pbp, ebp, linear, logistic) need
    nothing else; the others are fitted anew to all rows.
    """
    from bayesprop.cli.update import Options, run

    run(
        Options(
            model=model,
            table=table,
            known=tuple(known or ()),
            out=out,
            as_json=as_json,
            quiet=quiet,
            words=ctx.obj or (),
        )
    )


def add_to(app: typer.Typer) -> None:
    """Add the sub-commands."""
    app.command(
        short_help="Choose which rows of a table to measure next, and say why.",
        epilog=examples(
            "bayesprop suggest m.bayesprop candidates.csv --n 5 --why",
            "bayesprop suggest m.bayesprop candidates.csv --cost price --where 'heat <= 80'",
            "bayesprop suggest m.bayesprop candidates.csv --n 20 --out next.csv --json",
        ),
    )(suggest)
    app.command(
        short_help="Let a model learn rows that were measured since.",
        epilog=examples(
            "bayesprop update m.bayesprop measured.csv",
            "bayesprop update m.bayesprop measured.csv --with houses.csv --out new.bayesprop",
        ),
    )(update)
