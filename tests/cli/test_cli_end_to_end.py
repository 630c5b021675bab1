"""From a table to predictions, a judgement and a report, as a user would go."""

from __future__ import annotations

import json
import shlex

import numpy as np
import polars as pl
import pytest

from bayesprop import BayesianRegressor
from bayesprop.cli import main
from bayesprop.table_model.sources import read_source

FAST = ("--method", "pbp", "--hidden", "10", "--epochs", "20", "--quiet")


@pytest.fixture(scope="module")
def diabetes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diabetes")
    model, page = folder / "d.bayesprop", folder / "d.html"
    words = ["fit", "diabetes", "--test-fraction", "0.2", "--method", "pbp"]
    words += ["--epochs", "20", "--quiet", "--target-kind", "numbers"]
    assert main([*words, "--out", str(model), "--report", str(page)]) == 0
    return model, page


def test_fit_prints_held_out_metrics_beside_baselines(cli, houses, tmp_path):
    out = tmp_path / "m.bayesprop"
    fit, tenth = ("fit", houses, "--out", out, *FAST), ("--test-fraction", 0.1)
    result = cli(*fit, *tenth, "--target", "price", "--unit", "kEUR")
    assert result.code == 0
    assert "12 held-out rows" in result.out
    assert all(word in result.out for word in ("RMSE", "kEUR", "constant", "linear"))
    told = cli(*fit, *tenth, "-t", "price", "--json").json
    assert told["rows"] == {"train": 108, "held_out": 12}
    assert told["held_out"]["model"]["rmse"] < 0.5 * told["held_out"]["constant"]["rmse"]
    assert told["command"].startswith("bayesprop fit ")


def test_a_target_brings_its_unit(cli, houses, tmp_path):
    """It is said and shown, and another one is refused; `update` then changes nothing."""
    frame = pl.read_csv(houses)
    tables = {unit: tmp_path / f"{name}.csv" for name, unit in (("dollars", "$"), ("euros", "€"))}
    for unit, path in tables.items():
        price = unit + pl.col("price").round(0).cast(pl.Int64).cast(pl.String)
        frame.with_columns(price=price).write_csv(path)
    out = tmp_path / "m.bayesprop"
    fitted = cli("fit", tables["$"], "-t", "price", "--out", out, *FAST[:-1])
    assert "column 'price': '$" in fitted.err
    assert "(in $)" in fitted.out
    assert cli("inspect", out, "--json").json["unit"] == "$"
    assert cli("evaluate", out, houses, "--json").json["unit"] == "$"
    before = out.read_bytes()
    for command in (("evaluate", out), ("update", out)):
        refused = cli(*command, tables["€"])
        assert refused.code == 2
        assert "but the unit of the model is '$'" in refused.err
    assert out.read_bytes() == before


def test_known_data_set_brings_its_target_and_unit(cli, diabetes):
    model, page = diabetes
    told = cli("inspect", model, "--json").json
    assert (told["target"], told["rows"]) == ("progression", {"train": 354, "held_out": 88})
    assert told["unit"]
    text = page.read_text(encoding="utf-8")
    assert "<html" in text
    assert "This model and a linear model do not differ significantly on these rows" in text


def test_inspect_shows_what_the_recipe_chose(cli, tmp_path):
    x = np.random.default_rng(0).standard_normal((40, 3))
    path = tmp_path / "few.bayesprop"
    BayesianRegressor(n_epochs=30, n_members=1, random_state=0).fit(x, x[:, 0]).save(path)
    lines = dict(line.split(None, 1) for line in cli("inspect", path).out.splitlines()[:8])
    assert lines["layers"] == "3 - 50 - 1"
    assert lines["fit"].startswith("30 steps in ")
    assert lines["last"].startswith("step  loss ")
    assert "evidence" not in lines
    assert cli("inspect", path, "--json").json["layer_sizes"] == [3, 50, 1]


def test_inspect_says_what_reproduces_the_model(cli, house_model, houses, tmp_path):
    shown = cli("inspect", house_model)
    assert shown.code == 0
    assert "bayesprop fit " in shown.out
    assert all(word in shown.out for word in ("pbp", "area", "town", "price", "kEUR"))
    told = cli("inspect", house_model, "--json").json
    words = shlex.split(told["command"])
    assert words[:3] == ["bayesprop", "fit", str(houses)]

    again = tmp_path / "again.bayesprop"
    words[words.index("--out") + 1] = str(again)
    assert cli(*words[1:]).code == 0
    first = cli("predict", house_model, houses).out
    assert cli("predict", again, houses).out == first


def test_inspect_shows_what_the_fit_warned_of_and_how_sure_its_scores_are(cli, houses, tmp_path):
    model = tmp_path / "m"
    fit = ("fit", houses, "-t", "price", "-o", model, "--method", "linear")
    told, stored = cli(*fit, "--json").json, cli("inspect", model, "--json").json
    for key in ("warnings", "standard_errors", "judged_by", "held_out"):
        assert stored[key] == told[key]
    shown = cli("inspect", model).out
    assert "± s.e." in shown
    assert told["judged_by"] in shown
    assert "no rows were held out" in cli(*fit, "--test-fraction", 0).err
    assert cli("inspect", model, "--json").json["held_out"] is None


