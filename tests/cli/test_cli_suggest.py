"""`suggest` and `update`: what they print and write; what they do is tested on `TableModel`."""

from __future__ import annotations

import shutil

import numpy as np
import polars as pl
import pytest

from house_table import as_csv, house_rows


@pytest.fixture
def candidates(tmp_path):
    rows = [{k: v for k, v in row.items() if k != "price"} for row in house_rows(100, seed=9)]
    path = tmp_path / "c.csv"
    path.write_text(as_csv(rows))
    return path


def test_suggestions_are_shown_or_written(cli, house_model, candidates, tmp_path):
    words, out = ("suggest", house_model, candidates, "--n", 3), tmp_path / "next.csv"
    told = cli(*words, "--json").json
    shown = cli(*words, "--why").out
    assert list(told) == ["model", "table", "target", "acquisition", "unit", "candidates",
                          "suggestions", "warnings"]  # fmt: skip
    assert (told["acquisition"], told["unit"], told["candidates"]) == (
        "mutual-information",
        "nats",
        100,
    )
    assert "3 of 100 candidates; score: what the measurement would tell" in shown
    for one in told["suggestions"]:
        assert f"row {one['row']}: {one['why']}" in shown
    assert "row 1" not in cli(*words).out.splitlines()[-1]
    assert cli(*words, "--out", out, "--where", "area<=90", "--quiet").out == ""
    assert (pl.read_csv(out)["area"] <= 90.0).all()


def test_suggestions_for_a_goal(cli, house_model, houses, candidates):
    words = ("suggest", house_model, candidates, "--maximise", "--measured", houses)
    told = cli(*words, "--json").json
    assert told["acquisition"] == "log-expected-improvement"
    assert told["best"] > 0.0
    shown = cli(*words, "--why").out
    assert "score: log of the expected gain over the best so far" in shown
    assert "chance" in shown.splitlines()[1]
    for one in told["suggestions"]:
        assert f"row {one['row']}: {one['why']}".replace("\xa0", " ") in shown
    reached = cli(*words[:3], "--minimise", "--target-value", 0, "--json").json
    assert (reached["acquisition"], reached["best"]) == ("probability-of-improvement", 0.0)
    for wrong, said in (
        (("--maximise", "--minimise"), "exclude each other"),
        (("--target-value", 3), "--target-value requires --maximise or --minimise"),
        (("--maximise",), "needs the value to beat"),
    ):
        assert said in cli(*words[:3], *wrong).err


def test_an_update_is_told_and_noted(cli, house_model, houses, tmp_path):
    model, measured = shutil.copy(house_model, tmp_path / "m.bayesprop"), tmp_path / "new.csv"
    measured.write_text(as_csv(house_rows(15, seed=11)))
    told = cli("update", model, measured, "--json").json
    assert list(told) == ["model", "table", "target", "how", "rows", "before", "held_out",
                          "seconds", "guards", "warnings"]  # fmt: skip
    assert (told["how"], told["held_out"]) == ("streamed", None)
    assert told["rows"] == {"new": 15, "train": 123, "held_out": 0}
    about = cli("inspect", model, "--json").json
    assert about["rows"] == {"train": 123, "held_out": 0}
    assert about["command"].endswith(f"bayesprop update {model} {measured} --json")
    refitted = cli("update", house_model, measured, "--with", houses, "--out", model)
    assert "15 new rows before they were learnt" in refitted.out
    assert "12 held-out rows after the update" in refitted.out
    assert "refitted 15 rows" in refitted.err


