"""Classes through the command line, called anything, with a classifier that fits at once."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from bayesprop import PBPClassifier
from bayesprop.cli import main

NAMES = ["plain", "with, comma", 'with "quote"', "日本 é", " <b>bold</b>", "[red]", "a;b|c"]
FAST = ("--method", "pbp", "--hidden", "5", "--epochs", "10")


def write(path, labels, seed=0):
    """A table whose two columns depend on the class, in the order of the labels' first sight."""
    rng = np.random.default_rng(seed)
    place = {label: 3.0 * i for i, label in enumerate(dict.fromkeys(labels))}
    rows = [
        {"a": place[label] + rng.standard_normal(), "b": rng.standard_normal(), "kind": label}
        for label in labels
    ]
    pl.DataFrame(rows, infer_schema_length=None).write_csv(path)
    return path


def fit(cli, path, *words, target="kind"):
    out = path.with_suffix(".bayesprop")
    return out, cli("fit", path, "-t", target, "-o", out, *FAST, *words)


@pytest.fixture(scope="module")
def animals(tmp_path_factory):
    """A table of three kinds, and its model."""
    path = write(tmp_path_factory.mktemp("kinds") / "animals.csv", ["cat", "dog", "emu"] * 40)
    model = path.with_suffix(".bayesprop")
    words = ["fit", str(path), "-t", "kind", "-o", str(model), *FAST, "--quiet"]
    assert main(words) == 0
    return path, model


def test_text_is_classified_and_judged_beside_baselines(cli, animals, tmp_path):
    path, _ = animals
    _, shown = fit(cli, path)
    assert "120 rows, each judged by a fit to other folds" in shown.out
    for word in ("accuracy", "likeliest class is right", "Brier", "constant", "logistic"):
        assert word in shown.out
    tenth = ("--test-fraction", 0.1)
    told = cli("fit", path, "-t", "kind", "-o", tmp_path / "m", *FAST, *tenth, "--json").json
    assert told["task"] == "classification"
    assert told["method"] == "pbp"
    assert told["classes"] == ["cat", "dog", "emu"]
    assert told["rows"] == {"train": 108, "held_out": 12}
    scores = told["held_out"]
    assert scores["model"]["accuracy"] > scores["constant"]["accuracy"] + 0.3
    assert set(scores["model"]) == set(scores["constant"]) == set(scores["logistic"])


def test_predict_needs_no_target_and_keeps_columns_beside_it(cli, animals, tmp_path):
    path, model = animals
    plain = cli("predict", model, path)
    bare = tmp_path / "bare.csv"
    pl.read_csv(path).drop("kind").write_csv(bare)
    assert cli("predict", model, bare).out == plain.out
    kept = cli("predict", model, path, "--columns", "all").rows
    assert list(kept[0])[:4] == ["a", "b", "kind", "predicted_kind"]
    assert [row["predicted_kind"] for row in kept] == [row["kind"] for row in plain.rows]
    assert "predicted_kind" not in cli("predict", model, bare, "--columns", "all").out


def test_evaluate_counts_what_was_taken_for_what(cli, animals, tmp_path):
    _, model = animals
    later = write(tmp_path / "later.csv", ["cat", "dog", "emu"] * 10, seed=5)
    shown = cli("evaluate", model, later)
    assert shown.code == 0
    assert "actual, predicted:" in shown.out
    told = cli("evaluate", model, later, "--json").json
    assert told["task"] == "classification"
    assert told["confusion"]["classes"] == ["cat", "dog", "emu"]
    counts = np.array(told["confusion"]["counts"])
    predicted = [row["kind"] for row in cli("predict", model, later).rows]
    assert counts.sum(axis=1).tolist() == [10, 10, 10]
    assert counts.sum(axis=0).tolist() == [predicted.count(one) for one in ("cat", "dog", "emu")]
    accuracy = np.trace(counts) / 30
    assert math.isclose(told["metrics"]["model"]["accuracy"], accuracy)
    assert cli("report", model, later, "--out", tmp_path / "r.html").code == 0
    assert "emu" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_inspect_lists_the_classes_and_reproduces_the_model(cli, animals, tmp_path):
    _, model = animals
    shown = cli("inspect", model)
    assert "cat, dog, emu" in shown.out
    assert "2 - 5 - 3" in shown.out
    told = cli("inspect", model, "--json").json
    assert (told["task"], told["classes"]) == ("classification", ["cat", "dog", "emu"])
    assert told["target_scaling"] is None
    assert told["config"]["parameters"]["inference"] == "adf"
    assert told["held_out"]["model"]["accuracy"] > 0.5


