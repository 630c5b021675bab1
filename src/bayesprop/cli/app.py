"""The command line: options and help only; what a sub-command does has a file of its own.

Nothing heavy is imported before a sub-command runs, and help is plain text (rich would more than
double the time that `--help` takes).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bayesprop.cli import failures, learning, prediction
from bayesprop.cli.kept_programs import keep_programs
from bayesprop.cli.options import (
    AsJson,
    Assignments,
    Drop,
    Hidden,
    InferenceName,
    ModelFile,
    Quiet,
    TableName,
    Target,
    TaskName,
    Weights,
    examples,
)

app = typer.Typer(
    name="bayesprop",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from bayesprop import __version__

        typer.echo(f"bayesprop {__version__}")
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    epilog=examples(
        "bayesprop fit houses.csv --target price --out houses.bayesprop --report report.html",
        "bayesprop predict houses.bayesprop new.csv --interval 0.9 --out predictions.csv",
        "bayesprop evaluate houses.bayesprop later.csv --json",
        "bayesprop inspect houses.bayesprop",
        "bayesprop fit diabetes --out diabetes.bayesprop      (a known data set)",
        "cat new.csv | bayesprop predict houses.bayesprop - | head",
    )
    + "\n\nExit codes: 0 done, 1 unexpected failure, 2 bad input or usage, 130 interrupted.",
)
def _bayesprop(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Bayesian neural networks for tables: predictions with honest error bars, without tuning."""
    del version  # its callback has answered
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
    elif ctx.invoked_subcommand != "reproduce":  # whose seconds hold what compiling takes
        keep_programs()


@app.command(
    epilog=examples(
        "bayesprop fit houses.csv --target price --out houses.bayesprop",
        "bayesprop fit houses.csv --target price --unit EUR --drop id --drop agent \\",
        "    --method pbp --hidden 50,50 --inference sep --out m.bayesprop --report r.html",
        "bayesprop fit diabetes --test-fraction 0 --out m.bayesprop --json",
        "bayesprop fit iris --out iris.bayesprop --report iris.html      (classes)",
    )
)
def fit(
    ctx: typer.Context,
    table: TableName,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Where the model goes, e.g. m.bayesprop.", metavar="FILE"),
    ],
    target: Target = None,
    task: TaskName = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="One of those that `bayesprop methods` lists. Default: one for the task.",
        ),
    ] = None,
    hidden: Hidden = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Passes over the data. Default: the method's."),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Rows in one update. Default: the method's."),
    ] = None,
    inference: InferenceName = None,
    settings: Assignments = None,
    test_fraction: Annotated[
        float,
        typer.Option(
            min=0.0, max=0.9, metavar="SHARE", help="Share of rows held out to judge the fit."
        ),
    ] = 0.1,
    seed: Annotated[
        int,
        typer.Option(min=0, max=2**32 - 1, metavar="N", help="Fixes the split and the fit."),
    ] = 0,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a report (.html).")
    ] = None,
    weights: Weights = None,
    drop: Drop = None,
    unit: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Unit of the target, shown in the report.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a table, judge it on held-out rows, save it."""
    from bayesprop.cli.fit import Options, run

    run(
        Options(
            table=table,
            out=out,
            target=target,
            task=None if task is None else task.value,
            method=method,
            hidden=tuple(hidden or ()),
            epochs=epochs,
            batch_size=batch_size,
            inference=None if inference is None else inference.value,
            settings=tuple(settings or ()),
            test_fraction=test_fraction,
            seed=seed,
            report=report,
            weights=weights,
            drop=tuple(drop or ()),
            unit=unit,
            as_json=as_json,
            quiet=quiet,
            words=ctx.obj or (),
        )
    )


prediction.add_to(app)


@app.command(
    short_help="Fit several methods to a table and judge them on the same held-out rows.",
    epilog=examples(
        "bayesprop compare houses.csv --target price",
        "bayesprop compare iris --method logistic --method closed-form-vi --splits 10",
        "bayesprop compare houses.csv --target price --plot comparison.png --json",
    ),
)
def compare(
    table: TableName,
    target: Target = None,
    task: TaskName = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A method; repeatable. Default: all that are quick."),
    ] = None,
    splits: Annotated[
        int, typer.Option(min=1, metavar="N", help="Random splits, the same for every method.")
    ] = 5,
    test_fraction: Annotated[
        float,
        typer.Option(min=0.0, max=0.9, metavar="SHARE", help="Share of rows held out to judge."),
    ] = 0.2,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31, metavar="N", help="Fixes the splits and the fits.")
    ] = 0,
    plot: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Where log-likelihood against time goes (.svg, .png)."),
    ] = Path("comparison.svg"),
    weights: Weights = None,
    drop: Drop = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit several methods with their defaults and judge them on the same held-out rows.

    Best log-likelihood first. A method that fails does not stop the others.
    """
    from bayesprop.cli.compare import Options, run

    run(
        Options(
            table=table,
            target=target,
            task=None if task is None else task.value,
            methods=tuple(method or ()),
            splits=splits,
            test_fraction=test_fraction,
            seed=seed,
            plot=plot,
            weights=weights,
            drop=tuple(drop or ()),
            unit=None,
            as_json=as_json,
            quiet=quiet,
        )
    )


