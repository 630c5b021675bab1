"""`python -m papers` finds an experiment by name, runs it, and says what came out of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product
from types import ModuleType

import pytest

from command_result import Result
from papers import command, rows
from papers.protocol import Cell, Experiment
from papers.registry import Entry

PARTS = ("boston", "yacht", "broken")


@dataclass(frozen=True)
class Config:
    seed: int = 1
    n: int = 5


def cells(config, asked):
    pairs = product(asked.parts, range(config.n))
    return [Cell({"part": part, "split": split}) for part, split in pairs]


def work(config, key):
    if key["part"] == "broken" and config.seed != 9:
        raise ArithmeticError("no luck")
    return {"value": float(key["split"] + config.seed)}


def section(found):
    return f"## A table\n\n| boston | {len(found)} |"


@pytest.fixture
def cli(capfd):
    """The command line of the experiments, in this process."""

    def run(*words: object) -> Result:
        capfd.readouterr()
        code = command.main([str(word) for word in words], name="papers")
        return Result(code, *capfd.readouterr())

    return run


@pytest.fixture(autouse=True)
def _two_experiments(monkeypatch):
    """Put two experiments in the place of the real ones."""
    entries = {}
    for name, paper in (("pbp-table1", "Hernández (2015)"), ("pbp-toy", "beyond the papers")):
        home = ModuleType(f"papers.{name.replace('-', '_')}")
        what = {"config": Config, "parts": PARTS, "cells": cells, "work": work, "quick": {"n": 2}}
        home.EXPERIMENT = Experiment(name=name, section=section, **what)
        monkeypatch.setitem(sys.modules, home.__name__, home)
        entries[name] = Entry(name, f"What {name} shows", paper)
    monkeypatch.setattr("papers.registry.EXPERIMENTS", entries)


def test_list(cli, tmp_path):
    cli("pbp-toy", "--quick", "--out", tmp_path)
    shown = cli("--list", "--out", tmp_path).out.splitlines()
    assert shown.index("Hernández (2015)") < shown.index("Beyond the papers")
    assert any("What pbp-toy shows" in line and "4 cells, 2 failed" in line for line in shown)
    told = cli("--list", "--json", "--out", tmp_path).json
    assert told["experiments"]["pbp-table1"] == "What pbp-table1 shows"
    assert told["papers"] == {"Hernández (2015)": ["pbp-table1"], "beyond the papers": ["pbp-toy"]}
    assert told["cells"] == {"pbp-toy": {"done": 4, "failed": 2}}
    one = cli("pbp-toy", "--list", "--out", tmp_path)
    assert one.out.splitlines()[1] == "parts: boston, yacht, broken"
    assert cli("pbp-toy", "--list", "--json").json["parts"] == list(PARTS)


def test_progress_goes_into_a_log(cli, tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(command, "_SECONDS_BETWEEN_LINES", 0.0)
    words = ("pbp-table1", "--quick", "--only", "boston", "--out", tmp_path)
    lines = cli(*words).err.splitlines()
    assert lines[0].startswith("pbp-table1: 0 of 2 cells done before")
    assert lines[2].startswith("pbp-table1: 2 of 2 cells, about 0 s left (")
    assert cli(*words, "--quiet").err == ""


def test_run(cli, tmp_path):
    words = ("--quick", "--jobs", 2, "--only", "boston", "--only", "yacht", "--seed", 4)
    result = cli("pbp-table1", *words, "--out", tmp_path, "--json")
    files = sorted(str(file) for file in tmp_path.iterdir())
    assert result.json == {"experiment": "pbp-table1", "out": str(tmp_path), "files": files}
    assert result.err == ""  # a log gets a line a minute
    found = [(*row.cell.values(), row.result) for row in rows.read(tmp_path / "pbp-table1.jsonl")]
    pairs = [(part, split) for part in ("boston", "yacht") for split in range(2)]
    assert sorted(found) == [(*pair, {"value": 4.0 + pair[1]}) for pair in pairs]


def test_defaults(cli, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = cli("pbp-table1", "--only", "yacht")
    assert (result.code, result.out) == (0, "## A table\n\n| boston | 5 |\n")
    assert "results/pbp-table1.md" in result.err
    found = rows.read(tmp_path / "results/pbp-table1.jsonl")
    assert [row.config for row in found] == [{"seed": 1, "n": 5}] * 5


def test_failed_cells_are_reported_until_they_are_retried(cli, tmp_path):
    words = ("pbp-toy", "--quick", "--out", tmp_path)
    for _ in range(2):
        result = cli(*words)
        assert result.code == 1
        failure = "2 of 6 cells of pbp-toy failed; first broken, split 0: ArithmeticError"
        assert failure in result.error
        assert "--retry-failed" in result.error
        assert len(rows.read(tmp_path / "pbp-toy.jsonl")) == 6
    assert cli(*words, "--retry-failed").code == 1
    assert len(rows.read(tmp_path / "pbp-toy.jsonl")) == 8
    assert cli(*words, "--seed", 9).code == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "pbp-table1, pbp-toy"),
        (("pbp-tabel1",), "did you mean 'pbp-table1'"),
        (("pbp-toy", "--jobs", "0"), "--jobs"),
        (("pbp-toy", "--jobs", "2", "--cluster", "tcp://a:1"), "leave out one"),
        (("pbp-toy", "--cluster", "moon"), "no Dask scheduler answers at 'moon'"),
        (("pbp-toy", "--only", "moon"), "there are boston, yacht, broken"),
    ],
)
def test_bad_requests(cli, words, expected):
    result = cli(*words)
    assert result.code == 2
    assert expected in result.error
