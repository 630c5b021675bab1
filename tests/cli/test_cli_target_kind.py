"""`--target-kind`: asked for, guessed and said; kept by every sub-command."""

from __future__ import annotations

import re

import numpy as np
import pytest

TINY = ["--hidden", "5", "--epochs", "20", "--method", "pbp", "--test-fraction", "0.2"]


def rows_of(kind, n=160, seed=0):
    """A table of two inputs and a target of a kind."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    latent = 1.5 * x[:, 0] + 0.5 * rng.normal(size=n)
    y = {
        "positive": np.round(100.0 * np.exp(latent), 3),
        "nonnegative": np.round(100.0 * np.maximum(latent, 0.0), 3),
        "share": np.round(1.0 / (1.0 + np.exp(-latent)), 6),
        "count": rng.poisson(np.exp(latent - 1.0)),
    }[kind]
    lines = [f"{a:.5f},{b:.5f},{c}" for (a, b), c in zip(x, y, strict=True)]
    return "\n".join(["a,b,y", *lines]) + "\n"


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("nonnegative", 0.0, np.inf),
        ("share", 0.0, 1.0),
        ("count", 0.0, np.inf),
    ],
)
def test_a_kind_is_guessed_said_and_kept(cli, fitted, tmp_path, kind, low, high):
    page = tmp_path / "r.html"
    table, model, result = fitted(rows_of(kind), "--report", page, *TINY)
    assert "--target-kind numbers overrides" in result.err
    assert "taken for" in page.read_text()
    facts = cli("inspect", model, "--json").json
    assert facts["target_kind"] == facts["parameters"]["target_kind"] == kind
    assert "from 0 on" in cli("inspect", model).out or kind != "count"
    later = tmp_path / "later.csv"
    later.write_text(rows_of(kind, seed=1))
    stretched = cli("predict", model, later, "--calibrate", later).rows
    assert all(low <= float(row["lower_90"]) <= float(row["upper_90"]) <= high for row in stretched)
    assert np.isfinite(cli("evaluate", model, later, "--json").json["metrics"]["model"]["crps"])
    assert cli("suggest", model, later, "--n", "2", "--json").code == 0
    for words in ([], ["--with", table]):
        updated = cli("update", model, later, *words, "--out", tmp_path / "u.bayesprop")
        assert updated.code == 0, updated.err
        assert cli("inspect", tmp_path / "u.bayesprop", "--json").json["target_kind"] == kind


def test_a_kind_can_be_asked_for(cli, fitted):
    table, model, result = fitted(rows_of("positive"), *TINY, "--target-kind", "numbers", "--json")
    words = ["fit", table, "--target", "y", "--out", model, *TINY]
    assert result.json["target_kind"] == "numbers"
    assert "overrides" not in result.err
    refusal = cli(*words, "--target-kind", "share").refusal
    assert "y must hold numbers from 0 to 100" in refusal
    assert "--target-kind alone" not in refusal
    assert "give that alone" in cli(*words, "--set", "target_kind=share").refusal
    assert cli(*words, "--target-kind", "prices").code == 2


def in_percent(sign, seed=0):
    """The table of shares, each in per cent of four digits, with a sign or without."""
    head, *lines = rows_of("share", seed=seed).split()
    cells = (line.rsplit(",", 1) for line in lines)
    return "\n".join([head, *(f"{x},{100.0 * float(y):.4g}{sign}" for x, y in cells)])


def test_per_cent_signs_make_shares_of_a_hundred(cli, fitted, tmp_path):
    _, model, result = fitted(in_percent("%"), *TINY)
    assert "y is taken for shares, from 0 to 1 or to 100 %" in result.err
    assert cli("inspect", model, "--json").json["target_kind"] == "share"
    later = tmp_path / "later.csv"
    later.write_text(in_percent("%", seed=1))
    names, asked = ("lower_99", "upper_99", "mean"), ("--interval", "0.99")
    rows = cli("predict", model, later, *asked).rows
    bounds = np.array([[float(row[name]) for name in names] for row in rows])
    assert ((bounds >= 0.0) & (bounds <= 100.0)).all()
    assert bounds.max() > 90.0
    scores = cli("evaluate", model, later, "--json").json["metrics"]
    assert scores["model"]["crps"] < scores["constant"]["crps"]
    assert all(1.0 < one["crps"] < 30.0 for one in scores.values())
    later.write_text(f"{in_percent('%')}\n0,0,120%")
    judged = cli("evaluate", model, later)
    assert "1 row has a y such as 120, which the model holds impossible" in judged.err


def test_per_cent_without_a_sign_are_shares_where_asked_for(cli, fitted):
    assert fitted(in_percent(""), *TINY, "--json")[2].json["target_kind"] != "share"
    shares = [*TINY, "--target-kind", "share"]
    table, model, result = fitted(in_percent(""), *shares, "--json")
    assert result.json["target_kind"] == "share"
    assert "y is taken for per cent, because some values exceed 1" in result.err
    table.write_text(f"{in_percent('')}\n0,0,120")
    refusal = cli("fit", table, "--target", "y", "--out", model, *shares).refusal
    assert "numbers from 0 to 100 for target_kind='share', got 120 in row" in refusal


def test_what_does_not_go_with_it_is_refused_or_left(cli, fitted):
    noisy = ["--method", "linear", "--set", "noise=2.0"]
    table, model, result = fitted(rows_of("positive"), *noisy, "--json")
    assert result.json["target_kind"] == "numbers"
    words = ["fit", table, "--target", "y", "--out", model, *noisy]
    refusal = cli(*words, "--target-kind", "positive").refusal
    assert "noise must be learnt" in refusal


def test_counts_grow_with_the_column_that_is_named(cli, fitted, tmp_path):
    rng = np.random.default_rng(2)
    age, years = rng.normal(size=200), rng.uniform(0.5, 4.0, 200)
    visits = rng.poisson(years * np.exp(0.4 * age))
    lines = [f"{a:.4f},{b:.3f},{c}" for a, b, c in zip(age, years, visits, strict=True)]
    text, years = "\n".join(["age,years,visits", *lines]), ["--exposure", "years"]
    linear = ["--method", "linear", "--test-fraction", 0]
    table, model, _ = fitted(text, *linear, *years, target="visits")
    command = ["fit", table, "--target", "visits", "--method", "linear", "--out", model]
    facts = cli("inspect", model, "--json").json
    assert facts["target_kind"] == "count"
    assert facts["parameters"]["exposure"] == 1
    later = tmp_path / "later.csv"
    later.write_text("age,years\n0,1\n0,3\n")
    short, long = (float(row["mean"]) for row in cli("predict", model, later).rows)
    assert 2.0 < long / short < 4.5
    later.write_text("age,years\n0,1\n0,\n")
    assert "exposure must be a number > 0" in (gap := cli("predict", model, later).refusal)
    assert "got none (NaN) in data row 2, years" in gap
    assert "column of numbers" in cli(*command, "--exposure", "year").refusal
    numbers = cli(*command, *years, "--target-kind", "numbers")
    assert "--exposure is for counts" in numbers.refusal


def graded(n=160, *, words=("poor", "fair", "good"), seed=0):
    """A table of an input and of a grade that it moves."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    grade = np.digitize(a + 0.4 * rng.logistic(size=n), [-0.6, 0.6])
    lines = [f"{x:.4f},{words[k]}" for x, k in zip(a, grade, strict=True)]
    return "\n".join(["a,grade", *lines]) + "\n"