def test_settings_reach_the_estimator_with_their_types(cli, houses, tmp_path):
    given = ("--set", "activation=relu", "--set", "weight_prior=[3, 2.0]", "--epochs", 2, "-q")
    for sizes in (("--hidden", "6,4"), ("--hidden", "6", "--hidden", "4"),
                  ("--set", "hidden_layer_sizes=[6, 4]")):  # fmt: skip
        out = tmp_path / "m"
        words = ("fit", houses, "-t", "price", "-o", out, "--method", "pbp", *sizes, *given)
        assert cli(*words, "--test-fraction", 0).code == 0
        parameters = cli("inspect", out, "--json").json["parameters"]
        assert (parameters["activation"], parameters["weight_prior"]) == ("relu", [3, 2.0])
        assert (parameters["hidden_layer_sizes"], parameters["n_epochs"]) == ([6, 4], 2)
        assert parameters["random_state"] == 0


def test_classes_and_decisions_are_shown(cli, fitted):
    text = "x,y\n" + "".join(f"{k % 9},{'ab'[k % 9 > 2]}\n" for k in range(90))
    words = ("--method", "logistic", "--test-fraction", 0.2, "--cost", "fn=10,fp=1")
    table, model, result = fitted(text, *words)
    assert "positive class: 'a', the rarer; --positive names another" in result.err
    shown = cli("evaluate", model, table).out
    assert "actual, predicted:" in shown
    assert "flagged as 'a' from 0.09091" in shown
    assert "a, b" in cli("inspect", model).out
    told = cli("inspect", model, "--json").json
    assert (told["task"], told["classes"], told["positive"]) == ("classification", ["a", "b"], "a")
    assert told["decision"]["costs"] == {"fn": 10.0, "fp": 1.0}
    assert told["target_scaling"] is None
    abstained = cli("predict", model, table, "--abstain-above", 0, "--quiet")
    assert (abstained.err, {row["y"] for row in abstained.rows}) == ("", {""})
    many = "x,y\n" + "".join(f"{k % 12},c{k % 12:02d}\n" for k in range(120))
    table, model, _ = fitted(many, "--method", "logistic", "--test-fraction", 0)
    assert "actual, predicted:" not in cli("evaluate", model, table).out


def test_catalogues(cli):
    listed = {method["name"]: method for method in cli("methods", "--json").json["methods"]}
    assert listed["logistic"]["tasks"] == ["classification"]
    assert "tasks  classification" in cli("methods").out
    sets = {data["name"]: data for data in cli("datasets", "--json").json["datasets"]}
    assert (sets["boston"]["n"], sets["boston"]["d"]) == (506, 13)
    assert (sets["iris"]["source"], len(sets["iris"]["classes"])) == ("scikit-learn", 3)
    assert sets["digits"]["image_shape"] == [8, 8]
    assert "10 classes" in cli("datasets").out


def test_data_sets_are_tables_by_name(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "diabetes").mkdir()  # a folder of that name is not in the way
    frame = read_source("diabetes")
    assert frame.shape == (442, 11)
    assert frame.columns[-1] == "progression"


def test_predictions_as_json_and_columns_beside_them(cli, house_model, houses, tmp_path):
    rows = cli("predict", house_model, houses, "--columns", "town,price").rows
    assert list(rows[0])[:3] == ["town", "price", "mean"]
    printed = cli("predict", house_model, houses, "--columns", "town", "--json").out
    objects = [json.loads(line) for line in printed.splitlines()]
    assert [one["town"] for one in objects] == [row["town"] or None for row in rows]
    assert [one["mean"] for one in objects] == [float(row["mean"]) for row in rows]
    cli("predict", house_model, houses, "--out", tmp_path / "p.jsonl")
    lines = (tmp_path / "p.jsonl").read_text().splitlines()
    assert [json.loads(line)["mean"] for line in lines] == [one["mean"] for one in objects]
    abstained = cli("predict", house_model, houses, "--abstain-above", "0", "--json").out
    assert json.loads(abstained.splitlines()[0])["mean"] is None


def test_digits_of_text_are_enough_and_those_of_parquet_all(cli, house_model, houses, tmp_path):
    cli("predict", house_model, houses, "--out", tmp_path / "p.parquet")
    exact = pl.read_parquet(tmp_path / "p.parquet")
    text = cli("predict", house_model, houses).rows
    for name in ("mean", "std", "epistemic_std", "lower_90"):
        written = [row[name] for row in text]
        assert max(len(word.strip("-0.").replace(".", "")) for word in written) <= 7
        error = np.abs(np.array(written, float) - exact[name].to_numpy())
        assert (error <= 5.01e-7 * np.abs(exact[name].to_numpy())).all()
