"""Ctrl-C, kill -9, a full disk, a closed pipe: nothing half-written, nothing lost."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys

import pytest

# Stops for good in the middle of the write, and says so.
MID_WRITE = """
import os, sys, time
from bayesprop import cli
def stop(handle):
    print("here", file=sys.stderr, flush=True)
    time.sleep(60)
os.fsync = stop
sys.exit(cli.main(sys.argv[1:]))
"""

# Says when the estimator starts a fit that would take hours.
MID_FIT = """
import sys
from bayesprop import cli
from bayesprop.estimators.pbp import PBPRegressor
fit = PBPRegressor.fit
def loud(*args, **kwargs):
    print("here", file=sys.stderr, flush=True)
    return fit(*args, **kwargs)
PBPRegressor.fit = loud
sys.exit(cli.main(sys.argv[1:]))
"""


def strike(program, words, blow):
    """Run until "here", send the signal, return the finished process and its messages."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line == "here\n":
            break
    process.send_signal(blow)
    _, err = process.communicate(timeout=30)
    return process.returncode, err


def fit_words(houses, out, *more):
    return ["fit", houses, "-t", "price", "-o", out, "--hidden", "5", "--epochs", "2", *more]


def test_ctrl_c_in_mid_fit(houses, tmp_path):
    out = tmp_path / "m.bayesprop"
    out.write_text("older")
    words = [*fit_words(houses, out), "--epochs", "1000000"]
    code, err = strike(MID_FIT, words, signal.SIGINT)
    assert code == 130
    assert err.splitlines() == ["error: interrupted"]
    assert [path.name for path in tmp_path.iterdir()] == ["m.bayesprop"]
    assert out.read_text() == "older"


def test_ctrl_c_in_mid_write(houses, house_model, tmp_path):
    out = tmp_path / "p.csv"
    out.write_text("older")
    code, err = strike(MID_WRITE, ["predict", house_model, houses, "-o", out], signal.SIGINT)
    assert (code, err) == (130, "error: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]
    assert out.read_text() == "older"


@pytest.mark.parametrize("command", ["fit", "predict", "report"])
def test_kill_in_mid_write(houses, house_model, tmp_path, command):
    out = tmp_path / {"fit": "m.bayesprop", "predict": "p.csv", "report": "r.html"}[command]
    out.write_text("older")
    words = {
        "fit": fit_words(houses, out),
        "predict": ["predict", house_model, houses, "-o", out],
        "report": ["report", house_model, houses, "-o", out],
    }[command]
    code, _ = strike(MID_WRITE, words, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert out.read_text() == "older"


@pytest.mark.parametrize("command", ["fit", "predict", "predict parquet", "report"])
def test_full_disk(houses, house_model, tmp_path, command):
    out = tmp_path / {"fit": "m", "predict": "p.csv", "report": "r.html"}.get(command, "p.parquet")
    out.write_text("older")
    words = {
        "fit": fit_words(houses, out, "--json"),
        "report": ["report", house_model, houses, "-o", out],
    }.get(command, ["predict", house_model, houses, "-o", out])
    done = subprocess.run(
        [sys.executable, "-m", "bayesprop", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "NUMBA_CACHE_DIR": "", "MPLCONFIGDIR": str(tmp_path / "mpl")},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
    )
    assert done.returncode == 1, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert str(out) in errors[0]
    assert "too large" in errors[0]
    assert "Traceback" not in done.stderr
    assert out.read_text() == "older"
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


def test_closed_pipe_is_quiet(houses, house_model):
    command = [sys.executable, "-m", "bayesprop", "predict", str(house_model), str(houses)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(timeout=30) == 0


def test_unexpected_failures_are_one_line(cli, house_model, monkeypatch):
    def fail(_path):
        raise RuntimeError("two\nlines \x1b[31m")

    monkeypatch.setattr("bayesprop.commands.inspect.load_model", fail)
    result = cli("inspect", house_model)
    assert result.code == 1
    assert "unexpected RuntimeError: two lines \\x1b[31m" in result.error
    monkeypatch.setenv("BAYESPROP_DEBUG", "1")
    assert "Traceback" in cli("inspect", house_model).err