def test_names_with_commas_quotes_and_other_letters(cli, tmp_path):
    path = write(tmp_path / "odd.csv", NAMES * 20)
    model, result = fit(cli, path, "--test-fraction", "0")
    assert result.code == 0, result.err
    names = sorted(name.strip() for name in NAMES)
    predicted = cli("predict", model, path).rows
    assert list(predicted[0])[1:-2] == ["kind", *(f"p({name})" for name in names)]
    assert {row["kind"] for row in predicted} <= set(names)
    told = cli("evaluate", model, path, "--json").json
    assert told["confusion"]["classes"] == names
    assert "日本 é" in cli("inspect", model).out
    assert "[red]" in cli("evaluate", model, path).out


def test_many_classes_get_the_likeliest_five(cli, tmp_path):
    path = write(tmp_path / "many.csv", [f"c{i:02d}" for i in range(30)] * 12)
    model, result = fit(cli, path, "--test-fraction", "0")
    assert result.code == 0, result.err
    rows = cli("predict", model, path).rows
    ranked = [name for rank in range(1, 6) for name in (f"class_{rank}", f"p_{rank}")]
    assert list(rows[0]) == ["row", "kind", *ranked, "entropy", "mutual_information"]
    for row in rows:
        shares = [float(row[f"p_{rank}"]) for rank in range(1, 6)]
        assert shares == sorted(shares, reverse=True)
        assert row["kind"] == row["class_1"]
        assert len({row[f"class_{rank}"] for rank in range(1, 6)}) == 5
    assert "actual, predicted:" not in cli("evaluate", model, path).out
    assert "(30 in all)" in cli("inspect", model).out


def test_a_value_of_the_wrong_type_is_bad_input_only_where_it_was_given(
    cli, animals, tmp_path, monkeypatch
):
    def fail(*_args, **_kwargs):
        raise TypeError("'>' not supported")

    monkeypatch.setattr(PBPClassifier, "fit", fail)
    words = ("fit", animals[0], "-t", "kind", "-o", tmp_path / "m", *FAST)
    assert cli(*words, "--set", "weight_prior=wide").code == 2
    assert cli(*words).code == 1


def test_settings_reach_the_estimator_with_their_types(cli, tmp_path):
    path = write(tmp_path / "t.csv", ["a", "b"] * 20)
    out = tmp_path / "m"
    words = ("fit", path, "-t", "kind", "-o", out, "--method", "pbp", "--set", "activation=relu")
    words += ("--set", "weight_prior=[3, 2.0]", "--set", "hidden_layer_sizes=[4, 3]")
    result = cli(*words, "--set", "n_epochs=2", "--test-fraction", "0")
    assert result.code == 0, result.err
    parameters = cli("inspect", out, "--json").json["parameters"]
    assert (parameters["activation"], parameters["weight_prior"]) == ("relu", [3, 2.0])
    assert (parameters["hidden_layer_sizes"], parameters["n_epochs"]) == ([4, 3], 2)
    assert parameters["random_state"] == 0


def test_a_target_that_has_the_name_of_a_prediction(cli, tmp_path):
    for name in ("row", "entropy", "p(a)"):
        path = write(tmp_path / "t.csv", ["a", "b"] * 20)
        pl.read_csv(path).rename({"kind": name}).write_csv(path)
        model, result = fit(cli, path, "--test-fraction", "0", target=name)
        assert result.code == 0, result.err
        predicted = cli("predict", model, path)
        assert predicted.code == 0, predicted.err
        header = predicted.out.splitlines()[0].split(",")
        assert header[:2] == ["row", f"predicted_{name}"]
        assert len(set(header)) == len(header)
