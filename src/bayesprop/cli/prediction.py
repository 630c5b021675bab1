"""The part of the command line that predicts, and that declines to."""

from __future__ import annotations

from typing import Annotated

import typer

from bayesprop.cli.options import ModelFile, Quiet, TableName, examples


def predict(
    model: ModelFile,
    table: TableName,
    out: Annotated[
        str,
        typer.Option("--out", "-o", metavar="FILE", help="A .csv or .parquet file; - for stdout."),
    ] = "-",
    interval: Annotated[
        list[float] | None,
        typer.Option(
            metavar="COVERAGE",
            help="Share of new observations that the interval should hold; repeatable. "
            "Default: 0.9.",
        ),
    ] = None,
    quantiles: Annotated[
        list[str] | None,
        typer.Option(metavar="LEVELS", help="Also these quantiles: 0.05,0.5,0.95; repeatable."),
    ] = None,
    calibrate: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Rows with the target that the fit did not see: stretch the intervals to hold "
            "COVERAGE of such rows.",
        ),
    ] = None,
    abstain_above: Annotated[
        float | None,
        typer.Option(
            metavar="VALUE", help="Rows less sure than this get no prediction but the reason."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What VALUE is about. Numbers: std (default) or epistemic, in the target's unit. "
            "Classes: entropy (default) or mutual-information, nats, or error-probability.",
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Repeat the table's own columns instead of row numbers.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Predict every row of a table.

    A number: mean, standard deviation in two parts, intervals. A class: the likeliest one, the
    probability of each, and the doubt in nats, of which more data would remove one part.
    """
    from bayesprop.cli.predict import Options, run

    run(
        Options(
            model=model,
            table=table,
            out=out,
            intervals=tuple(interval or ()),
            quantiles=",".join(quantiles) if quantiles else None,
            keep=keep,
            quiet=quiet,
            abstain_above=abstain_above,
            by=by,
            calibrate=calibrate,
        )
    )


def add_to(app: typer.Typer) -> None:
    """Add the sub-command."""
    app.command(
        short_help="Predict every row of a table, with error bars.",
        epilog=examples(
            "bayesprop predict m.bayesprop new.csv > predictions.csv",
            "bayesprop predict m.bayesprop new.csv --interval 0.5 --interval 0.9 --out p.parquet",
            "bayesprop predict m.bayesprop new.csv --quantiles 0.05,0.5,0.95",
            "bayesprop predict m.bayesprop new.csv --calibrate held_out.csv",
            "bayesprop predict m.bayesprop new.csv --abstain-above 12.5 --by epistemic",
        ),
    )(predict)
