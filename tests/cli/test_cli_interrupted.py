"""Ctrl-C, kill -9, a full disk, a closed pipe: nothing half-written, nothing lost."""

from __future__ import annotations

import errno
import os
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

import bayesprop

WRITERS = ("fit", "predict", "predict to parquet", "report")

# Says when the estimator starts a fit that takes long.
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
    """Run until "here", send the signal, return exit code and what was said after it."""
    command = [sys.executable, "-c", program, *map(str, words)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        assert any(line == "here\n" for line in process.stderr)
        process.send_signal(blow)
        _, err = process.communicate(timeout=30)
        return process.returncode, err


def fit_words(houses, out, *more):
    fast = ["--method", "pbp", "--hidden", "5", "--epochs", "2", "--test-fraction", "0"]
    return ["fit", houses, "-t", "price", "-o", out, *fast, *more]


@pytest.fixture
def writer(request, houses, house_model, tmp_path):
    """A command that writes a file, and an older file in its place."""
    suffix = {"predict": ".csv", "predict to parquet": ".parquet"}.get(request.param, ".file")
    out = tmp_path / f"out{suffix}"
    out.write_text("older")
    if request.param == "fit":
        return out, fit_words(houses, out)
    return out, [request.param.split()[0], house_model, houses, "--out", out]


def assert_untouched(out):
    assert out.read_text() == "older"
    assert list(out.parent.iterdir()) == [out]


def test_ctrl_c_in_mid_fit(houses, tmp_path):
    out = tmp_path / "m.bayesprop"
    out.write_text("older")
    words = [*fit_words(houses, out), "--epochs", "100000"]
    code, err = strike(MID_FIT, words, signal.SIGINT)
    assert (code, err) == (130, "error: interrupted\n")
    assert_untouched(out)


NO = pytest.param("n", 130, marks=pytest.mark.exhaustive)


@pytest.mark.parametrize(("answer", "code"), [("y", 0), NO])
def test_ctrl_c_in_a_terminal_offers_what_there_is(houses, tmp_path, answer, code):
    out = tmp_path / "m.bayesprop"
    words = [*fit_words(houses, out), "--epochs", "100000", "--test-fraction", "0.1"]
    command = [sys.executable, "-c", MID_FIT, *map(str, words)]
    ours, theirs = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    with subprocess.Popen(command, **streams) as process, open(ours, "r+b", buffering=0) as screen:
        os.close(theirs)
        until(screen, b"here")
        process.send_signal(signal.SIGINT)
        until(screen, b"save the model as it is?")
        screen.write(f"{answer}\n".encode())
        rest = until(screen, b"error: interrupted" if code else b"model:")
        assert process.wait(timeout=30) == code
    if code:
        assert not out.exists()
        return
    assert b"held-out rows" in rest
    assert any(
        re.fullmatch(r"stopped by an interrupt after .* s: round 1 of 2, \d+ of 100000 epochs", one)
        for one in bayesprop.load(out).estimator.fit_report_.warnings
    )


def until(screen, text):
    """Read a screen up to some text; what comes after a minute counts as nothing."""
    seen, end = b"", time.monotonic() + 60.0
    while text not in seen:
        assert time.monotonic() < end, seen
        if select.select([screen], [], [], 0.1)[0]:
            seen += screen.read(4096)
    return seen


@pytest.mark.parametrize("writer", WRITERS, indirect=True)
def test_ctrl_c_in_mid_write(cli, writer, monkeypatch):
    def interrupt(_handle):
        raise KeyboardInterrupt

    out, words = writer
    monkeypatch.setattr("os.fsync", interrupt)
    result = cli(*words)
    assert result.code == 130
    assert result.error == "error: interrupted"
    assert_untouched(out)


@contextmanager
def small_files(n_bytes):
    """Let no file of this process grow beyond a size, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("writer", ["predict"], indirect=True)
def test_full_disk(cli, writer):
    out, words = writer
    with small_files(2000):
        result = cli(*words, "--quiet")
    assert result.code == 1
    assert str(out) in result.error
    assert os.strerror(errno.EFBIG) in result.error
    assert_untouched(out)


def test_closed_pipe_is_quiet(houses, house_model):
    command = [sys.executable, "-m", "bayesprop", "predict", str(house_model), str(houses)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 0


def test_unexpected_failures_are_one_line(cli, house_model, monkeypatch):
    def fail(_path):
        raise RuntimeError("two\nlines \x1b[31m")

    monkeypatch.setattr("bayesprop.cli.inspect.load_model", fail)
    result = cli("inspect", house_model)
    assert result.code == 1
    assert "unexpected RuntimeError: two lines \\x1b[31m" in result.error
    monkeypatch.setenv("BAYESPROP_DEBUG", "1")
    assert "Traceback" in cli("inspect", house_model).err
