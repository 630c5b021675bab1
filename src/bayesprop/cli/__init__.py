"""The command line: a dataclass a sub-command in `actions`, a file of its name that does it.

Nothing heavy is imported before a sub-command runs, and help is plain text (rich would more than
double the time that `--help` takes).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from bayesprop.cli import actions
from bayesprop.cli.kept_programs import keep_programs
from bayesprop.cli.parser import add_command, examples, run_app
from bayesprop.cli.reproduce import pass_on

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


for _action in (
    actions.Fit,
    actions.Predict,
    actions.Compare,
    actions.Suggest,
    actions.Update,
    actions.Evaluate,
    actions.Report,
    actions.Inspect,
    actions.Methods,
    actions.Datasets,
):
    add_command(app, _action)
app.command(
    "reproduce",
    short_help="Run an experiment of a paper again.",
    add_help_option=False,  # its words, --help too, are for the experiments
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(pass_on)


def main(args: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors become one line on stderr."""
    return run_app(app, tuple(sys.argv[1:] if args is None else args), name="bayesprop")