def test_ordered_classes_are_asked_for_kept_and_scored(cli, tmp_path):
    table, model, page = (tmp_path / name for name in ("t.csv", "m.bayesprop", "r.html"))
    table.write_text(graded())
    words = ["fit", table, "--target", "grade", "--out", model, "--epochs", "20", "--hidden", "5"]
    assert "words do not sort themselves" in cli(*words, "--target-kind", "ordered").refusal
    assert "it lacks fair" in cli(*words, "--order", "poor,good").refusal
    assert "names one twice" in cli(*words, "--order", "poor,good,fair,good").refusal
    asked = ["--order", "poor, fair,good"]
    assert "leave --target-kind classes out" in cli(*words, *asked, "--target-kind=classes").refusal
    result = cli(*words, *asked, "--report", page, "--test-fraction", "0.2", "--json").json
    assert result["target_kind"] == "ordered"
    scores = result["held_out"]
    assert scores["model"]["rps"] < scores["constant"]["rps"]
    assert "poor &lt; fair &lt; good" in page.read_text()
    assert "Ranked probability score" in page.read_text()
    assert "ordered, poor < fair < good" in cli("inspect", model).out
    rows = cli("predict", model, table, "--interval", "0.8", "--quantiles", "0.3").rows
    names = ["grade", "median", "lower_80", "upper_80", "q_0.3", "p(poor)", "p(fair)", "p(good)"]
    assert list(rows[0])[1:9] == names
    place = ("poor", "fair", "good")
    judged = cli("evaluate", model, table, "--json").json
    assert "rps" in judged["metrics"]["model"]
    assert judged["confusion"]["classes"] == ["poor", "fair", "good"]
    heads = re.findall(r'<th scope="row"><bdi>(\w+)</bdi>', page.read_text())
    assert heads[:3] == list(place)
    later = tmp_path / "later.csv"
    later.write_text(graded(seed=1))
    updated = cli("update", model, later, "--with", table, "--out", tmp_path / "u.bayesprop")
    assert updated.code == 0, updated.err
    assert cli("inspect", tmp_path / "u.bayesprop", "--json").json["order"] == [2, 0, 1]


