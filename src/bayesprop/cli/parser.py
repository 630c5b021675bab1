"""From a dataclass of `actions` to a sub-command of the parser."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from bayesprop.cli.actions import Action

A = TypeVar("A", bound=Action)


def examples(*lines: str) -> str:
    """Word the end of a help page."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def add_command(app: typer.Typer, action: type[Action]) -> None:
    """Let the parser make one action of the words that follow its name, and run it."""
    app.command(
        action.__name__.lower(),
        help=action.__doc__,
        short_help=action.summary,
        epilog=examples(*action.examples) if action.examples else None,
    )(_callback(action))


def action_of(action: type[A], given: Mapping[str, Any], words: Sequence[str] = ()) -> A:
    """Make an action of what the parser read."""
    values = {name: value for name, value in given.items() if value is not None}
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return action(words=tuple(words), **{**values, **lists})


def _callback(action: type[Action]) -> Callable[..., None]:
    def run(ctx: typer.Context, **given: Any) -> None:
        home = import_module(f"bayesprop.cli.{action.__name__.lower()}")
        home.run(action_of(action, given, words=ctx.obj or ()))

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
