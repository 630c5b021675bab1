"""From a dataclass of `actions` to a sub-command of the parser, and the run of a command line."""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from bayesprop.cli import console
from bayesprop.cli.actions import Action

A = TypeVar("A", bound=Action)


def examples(*lines: str) -> str:
    """Word the end of a help page."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def add_command(app: typer.Typer, action: type[A], run: Callable[[A], None] | None = None) -> None:
    """Let the parser make one action of the words that follow its name, and run it.

    run
        Does it; default: the `run` of the file of its name.
    """
    app.command(
        action.__name__.lower(),
        help=action.__doc__,
        short_help=action.summary,
        epilog=examples(*action.examples) if action.examples else None,
    )(_callback(action, run))


def action_of(action: type[A], given: Mapping[str, Any], words: Sequence[str] = ()) -> A:
    """Make an action of what the parser read."""
    values = {name: value for name, value in given.items() if value is not None}
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return action(words=tuple(words), **{**values, **lists})


def run_app(app: typer.Typer, words: Sequence[str], *, name: str) -> int:
    """Run one command and return its exit code; errors become one line on stderr."""
    with console.warnings_as_lines():
        try:
            code = typer.main.get_command(app).main(
                list(words), prog_name=name, standalone_mode=False, obj=tuple(words)
            )
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


def _callback(action: type[A], do: Callable[[A], None] | None) -> Callable[..., None]:
    def run(ctx: typer.Context, **given: Any) -> None:
        home = do or import_module(f"bayesprop.cli.{action.__name__.lower()}").run
        home(action_of(action, given, words=ctx.obj or ()))

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    run.__signature__ = inspect.Signature([context, *_parameters(action)])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def _parameters(action: type[Action]) -> list[inspect.Parameter]:
    hints = get_type_hints(action, include_extras=True)
    parameters = []
    for field in dataclasses.fields(action):
        if field.name == "words":
            continue
        default = None if field.default == () else field.default
        parameters.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if default is dataclasses.MISSING else default,
                annotation=_understood(hints[field.name]),
            )
        )
    return parameters


def _understood(hint: Any) -> Any:
    """Return an annotation as typer knows it: what may be repeated is a list to it."""
    kind, option = get_args(hint)
    if get_origin(kind) is tuple:
        return Annotated[list[get_args(kind)[0]] | None, option]
    return hint