def test_numbers_that_are_classes_sort_themselves(cli, fitted, tmp_path):
    ordered = ["--method", "logistic", "--target-kind", "ordered"]
    table, model, result = fitted(graded(words=(2, 10, 33)), *ordered, target="grade")
    words = ["fit", table, "--target", "grade", "--out", model, "--method", "logistic"]
    regression = ["--target-kind", "ordered", "--task", "regression"]
    assert "ordered is for classes" in cli(*words[:-2], *regression).refusal
    assert "without their order" in result.err
    facts = cli("inspect", model, "--json").json
    assert (facts["classes"], facts["order"]) == ([2, 10, 33], [0, 1, 2])
    assert (
        "--target-kind count is for numbers"
        in cli(*words, "--target-kind", "count", "--task", "classification").refusal
    )
    plain = cli(*words, "--target-kind", "classes", "--json").json
    assert plain["target_kind"] == "classes"
    assert "rps" not in plain["held_out"]["model"]
    words = ["compare", table, "--target", "grade", "--method", "logistic", "--splits", "1"]
    words += ["--target-kind", "ordered", "--no-peers", "--plot", tmp_path / "p.svg"]
    assert cli(*words, "--json").json["target_kind"] == "ordered"


def limited(n=200, seed=0, limit=-1.0):
    """A table of two inputs and a target whose low values are known by a limit only."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = np.round(x[:, 0] + 0.4 * rng.normal(size=n), 3)
    words = [f"<{limit:g}" if v < limit else f"{v}" for v in y]
    return "\n".join(["a,b,y", *(f"{a},{b},{w}" for (a, b), w in zip(x, words, strict=True))])


def test_limits_in_a_target_are_learnt_as_such(cli, fitted, tmp_path):
    page = tmp_path / "r.html"
    _, model, result = fitted(limited(), "--report", page, *TINY)
    assert "holds limits, as '<-1', in" in result.err
    assert "-1 stands for -1 or less" in result.err
    assert "taken for numbers with a limit beyond which nothing is told apart" in result.err
    assert "the limit stands for all of it" in page.read_text()
    assert cli("inspect", model, "--json").json["target_kind"] == "censored"
    later = tmp_path / "later.csv"
    later.write_text(limited(seed=1, limit=-1.5))  # measured below -1, by another laboratory
    scores = cli("evaluate", model, later, "--json").json["metrics"]["model"]
    assert scores["rmse"] < 0.6
    assert 0.8 < scores["coverage_90"] <= 1.0
    low = [float(row["lower_90"]) for row in cli("predict", model, later, "--interval", "0.9").rows]
    assert min(low) == -1.0
    assert cli("update", model, later, "--out", tmp_path / "u.bayesprop").code == 0


def test_a_few_limits_are_those_numbers(fitted):
    _, _, result = fitted(limited(limit=-2.0), *TINY, "--json")
    assert "-2 stands for -2 or less" in result.err
    assert result.json["target_kind"] == "numbers"
