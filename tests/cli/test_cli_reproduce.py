"""`reproduce` finds an experiment by name and hands it what the user asked for."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest


@dataclass(frozen=True)
class Experiment:
    name: str
    summary: str
    home: str


@pytest.fixture
def calls(monkeypatch):
    """Put two experiments in the place of the real ones, and record what they are asked."""
    asked = []

    def run(*, quick, jobs, out, only, seed, progress):
        progress("split 1 of 2")
        out.mkdir(exist_ok=True)
        (out / "pbp-table1.md").write_text("| boston | 2.97 |")
        asked.append({"quick": quick, "jobs": jobs, "out": out, "only": only, "seed": seed})

    home, registry = ModuleType("an_experiment"), ModuleType("bayesprop.experiments.registry")
    home.run = run
    registry.EXPERIMENTS = {
        name: Experiment(name, f"What {name} shows", "an_experiment:run")
        for name in ("pbp-table1", "pbp-toy")
    }
    monkeypatch.setitem(sys.modules, "an_experiment", home)
    monkeypatch.setitem(sys.modules, "bayesprop.experiments.registry", registry)
    return asked


@pytest.mark.usefixtures("calls")
def test_list(cli):
    assert "What pbp-toy shows" in cli("reproduce", "--list").out
    told = cli("reproduce", "--list", "--json").json
    assert told["experiments"]["pbp-table1"] == "What pbp-table1 shows"


def test_run(cli, calls, tmp_path):
    words = ("--quick", "--jobs", 2, "--only", "boston", "--only", "yacht", "--seed", 4)
    result = cli("reproduce", "pbp-table1", *words, "--out", tmp_path, "--json")
    files = [str(tmp_path / "pbp-table1.md")]
    assert result.json == {"experiment": "pbp-table1", "out": str(tmp_path), "files": files}
    assert result.err == ""  # progress is for terminals
    asked = {"quick": True, "jobs": 2, "out": tmp_path, "only": ["boston", "yacht"], "seed": 4}
    assert calls == [asked]


def test_defaults(cli, calls, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = cli("reproduce", "pbp-table1")
    assert (result.code, result.out) == (0, "| boston | 2.97 |\n")
    assert "results/pbp-table1.md" in result.err
    assert calls == [{"quick": False, "jobs": 1, "out": Path("results"), "only": None, "seed": 1}]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "pbp-table1, pbp-toy"),
        (("pbp-tabel1",), "did you mean 'pbp-table1'"),
        (("pbp-toy", "--jobs", "0"), "--jobs"),
    ],
)
def test_bad_requests(cli, calls, words, expected):
    result = cli("reproduce", *words)
    assert result.code == 2
    assert expected in result.error
    assert calls == []
