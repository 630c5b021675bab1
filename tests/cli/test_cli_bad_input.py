"""Whatever a table, a model file or a path gets wrong: one line, exit code 2, nothing written."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop import PBPRegressor
from bayesprop.store import load_model, save_model
from house_table import as_csv, house_rows

HEADER = "a,b,y\n"
ROWS = "".join(f"{i},{i * i % 7},{2 * i}\n" for i in range(20))
FAST = ("--method", "pbp", "--hidden", "5", "--epochs", "5", "--test-fraction", "0", "--quiet")


def test_names_that_are_not_text_stay_text(cli, fitted):
    rows = [f"{i},{i % 5},{i}\n" for i in range(30)]
    names = "[red]<script>alert(1)</script>,\x1b[31mb,y\n"
    _, model, _ = fitted(names + "".join(rows), *FAST)
    result = cli("inspect", model)
    assert "[red]<script>" in result.out
    assert "\x1b" not in result.out


def test_blanks_around_names_are_no_faults(cli, fitted):
    rows = [f" {i % 7} kg, {i}\n" for i in range(60)]
    table, model, _ = fitted(" mass , the y \n" + "".join(rows), *FAST, target=" the y ")
    assert cli("predict", model, table).code == 0


@pytest.mark.parametrize("command", ["predict", "evaluate", "suggest", "report", "update"])
def test_a_far_value_is_named_by_row_and_column(cli, house_model, tmp_path, command):
    rows = [{"area": 100, "rooms": 3, "town": "Ulm", "price": 500.0} for _ in range(12)]
    rows[2]["area"] = "1e300"
    table = tmp_path / "far.csv"
    table.write_text(as_csv(rows))
    out = () if command in ("evaluate", "suggest") else ("--out", tmp_path / "out.csv")
    expected = "error: data row 3: area must lie within 1e+"
    result = cli(command, house_model, table, *out)
    assert result.code == 2
    assert result.error.startswith(expected)
    if command == "predict":
        rows[2]["area"] = 100
        good = tmp_path / "good.csv"
        good.write_text(as_csv(rows))
        result = cli("predict", house_model, good, "--calibrate", table, *out)
        assert result.error.splitlines()[-1].startswith(expected)
    assert not (tmp_path / "out.csv").exists()


def test_columns_beside_predictions_must_be_there_and_free(cli, house_model):
    rows = [row | {"mean": 1} for row in house_rows(n=3)]
    words = ["predict", house_model, "-", "--columns"]
    assert "already has mean" in cli(*words, "all", stdin=as_csv(rows)).refusal
    assert cli(*words, "rooms", stdin=as_csv(rows)).code == 0


def test_model_without_a_table(cli, houses, tmp_path):
    path = tmp_path / "m.bayesprop"
    PBPRegressor((3,), 1, random_state=0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]).save(path)
    assert cli("inspect", path).code == 0
    assert "saved from Python" in cli("predict", path, houses).refusal


def test_odd_notes_in_a_model_file_count_as_not_said(cli, house_model, houses, tmp_path):
    saved, path = load_model(house_model), tmp_path / "m.bayesprop"
    odd = {"unit": 3, "rows": "many", "held_out": {"model": 5}, "baselines": [1], "command": ["rm"]}
    save_model(path, saved.estimator, table=saved.table, metadata=odd)
    assert "not recorded" in cli("inspect", path).out
    assert list(cli("evaluate", path, houses, "--json").json["metrics"]) == ["model"]
    assert cli("report", path, houses, "--out", tmp_path / "r.html").code == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "does not hold the baselines, which need the training rows" in page


def test_a_model_file_with_broken_numbers_predicts_nothing(cli, house_model, houses, tmp_path):
    saved, path = load_model(house_model), tmp_path / "m.bayesprop"
    learned = saved.estimator.learned_
    broken = learned.state._replace(m=tuple(np.full_like(m, np.nan) for m in learned.state.m))
    broken = saved.estimator.relearned(learned._replace(state=broken))
    save_model(path, broken, table=saved.table)
    for words in (("predict",), ("evaluate",), ("report", "--out", tmp_path / "r.html")):
        result = cli(words[0], path, houses, *words[1:])
        assert result.code == 2
        assert (result.out, "finite" in result.error) == ("", True)
    assert list(tmp_path.iterdir()) == [path]


def test_rows_of_weight_zero_judge_nothing(cli, fitted):
    kept = [(i % 11, 2 * (i % 11) + 0.1 * (i % 3)) for i in range(60)]
    lines = [f"{a},{y},1\n" for a, y in kept] + [f"{i},1000,0\n" for i in range(30)]
    text, weights = "a,y,w\n" + "".join(lines), ("--weights", "w")
    linear = ("--method", "linear", "--test-fraction", 0.1)
    judged = fitted(text, *weights, *linear, "--json")[2].json
    assert judged["rows"] == {"train": 54, "held_out": 6}
    assert judged["held_out"]["model"]["rmse"] < 0.5
    assert judged["held_out"]["constant"]["rmse"] < 20.0
    assert "30 rows left out: weight 0" in judged["warnings"]
    table, model, _ = fitted(text, *weights, *FAST)
    learnt = cli("update", model, table, "--json").json
    assert learnt["rows"]["new"] == 60
    assert any("was fitted on" in one for one in learnt["warnings"])
    assert "has learnt these 90 rows" in cli("evaluate", model, table).err
    assert learnt["before"]["constant"]["rmse"] < 20.0


def test_rows_that_were_learnt_before_are_known_again(cli, fitted, tmp_path):
    first, later = (
        HEADER + "".join(f"{i},{i * i % 7},{2 * i + i % 3}\n" for i in range(start, start + 30))
        for start in (0, 7)
    )
    table, model, _ = fitted(first, *FAST)
    new = tmp_path / "new.csv"
    new.write_text(later)
    assert "too sure" not in cli("update", model, new).err
    assert "learnt these 30 rows" in cli("update", model, new).err
    assert "was fitted on some of these 30 rows" in cli("update", model, table).err
    assert "learnt these 30 rows" in cli("evaluate", model, new).err
    assert "120 learnt" in cli("inspect", model).out


def test_no_file_that_is_read_is_written_to(cli, house_model, houses, tmp_path):
    own = tmp_path / "own.csv"
    own.write_bytes(houses.read_bytes())
    before = own.read_bytes(), house_model.read_bytes()
    (tmp_path / "sub").mkdir()
    fit = ("fit", houses, "--target", "price")
    for words in (
        ("fit", own, "--target", "price", "--out", own),
        (*fit, "--out", tmp_path / "m", "--report", tmp_path / "sub" / ".." / "m"),
        ("predict", house_model, own, "--out", own),
        ("predict", house_model, houses, "--calibrate", own, "--out", own),
        ("suggest", house_model, houses, "--reference", own, "--out", own,
         "--acquisition", "expected-entropy-reduction"),
        ("report", house_model, houses, "--out", house_model),
    ):  # fmt: skip
        refusal = cli(*words).refusal
        assert "would overwrite an input" in refusal or "must be two different" in refusal, words
    assert (own.read_bytes(), house_model.read_bytes()) == before
