"""`compare`: what it prints; what it does is tested on `bayesprop.compare`."""

from __future__ import annotations

import pytest

from bayesprop import catalogue
from bayesprop.table_model import compare


@pytest.fixture
def line(tmp_path, monkeypatch):
    path = tmp_path / "line.csv"
    path.write_text("x,y\n" + "".join(f"{k},{2 * k + k % 5}\n" for k in range(300)))
    monkeypatch.chdir(tmp_path)
    return path


def test_one_object_or_a_table(cli, line):
    words = ("compare", line, "--target", "y", "--method", "linear", "--splits", "1", "--no-peers")
    told = cli(*words, "--json").json
    keys = "table target task target_kind positive splits rows score methods trials plot"
    assert list(told) == [*keys.split(), "judged_again", "warnings"]
    assert (told["score"], told["plot"]) == ("crps", "comparison.svg")
    best, constant = told["methods"]
    assert list(constant["behind"]) == ["mean", "error"]
    result = cli(*words, "--plot", "a.png")
    lines = [text.split()[0] for text in result.out.splitlines() if text.strip()]
    assert lines[2:] == [best["method"], constant["method"]] == ["linear", "constant"]
    assert line.with_name("a.png").read_bytes().startswith(b"\x89PNG")
    assert "plot: a.png" in result.err


def test_an_interruption_or_a_failure_shows_what_is_done(cli, line, monkeypatch):
    fit = compare._fitted
    stops: list[BaseException] = [KeyboardInterrupt(), FloatingPointError("it fell")]

    def stopped(name, *rest):
        if name == "pbp":
            raise stops[0]
        return fit(name, *rest)

    monkeypatch.setattr(compare, "_fitted", stopped)
    monkeypatch.setattr(catalogue, "METHODS", {n: catalogue.METHODS[n] for n in ("linear", "pbp")})
    for code in (130, 0):
        result = cli("compare", line, "--target", "y", "--splits", "1", "--no-peers")
        assert result.code == code
        assert "linear" in result.out
        assert ("pbp" in result.out) == (code == 0)
        del stops[:-1]
    assert "pbp failed on 1 of 1 splits: unexpected FloatingPointError: it fell" in result.err
    alone = cli("compare", line, "--target", "y", "--splits", "1", "--method", "pbp")
    assert alone.code == 2
    assert alone.error == "error: every method failed; the reasons stand above"