learning.add_to(app)


@app.command(epilog=examples("bayesprop evaluate houses.bayesprop later.csv --json"))
def evaluate(
    model: ModelFile, table: TableName, as_json: AsJson = False, quiet: Quiet = False
) -> None:
    """Judge a model on a table that holds the target."""
    from bayesprop.cli.evaluate import run

    run(model, table, as_json=as_json, quiet=quiet)


@app.command(
    short_help="Write an HTML page that judges a model on a table.",
    epilog=examples("bayesprop report houses.bayesprop later.csv --out report.html"),
)
def report(
    ctx: typer.Context,
    model: ModelFile,
    table: TableName,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where the page goes (.html).")
    ] = Path("report.html"),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page that judges a model on a table that holds the target."""
    from bayesprop.cli.report import run

    run(model, table, out, words=ctx.obj or (), as_json=as_json, quiet=quiet)


@app.command(
    short_help="Say what a model file holds and what reproduces it.",
    epilog=examples("bayesprop inspect houses.bayesprop --json"),
)
def inspect(model: ModelFile, as_json: AsJson = False) -> None:
    """Say what a model file holds, how its fit went, and what command reproduces it."""
    from bayesprop.cli.inspect import run

    run(model, as_json=as_json)


@app.command(short_help="List the methods and when to choose them.")
def methods(as_json: AsJson = False) -> None:
    """List the methods: what they do, what they cost, when to choose them."""
    from bayesprop.cli.listings import show_methods

    show_methods(as_json=as_json)


@app.command(short_help="List the known data sets.")
def datasets(as_json: AsJson = False) -> None:
    """List the known data sets: size, target, licence, where they would come from."""
    from bayesprop.cli.listings import show_datasets

    show_datasets(as_json=as_json)


@app.command(
    short_help="Run an experiment of a paper again.",
    epilog=examples(
        "bayesprop reproduce --list",
        "bayesprop reproduce pbp-table1 --jobs 2",
        "bayesprop reproduce pbp-table1 --only boston --only yacht --quick",
    ),
)
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A table or figure of a paper.", show_default=False),
    ] = None,
    list_them: Annotated[
        bool, typer.Option("--list", help="List experiments, or NAME's parts.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in seconds.")] = False,
    jobs: Annotated[int, typer.Option(metavar="N", help="Parallel jobs; -1 for one a core.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder. Default: results."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="PART", help="Only this part; repeatable.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, metavar="N", help="Fixes every random draw.")
    ] = 1,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try cells again that have failed before.")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Dask scheduler, tcp://...; its workers do it."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run an experiment of a paper again and set its figures beside ours."""
    from bayesprop.cli.reproduce import Options, run

    run(
        Options(
            name=name,
            list_them=list_them,
            quick=quick,
            jobs=jobs,
            out=out,
            only=tuple(only or ()),
            seed=seed,
            retry_failed=retry_failed,
            cluster=cluster,
            as_json=as_json,
            quiet=quiet,
        )
    )


def main(args: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors become one line on stderr."""
    words = tuple(sys.argv[1:] if args is None else args)
    command = typer.main.get_command(app)
    with failures.warnings_as_lines():
        try:
            code = command.main(
                list(words), prog_name="bayesprop", standalone_mode=False, obj=words
            )
            sys.stdout.flush()
        except BrokenPipeError:
            return failures.quiet_pipe()
        except SystemExit as stop:  # the parser's own answer to a closed pipe
            if isinstance(stop.__context__, BrokenPipeError):
                return failures.quiet_pipe()
            raise
        except (Exception, KeyboardInterrupt) as error:
            return failures.report(error, as_json="--json" in words)
        if code == failures.INTERRUPTED:  # the parser's own answer to Ctrl-C
            return failures.report(KeyboardInterrupt(), as_json="--json" in words)
    return code if isinstance(code, int) else os.EX_OK
