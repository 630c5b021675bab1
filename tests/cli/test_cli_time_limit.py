"""A fit in the time that it is given, and how a command shows how far it is."""

from __future__ import annotations

import io
import re
import sys
import time

import pytest

import bayesprop
from bayesprop.cli import console
from bayesprop.cli.console import progress
from bayesprop.model.progress import current

LONG = ["--method", "pbp", "--hidden", "5", "--epochs", "1000000"]


def test_the_best_model_that_fits_in_the_time(cli, houses, tmp_path):
    """A table of few rows with gaps: two rounds, and six fits where it is judged in folds."""
    out = tmp_path / "m.bayesprop"
    cli("fit", houses, "-t", "price", "-o", out, *LONG[:-1], "1")  # which loads what is compiled
    started = time.monotonic()
    told = cli("fit", houses, "-t", "price", "-o", out, *LONG, "--time-limit", "2s", "--json").json
    assert time.monotonic() - started < 10.0  # one machine may do other things as well
    advice = " ".join(told["warnings"])
    assert "stopped by the time limit after" in advice
    assert "and a second round be fitted" in advice
    assert "evaluated by fits with less time than the saved model" in advice
    report = bayesprop.load(out).estimator.fit_report_
    assert any("of 1000000 epochs" in one for one in report.warnings)


def test_time_that_is_too_short_for_any_draw_is_said(cli, houses, tmp_path):
    out = tmp_path / "m.bayesprop"
    words = ["-t", "price", "-o", out, "--method", "mcmc", "--time-limit", "0.001s"]
    assert "so that there are no draws: allow more time" in cli("fit", houses, *words).refusal
    assert not out.exists()


def test_compare_limits_every_fit(cli, houses, tmp_path):
    words = ["-t", "price", "--method", "pbp", "--splits", "1", "--plot", tmp_path / "c.svg"]
    told = cli("compare", houses, *words, "--time-limit", "0.001s")
    assert told.code == 0
    assert "warning: pbp: stopped by the time limit after" in told.err


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(console, "LINE_EVERY", 0.02)


def test_lines_now_and_then_where_nobody_watches(quick, capfd):
    with progress("fitting 9 rows"):
        current().report(1, 4, "epoch 1")
        time.sleep(0.2)
    line, *_ = capfd.readouterr().err.splitlines()
    assert line == "fitting 9 rows: 25 %, 0 s, 0 s left, epoch 1"


def test_no_line_where_it_is_quick_or_quiet(quick, monkeypatch, capfd):
    with progress("fitting 9 rows", quiet=True):
        time.sleep(0.1)
    monkeypatch.undo()
    with progress("fitting 9 rows"):
        time.sleep(0.1)
    assert capfd.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def lines_with(self, words):
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.getvalue()).replace("\r", "\n")
        return [line for line in plain.splitlines() if words in line]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_bar_has_room_beside_long_texts(width, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(console, "BAR_AFTER", 0.01)
    monkeypatch.setenv("COLUMNS", f"{width}")
    monkeypatch.setenv("TERM", "xterm")
    with console.Display("fitting default to 442 rows x 10 inputs") as display:
        display.show(0.5, "cross-validation, fold 3 of 10, epoch 1000")
        until = time.monotonic() + 20  # a busy machine draws late
        while not (lines := screen.lines_with("50 %")) and time.monotonic() < until:
            time.sleep(0.02)
    line = lines[0]
    assert line.count("━") + line.count("╸") + line.count("╺") == (20 if width >= 80 else 8)
    assert len(line) <= width