def test_the_experiments_to_run_next(cli, tmp_path):
    rng = np.random.default_rng(0)
    heat, name = rng.uniform(20.0, 90.0, 25), tmp_path / "trials.csv"
    table = pl.DataFrame({"heat": heat, "metal": np.resize(["Ni", "Cu"], 25)})
    table.with_columns(result=60.0 - (heat - 50.0) ** 2 / 40.0).write_csv(name)
    words = ("optimise", name, "--target", "result", "--method", "linear", "--make", 200, "--n", 2)
    told = cli(*words, "--maximise", "--json").json
    assert list(told) == ["table", "target", "goal", "acquisition", "unit", "best", "rows",
                          "candidates", "suggestions", "report", "warnings"]  # fmt: skip
    assert (told["goal"], told["rows"]) == ("max", 25)
    page = tmp_path / "search.html"
    shown = cli(*words, "--minimise", "--append", "--range", "heat=0:9", "--report", page)
    assert f"report: {page}" in shown.err
    assert "Searching for the smallest result" in page.read_text(encoding="utf-8")
    assert "with a chance of" in shown.out
    assert f"2 rows added to {name}: fill in result" in shown.err
    lines = name.read_text().splitlines()
    assert len(lines) == 28
    assert all(line.endswith(",") and float(line.split(",")[0]) <= 9.0 for line in lines[-2:])
    again = cli(*words, "--maximise", "--out", out := tmp_path / "next.csv")
    assert again.code == 0
    assert "2 rows left out: no value in the target 'result'" in again.err
    assert {"heat", "metal", "mean", "chance", "why"} <= set(pl.read_csv(out).columns)
    for wrong, said in (
        ((), "give --maximise or --minimise"),
        (("--maximise", "--report", out, "--out", out), "must be two different files"),
        (("--maximise", "--report", name), "--report " + str(name) + " would overwrite an input"),
        (("--maximise", "--range", "heat"), "--range must be COL=LOW:HIGH"),
        (("--maximise", "--range", "heat=0:9", "--range", "heat=1:5"), "--range names heat twice"),
        (("--maximise", "--candidates", name), "give --make or --candidates, not both"),
    ):
        assert said in cli(*words, *wrong).err
    assert (
        "--append needs a .csv"
        in cli(*words[:1], "t.parquet", *words[2:], "--maximise", "--append").err
    )


def test_a_second_result_may_be_required(cli, tmp_path):
    rng = np.random.default_rng(0)
    heat, name, model = np.linspace(5.0, 95.0, 30), tmp_path / "t.csv", tmp_path / "purity"
    pure, result = 1.0 - heat / 100.0, heat + rng.standard_normal(30)
    pure += 0.01 * rng.standard_normal(30)
    pl.DataFrame({"heat": heat, "purity": pure, "result": result}).write_csv(name)
    words = ("optimise", name, "-t", "result", "--maximise", "--method", "linear", "--make", 200)
    told = cli(*words, "--require", "purity >= 0.6", "--json").json["suggestions"]
    assert all(one["heat"] < 50.0 and 0.0 < one["met"] <= 1.0 for one in told)
    cli("fit", name, "-t", "purity", "--drop", "result", "--method", "linear", "--out", model)
    saved = cli(*words, "--drop", "purity", "--require", f"{model} >= 0.6", "--json").json
    assert all(one["heat"] < 50.0 for one in saved["suggestions"])
    shown = cli(*words, "--require", "purity >= 0.6", "--append")
    assert "times the probability that all is met" in shown.out
    assert "It meets purity >= 0.6 with a probability of" in shown.out
    assert "fill in result and purity" in shown.err


def test_added_rows_leave_the_result_empty_whatever_it_is_called(cli, tmp_path):
    table = tmp_path / "t.csv"
    table.write_bytes(b"heat,mean,row\r\n" + b"".join(
        f"{k}.25,{10 - (k - 5) ** 2},{k}\r\n".encode() for k in range(12)
    ))  # fmt: skip
    words = ["optimise", table, "-t", "mean", "--maximise", "--method", "linear", "-n", "1"]
    assert cli(*words, "--drop", "row", "--append").code == 0
    last = table.read_bytes().split(b"\r\n")[-2]
    assert last.endswith(b",,")
    assert not last.startswith(b",")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("a;a;y\n1;2;3\n", "needs columns of different names"),
        ("a;y\n1,5;3\n", "writes decimal points"),
        ("a;y\n1;\u00e9\n", "needs UTF-8"),
    ],
)
def test_rows_are_added_only_where_they_can_be_written_alike(cli, tmp_path, content, reason):
    table = tmp_path / "t.csv"
    table.write_bytes(content.encode("latin-1"))
    assert reason in cli("optimise", table, "-t", "y", "--maximise", "--append").refusal
    assert table.read_bytes() == content.encode("latin-1")


def test_a_file_of_measured_rows_is_not_overwritten(cli, house_model, houses):
    words = ["suggest", house_model, houses, "--maximise", "--measured", houses, "--out", houses]
    assert "would overwrite an input" in cli(*words).refusal
