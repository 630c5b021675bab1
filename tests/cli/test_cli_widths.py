"""Nothing is broken where a terminal is narrow: no line is longer than it."""

from __future__ import annotations

import pytest

from bayesprop.cli.console import wrapped

COMMANDS = {
    "methods": ["methods"],
    "datasets": ["datasets"],
    "inspect": ["inspect", "MODEL"],
    "evaluate": ["evaluate", "MODEL", "TABLE"],
    "suggest": ["suggest", "MODEL", "TABLE", "--n", "2", "--why"],
    "refused": ["predict", "MODEL", "TABLE", "--abstain-above", "1", "--by", "mutual-information"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_no_line_is_longer_than_the_terminal(cli, house_model, houses, monkeypatch, words):
    columns = 60
    monkeypatch.setattr("bayesprop.cli.console.is_terminal", lambda _stream: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    paths = {"MODEL": house_model, "TABLE": houses}
    result = cli(*(paths.get(word, word) for word in words))
    lines = (result.out + result.err).splitlines()
    # What has no blank, a path or a command, is not broken.
    long = [line for line in lines if len(line) > columns and len(line.split()) > 1]
    assert lines
    assert not [line for line in long if max(map(len, line.split())) < columns - 12]


def test_lines_are_whole_where_nothing_bounds_them(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    assert wrapped("word " * 100) == "word " * 100
    monkeypatch.setattr("bayesprop.cli.console.is_terminal", lambda _stream: True)
    assert wrapped("a sentence of some words", 2) == "a sentence of some\n  words"
