"""Every command, setting and constructor that the pages print is one that there is.

Blocks run in `test_blocks.py`. What stands in a sentence, in a table, in a block that is not run
or at the end of a help page is taken apart here: the parser accepts the command, and the method
accepts its settings. Nothing is fitted.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pytest
import typer
from blocks import FENCE, blocks_of
from doc_pages import PAGES, text_of

import bayesprop
from bayesprop.cli import action_of, app
from bayesprop.cli.actions import Fit
from bayesprop.cli.fit import settings_of
from bayesprop.table_model.request import make_estimator, method_of
from papers.command import app as papers

SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
COMMAND = re.compile(r"^(?:time |\$ )?(?:bayesprop (?=[a-z])|python -m (?=papers(?: |$)))")
CONSTRUCTOR = re.compile(rf"^({'|'.join(bayesprop.__all__)})\([^….]*\)$")
PLACEHOLDER = "NAME=VALUE"
TASKS = ("regression", "classification")
PARSER = typer.main.get_command(app)
PARSER.commands["papers"] = typer.main.get_command(papers)


class Printed(NamedTuple):
    """What a page prints, and in which of its lines."""

    place: str
    text: str


def spans(page: str) -> Iterator[Printed]:
    """What stands between backticks outside of blocks, a line break in it being a blank."""
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text_of(page))
    for match in SPAN.finditer(prose):
        line = prose.count("\n", 0, match.start()) + 1
        yield Printed(f"{page}:{line}", " ".join(match[1].split()))


def lines_of_blocks(page: str) -> Iterator[Printed]:
    """The lines of shell blocks, run or not, and of synopses, whose brackets and remarks go."""
    for block in blocks_of(text_of(page)):
        for line in block.code.replace("\\\n", " ").splitlines():
            if block.language == "sh":
                yield Printed(f"{page}:{block.line}", re.split(r"\s[|>#]", line)[0].strip())
            elif block.language == "text":
                synopsis = re.split(r"\s{3,}|\s\|", re.sub(r"[\[\]]", "", line))[0]
                yield Printed(f"{page}:{block.line}", synopsis)


def help_examples() -> Iterator[Printed]:
    """The examples at the end of the help pages."""
    for name, command in {"": PARSER, **PARSER.commands}.items():
        for line in (command.epilog or "").replace("\\\n", " ").splitlines():
            written = re.split(r"\s{4,}\(|\s[|>]", line.strip())[0]
            yield Printed(f"bayesprop {name} --help", written)


PRINTED = [*chain.from_iterable((*spans(page), *lines_of_blocks(page)) for page in PAGES)]
PRINTED += help_examples()
FIT = "bayesprop fit table.csv --out m.bayesprop"
KINDS = [
    (COMMAND, lambda text: check_command(text)),
    (re.compile("--set "), lambda text: check_command(f"{FIT} {text}")),
    (CONSTRUCTOR, lambda text: check_constructor(text)),
]
"""Commands that there are, settings of the default, and constructors with their arguments."""
CHECKED = sorted({p.text: p for p in PRINTED if any(k.match(p.text) for k, _ in KINDS)}.values())


@pytest.mark.parametrize("printed", CHECKED, ids=lambda one: one.text)
def test_what_is_printed_is_there(printed: Printed):
    next(check for kind, check in KINDS if kind.match(printed.text))(printed.text)


def check_command(text: str) -> None:
    name, *words = shlex.split(COMMAND.sub("", text, count=1))
    assert name in PARSER.commands, f"there is no command {name}"
    command = PARSER.commands[name]
    options = {option for one in command.params for option in one.opts} | {"--help", "--version"}
    unknown = {word.partition("=")[0] for word in words if word.startswith("--")} - options
    assert not unknown, f"bayesprop {name} has no {', '.join(sorted(unknown))}"
    if not words or "…" in words:  # the command is named, not written out
        return
    values = command.make_context(name, list(words)).params
    if name == "fit":
        check_settings(values)


def check_settings(values: dict[str, Any]) -> None:
    """Check that the method takes its settings, for one of its tasks at least."""
    refusals = []
    for task in TASKS if values["task"] is None else [values["task"]]:
        try:
            check_estimator(estimator_of(values, task))
            return
        except ValueError as error:
            refusals.append(str(error))
    raise AssertionError("; ".join(refusals))


def estimator_of(values: dict[str, Any], task: str) -> Any:
    fit = action_of(Fit, values)
    fit = replace(fit, settings=tuple(one for one in fit.settings if one != PLACEHOLDER))
    settings = settings_of(fit)
    return make_estimator(settings, method_of(fit.method, task, "the page says so"), task, 0)


def check_constructor(text: str) -> None:
    """Check that an estimator takes arguments that are written out."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    cls = getattr(bayesprop, ast.unparse(call.func))
    if hasattr(cls, "fit"):
        arguments = [ast.literal_eval(one) for one in call.args]
        settings = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
        check_estimator(cls(*arguments, **settings))


def check_estimator(estimator: Any) -> None:
    """Show it a table that none may accept: what it refuses first are its settings."""
    nothing = np.full((3, 2), np.nan)
    with pytest.raises(ValueError, match="NaN"):
        estimator.fit(nothing, [0, 1, 0])


def test_what_is_wrong_is_refused():
    with pytest.raises(AssertionError, match="no command learn"):
        check_command("bayesprop learn m.bayesprop")
    with pytest.raises(AssertionError, match="no --lines"):
        check_command("bayesprop predict m.bayesprop … --lines 3")
    with pytest.raises(AssertionError, match="no such parameter"):
        check_command("bayesprop fit t.csv --out m.bayesprop --method pbp --set n_drawn=3")
    with pytest.raises(AssertionError, match="activation"):
        check_command("bayesprop fit t.csv --out m.bayesprop --method pbp --set activation=curly")
    with pytest.raises(TypeError, match="n_passes"):
        check_constructor("PBPRegressor(n_passes=3)")
