"""The command line: `actions` declares each sub-command, the file of its name runs it.

Nothing heavy is imported before a sub-command runs, and help is plain text (rich would more than
double the time that `--help` takes).
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import platformdirs
import typer

from bayesprop.cli import actions, console, further_rows

A = TypeVar("A", bound=actions.Action)
_PLACE_IN_HELP = {"seed": 1, "as_json": 2, "quiet": 3}  # after all others
_MOST_BYTES, _WORTH_KEEPING_SECONDS = 256 * 2**20, 0.2
_CPU = Path("/proc/cpuinfo")


def main(args: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors become one line on stderr."""
    return run_app(app, tuple(sys.argv[1:] if args is None else args), name="bayesprop")


def run_app(app: typer.Typer, words: Sequence[str], *, name: str) -> int:
    """Run one command and return its exit code; errors become one line on stderr."""
    console.open_streams()
    command = typer.main.get_command(app)
    how = {"prog_name": name, "standalone_mode": False, "obj": tuple(words)}
    with console.warnings_as_lines():
        try:
            code = copy_context().run(command.main, list(words), **how)
            sys.stdout.flush()
        except BrokenPipeError:
            return console.quiet_pipe()
        except SystemExit as stop:  # the parser's own answer to a closed pipe
            if isinstance(stop.__context__, BrokenPipeError):
                return console.quiet_pipe()
            raise
        except (Exception, KeyboardInterrupt) as error:
            return console.print_failure(error, as_json="--json" in words)
        if code == console.INTERRUPTED:  # the parser's own answer to Ctrl-C
            return console.print_failure(KeyboardInterrupt(), as_json="--json" in words)
    return code if isinstance(code, int) else os.EX_OK


def new_app(name: str | None = None) -> typer.Typer:
    """Return a command line without commands."""
    return typer.Typer(
        name=name,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def add_command(app: typer.Typer, action: type[A], run: Callable[[A], None] | None = None) -> None:
    """Let the parser make one action of the words that follow its name, and run it.

    run
        Does it; default: the `run` of the file of its name.
    """
    name = action.__name__.lower()

    def do(ctx: typer.Context, **given: Any) -> None:
        home = run or import_module(f"bayesprop.cli.{name}").run
        if (most_bytes := given.get("max_size")) is not None:
            import_module("bayesprop.table.files").MOST_BYTES.set(most_bytes)
        home(action_of(action, given, words=ctx.obj or ()))

    context = Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    do.__signature__ = Signature([context, *_parameters(action)])  # type: ignore[attr-defined]
    do.__annotations__ = {}
    epilog = _examples(*action.examples) if action.examples else None
    app.command(name, help=action.__doc__, short_help=action.summary, epilog=epilog)(do)


def action_of(action: type[A], given: Mapping[str, Any], words: Sequence[str] = ()) -> A:
    """Make an action of what the parser read."""
    values = {name: value for name, value in given.items() if value is not None}
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return action(words=tuple(words), **{**values, **lists})


def _parameters(action: type[actions.Action]) -> list[Parameter]:
    """Return the fields of an action as typer knows them: what may be repeated is a list to it."""
    kinds, parameters = get_type_hints(action), []
    fields = [field for field in dataclasses.fields(action) if "parser" in field.metadata]
    for field in sorted(fields, key=lambda field: _PLACE_IN_HELP.get(field.name, 0)):
        kind, default = kinds[field.name], field.default
        if get_origin(kind) is tuple:
            kind, default = list[get_args(kind)[0]] | None, None
        parameter = Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if default is dataclasses.MISSING else default,
            annotation=Annotated[kind, field.metadata["parser"]],
        )
        parameters.append(parameter)
    return parameters


_TIED = "\N{NO-BREAK SPACE}"  # between words of a remark


def _examples(*lines: str) -> str:
    """Word examples; a command longer than the terminal goes on in the next line."""
    most = shutil.get_terminal_size().columns - 8  # indents, and the sign that a line goes on
    how = {"subsequent_indent": "    ", "break_long_words": False, "break_on_hyphens": False}
    whole = [
        re.sub(r"\(.*\)", lambda remark: remark[0].replace(" ", _TIED), line) for line in lines
    ]
    parts = [textwrap.wrap(line, max(most, 20), **how) for line in whole]
    joined = "\n".join(f"  {_joined(part)}" for part in parts)
    return "\b\nExamples:\n" + joined.replace(_TIED, " ")


def _joined(parts: list[str]) -> str:
    """Join the lines of a command as a shell would; what stands in brackets is a remark."""
    text = parts[0]
    for part in parts[1:]:
        text += "\n  " + part if part.lstrip().startswith("(") else " \\\n  " + part
    return text


def keep_programs() -> Path | None:
    """Let JAX find again, in the next process, what this one compiles; return where.

    A folder a kind of processor in the user's cache, up to 256 MiB, the least used going first.
    Returns None, and changes nothing, if JAX is imported already, a variable of its own,
    JAX_COMPILATION_CACHE_DIR or JAX_ENABLE_COMPILATION_CACHE, decides, or nothing can be written.
    """
    own = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE")
    if "jax" in sys.modules or any(name in os.environ for name in own):
        return None
    try:
        lines = _CPU.read_text().splitlines()
        facts = {line for line in lines if line.startswith(("flags", "Features"))}
    except OSError:
        facts = {platform.processor()}
    kind = hashlib.sha256("\n".join([platform.machine(), *sorted(facts)]).encode()).hexdigest()[:12]
    folder = platformdirs.user_cache_path("bayesprop") / f"programs-{kind}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(folder, os.W_OK | os.X_OK):
        return None
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(_MOST_BYTES))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(_WORTH_KEEPING_SECONDS))
    return folder


app = new_app("bayesprop")


def _show_version(wanted: bool) -> None:
    if wanted:
        from bayesprop import __version__

        typer.echo(f"bayesprop {__version__}")
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    epilog=_examples(
        "bayesprop fit houses.csv --target price --out houses.bayesprop --report report.html",
        "bayesprop predict houses.bayesprop new.csv --interval 0.9 --out predictions.csv",
        "bayesprop evaluate houses.bayesprop later.csv --json",
        "bayesprop inspect houses.bayesprop",
        "bayesprop fit diabetes --out diabetes.bayesprop      (a known data set)",
        "cat new.csv | bayesprop predict houses.bayesprop - | head",
    )
    + "\n\nExit codes: 0 done, 1 unexpected failure, 2 bad input or usage, 3 alarm of `monitor`, "
    "130 interrupted.",
)
def _bayesprop(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Bayesian neural networks for tables: predictions with calibrated error bars, no tuning."""
    del version  # its callback has answered
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
    else:
        keep_programs()


for _action in (
    actions.Fit,
    actions.Predict,
    actions.Compare,
    actions.Suggest,
    further_rows.Update,
    further_rows.Merge,
    further_rows.Optimise,
    actions.Evaluate,
    actions.Monitor,
    actions.Report,
    actions.Inspect,
    actions.Export,
    actions.Methods,
    actions.Datasets,
    actions.Warm,
):
    add_command(app, _action)
