"""Every message that a room raises has words, and no room but these names options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from string import Formatter

import pytest

import bayesprop
from bayesprop.table.errors import Message, _Argument, _texts

GOALS = ("--maximise", "--minimise", "--range", "--require")
SNAPSHOT = Path(__file__).parent / "messages.txt"

ROOMS = [Path(bayesprop.__file__).parent / room for room in ("table", "table_model")]
SOURCE = "".join(path.read_text() for room in ROOMS for path in sorted(room.glob("*.py")))


def test_no_room_names_options_of_the_command_line():
    named = set(
        re.findall(r"[\"' (](--[a-z][a-z-]+)", re.sub(r'""".*?"""', "", SOURCE, flags=re.S))
    )
    options = {"--hidden", "--epochs", "--batch-size", "--inference", "--target-kind"}
    assert named == options | {"--exposure", "--order", "--seed", "--kind", "--with", *GOALS}


@pytest.mark.parametrize("code", re.findall(r"Message\.of\(\s*\"([a-z_.]+)\"", SOURCE))
def test_codes_have_words(code):
    assert code in _texts()


@pytest.mark.parametrize(
    ("text", "terminal", "python"),
    [
        ("{arg.drop:a b}", "--drop 'a b'", "drop=['a b']"),
        ("{arg.kinds:lap=duration}", "--kind lap=duration", "kinds={'lap': 'duration'}"),
        ("{arg.test_fraction:0.2}", "--test-fraction 0.2", "test_fraction=0.2"),
        ("{arg.target:3}", "--target 3", "target='3'"),
        ("{arg.order:low,high}", "--order low,high", "order=['low', 'high']"),
        ("{arg.hidden_layer_sizes}", "--hidden", "hidden_layer_sizes"),
        ("{arg.set:gain}", "--set gain", "gain"),
    ],
)
def test_arguments_are_written_as_they_are_typed(monkeypatch, text, terminal, python):
    monkeypatch.setitem(_texts(), "tried", {"one": text})
    message = Message("tried")
    assert (message.terminal, str(message)) == (terminal, python)


def test_a_problem_is_worded_within_another_message():
    message = Message.of("date.exchanged", "a b", example="1/2/2024").within("column.left_out")
    assert message.terminal.endswith("or --drop 'a b'")
    assert message.terminal.startswith("column 'a b' left out: it holds dates")


def fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a text and their formats, those inside a format too."""
    for _, name, how, _ in Formatter().parse(text):
        if name is not None:
            yield name, how or ""
            yield from fields(how or "")


def sample(code: str) -> Message:
    """Return a message whose values are the names of its fields, and numbers where it counts."""
    values: dict[str, str | int | float] = {}
    for text in _texts()[code].values():
        for name, how in fields(text):
            is_count = name.startswith("n") and how.replace(" ", "").isalpha() and how != "q"
            is_number = any(sign in how for sign in ("g", "%", ".0f")) and how != "meant"
            values[name] = 3 if is_count else 0.25 if is_number else name.upper()
    values = {k: v for k, v in values.items() if k not in ("column", "columns", "problem")}
    for name in [*values]:
        if name.startswith("arg.") or name == "settings":
            del values[name]
    columns = ("a b", "c") if "{columns" in str(_texts()[code]) else ("a b",)
    if "{settings}" in str(_texts()[code]):
        values["settings"] = "n_epochs, batch_size"
    if "{problem}" in str(_texts()[code]):
        return Message.of("date.duration", *columns).within(code, **values)
    return Message.of(code, *columns, **values)


def rendered() -> Iterator[str]:
    """Yield every message in both wordings; once where these are one, and of several columns."""
    for code in sorted(_texts()):
        message = sample(code)
        for form in ("one", "several", "each"):
            if form in _texts()[code]:
                python, terminal = (message.words(form, option) for option in (False, True))
                yield f"{code} ({form}): {python}"
                if terminal != python:
                    yield f"    terminal: {terminal}"


def test_messages_are_those_of_the_snapshot():
    """A change of words is a diff of this file: `python tests/table/test_messages.py` writes it."""
    assert SNAPSHOT.read_text() == "\n".join(rendered()) + "\n"


def test_messages_name_arguments_and_options_that_exist():
    import typer.main

    from bayesprop.cli import app

    commands = vars(typer.main.get_command(app))["commands"].values()
    options = {word for command in commands for one in command.params for word in one.opts}
    table = bayesprop.TableModel
    verbs = [bayesprop.fit, bayesprop.compare, bayesprop.merge, table.predict, table.evaluate]
    verbs += [table.suggest, table.update, table.report, table.monitor]
    verbs.append(bayesprop.Optimiser)
    parameters = {name for verb in verbs for name in signature(verb).parameters}
    words = " ".join(text for forms in _texts().values() for text in forms.values())
    named = set(re.findall(r"\{arg\.(\w+)", words))
    assert named - parameters == {"set"}  # its names are parameters of a method
    typed = (f"{_Argument(name, is_terminal=True)}" for name in named)
    assert {word for one in typed for word in one.split(" or ")} <= options


if __name__ == "__main__":
    SNAPSHOT.write_text("\n".join(rendered()) + "\n")
