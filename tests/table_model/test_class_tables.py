"""Classes in a table's model: called anything, two or many, decided by costs or rates."""

from __future__ import annotations

import csv
import io
import math
import re
from typing import Any

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop import PBPClassifier

NAMES = ["plain", "with, comma", 'with "quote"', "日本 é", " <b>bold</b>", "[red]", "a;b|c"]
FAST: Any = {"method": "pbp", "hidden_layer_sizes": (5,), "n_epochs": 10}


def frame_of(labels: list[str], target: str = "kind", seed: int = 0) -> pl.DataFrame:
    """A column that depends on the class, one that does not, and the class."""
    rng = np.random.default_rng(seed)
    place = {label: 3.0 * i for i, label in enumerate(dict.fromkeys(labels))}
    a = np.array([place[label] for label in labels]) + rng.standard_normal(len(labels))
    return pl.DataFrame({"a": a, "b": rng.standard_normal(len(labels)), target: labels})


ANIMALS = frame_of(["cat", "dog", "emu"] * 40)


@pytest.fixture(scope="module")
def model() -> bayesprop.TableModel:
    return bayesprop.fit(ANIMALS, target="kind", **FAST)


def test_text_is_classified_and_judged_beside_baselines(model):
    scores = model.notes.held_out
    assert list(model.encoding.classes) == ["cat", "dog", "emu"]
    assert scores["model"]["accuracy"] > scores["constant"]["accuracy"] + 0.3
    assert set(scores["model"]) == set(scores["constant"]) == set(scores["logistic"])


def test_predict_needs_no_target_and_keeps_columns_beside_it(model):
    plain, bare = model.predict(ANIMALS), ANIMALS.drop("kind")
    assert model.predict(bare).equals(plain)
    kept = model.predict(ANIMALS, columns="all")
    assert kept.columns[:4] == ["a", "b", "kind", "predicted_kind"]
    assert kept["predicted_kind"].equals(plain["kind"], check_names=False)
    assert "predicted_kind" not in model.predict(bare, columns="all").columns


def test_evaluate_counts_what_was_taken_for_what(model):
    later = frame_of(["cat", "dog", "emu"] * 10, seed=5)
    evaluated, predicted = model.evaluate(later), model.predict(later)["kind"].to_list()
    counts = np.array(evaluated.confusion["counts"])
    assert evaluated.confusion["classes"] == ["cat", "dog", "emu"]
    assert counts.sum(axis=1).tolist() == [10, 10, 10]
    assert counts.sum(axis=0).tolist() == [predicted.count(one) for one in ("cat", "dog", "emu")]
    assert math.isclose(evaluated["model"]["accuracy"], np.trace(counts) / 30)


def test_names_with_commas_quotes_and_other_letters(told, tmp_path):
    path, out = tmp_path / "odd.csv", tmp_path / "p.csv"
    frame_of(NAMES * 20).write_csv(path)
    model, names = bayesprop.fit(path, target="kind", **FAST), sorted(map(str.strip, NAMES))
    assert model.predict(path, out=out) == 140
    header, *rows = csv.reader(io.StringIO(out.read_text()))
    assert header[1:-2] == ["kind", *(f"p({name})" for name in names)]
    assert {row[1] for row in rows} <= set(names)
    assert model.evaluate(path).confusion["classes"] == names
    assert "日本 é" in str(model)


def test_many_classes_get_the_likeliest_five():
    frame = frame_of([f"c{i:02d}" for i in range(30)] * 12)
    model = bayesprop.fit(frame, target="kind", **FAST, test_fraction=0)
    assert "(30 in all)" in str(model).replace("\n", " ")
    predicted = model.predict(frame)
    ranked = [name for rank in range(1, 6) for name in (f"class_{rank}", f"p_{rank}")]
    assert predicted.columns == ["kind", *ranked, "entropy", "mutual_information"]
    assert (np.diff(predicted.select(ranked[1::2]).to_numpy()) <= 0.0).all()
    assert predicted["kind"].equals(predicted["class_1"], check_names=False)
    assert all(len(set(row)) == 5 for row in predicted.select(ranked[::2]).iter_rows())


def test_a_value_of_the_wrong_type_is_bad_input_only_where_it_was_given(monkeypatch):
    def fail(*_args, **_kwargs):
        raise TypeError("'>' not supported")

    monkeypatch.setattr(PBPClassifier, "fit", fail)
    how: Any = {"target": "kind", "method": "pbp"}
    with pytest.raises(ValueError, match="not supported"):
        bayesprop.fit(ANIMALS, **how, weight_prior="wide")
    with pytest.raises(TypeError, match="not supported"):
        bayesprop.fit(ANIMALS, **how)


@pytest.mark.parametrize("name", ["row", "entropy", "p(a)", "abstained"])
def test_a_target_that_has_the_name_of_a_prediction(name, tmp_path):
    frame = frame_of(["a", "b"] * 20, name)
    model = bayesprop.fit(frame, target=name, **FAST, test_fraction=0)
    model.predict(frame, abstain_above=0.1, out=tmp_path / "p.csv")
    header = pl.read_csv(tmp_path / "p.csv").columns
    assert header[:2] == ["row", f"predicted_{name}"]
    assert len(set(header)) == len(header)


def test_rows_beyond_a_doubt_get_the_reason_alone(told):
    rng = np.random.default_rng(0)
    x = np.tile([0.0, 1.0, 2.0], 40) + rng.standard_normal(120)
    frame = pl.DataFrame({"x": x, "kind": np.tile(["a", "b", "c"], 40)})
    model = bayesprop.fit(frame, target="kind", **FAST, test_fraction=0)
    plain = model.predict(frame)
    doubt = 1.0 - plain.select("p(a)", "p(b)", "p(c)").to_numpy().max(axis=1)
    asked: Any = {"abstain_above": 0.4, "by": "error-probability"}
    found, is_beyond = model.predict(frame, **asked), doubt > 0.4
    assert 0 < is_beyond.sum() < 120
    for column in ("kind", "p(a)"):
        assert (found[column].is_null().to_numpy() == is_beyond).all()
        assert found[column].drop_nulls().equals(plain[column].filter(~is_beyond))
    assert found["entropy"].equals(plain["entropy"])
    for reason, d in zip(found["abstained"], doubt, strict=True):
        assert (reason is None) == (d <= 0.4)
        if reason is not None:
            assert float(re.search(r" (\S+) > 0.4$", reason)[1]) == pytest.approx(d, rel=1e-5)
    n = is_beyond.sum()
    assert f"abstained on {n} of 120 rows ({100 * n / 120:.3g} %): " in told
    with pytest.raises(ValueError, match="by='std' is not available for a model of classes"):
        model.predict(frame, abstain_above=1, by="std")
    with pytest.raises(ValueError, match="already has abstained"):
        model.predict(frame.with_columns(abstained=1), columns="all", **asked)


def loans(n: int = 1200, base: float = -3.2, seed: int = 0) -> pl.DataFrame:
    """Two classes, of which "default" is rare; weights that make it frequent."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    is_bad = rng.random(n) < 1.0 / (1.0 + np.exp(-base - 1.8 * x[:, 0]))
    kind, weight = np.where(is_bad, "default", "paid"), np.where(is_bad, 15.0, 1.0)
    return pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "kind": kind, "w": weight})


LOANS, HOW = loans(), {"target": "kind", "drop": "w", "method": "logistic"}


def test_the_rarer_class_is_positive_unless_another_is_asked_for(told):
    rare = bayesprop.fit(LOANS, **HOW, test_fraction=0.4)
    assert rare.positive.label == "default"
    other = bayesprop.fit(LOANS, **HOW, test_fraction=0.4, positive="paid")
    scores = other.notes.held_out
    assert scores["model"]["average_precision"] > 0.9
    assert rare.notes.held_out["model"]["average_precision"] < 0.9
    assert scores["constant"]["roc_auc"] == pytest.approx(0.5)
    how: Any = HOW | {"splits": 1, "test_fraction": 0.4, "positive": "paid"}
    compared = {one.method: one.metrics for one in bayesprop.compare(LOANS, **how).methods}
    assert set(compared) > {"constant", "logistic"}  # reference models as well
    for name, one in (("logistic", "model"), ("constant", "constant")):
        expected = scores[one]["average_precision"]
        assert compared[name]["average_precision"] == pytest.approx(expected)
    assert min(metrics["average_precision"] for metrics in compared.values()) > 0.8
    for verb in (bayesprop.fit, bayesprop.compare):
        with pytest.raises(ValueError, match="did you mean 'paid'"):
            verb(LOANS, **HOW, positive="payed")


def test_accuracy_comes_last_where_a_class_is_rare(told):
    frame = loans(base=-5.0)
    names = list(bayesprop.fit(frame, **HOW).notes.held_out["model"])
    assert (names[0], names[-1]) == ("average_precision", "accuracy")
    assert "accuracy" not in str(bayesprop.compare(frame, **HOW, splits=1, no_peers=True))


def test_predict_decides_by_the_costs_of_the_fit_or_by_others():
    model = bayesprop.fit(LOANS, **HOW, test_fraction=0, cost="fn=10,fp=1")
    for cost, threshold, fn, fp in ((None, 1 / 11, 10.0, 1.0), ("fn=1,fp=4", 0.8, 1.0, 4.0)):
        found = model.predict(LOANS, cost=cost)
        p = found["p(default)"].to_numpy()
        assert (found["decision"].to_numpy() == np.where(p >= threshold, "default", "paid")).all()
        lost = np.where(p >= threshold, (1.0 - p) * fp, fn * p)
        np.testing.assert_allclose(found["expected_cost"], lost, rtol=1e-6)


def test_a_rate_of_the_fit_is_reached_or_left_out(told):
    flagged = bayesprop.fit(LOANS, **HOW, rate="flagged=0.1").notes.rule
    assert (flagged.rate.kind, flagged.rate.share) == ("flagged", 0.1)
    unreached = bayesprop.fit(LOANS, **HOW, rate="precision=0.999")
    assert unreached.notes.rule is not None or "saved without a decision" in told
    with pytest.raises(ValueError, match="raise test_fraction"):
        bayesprop.fit(LOANS, **HOW, rate="recall=0.9", test_fraction=0)


def test_weights_that_move_the_base_rate_are_said(told, tmp_path):
    model = bayesprop.fit(LOANS, target="kind", weights="w", method="logistic")
    assert any("the weights change the share of 'default'" in one for one in model.remarks)
    model.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "The weights change the share of" in page
    assert "Which rows to act on" in page
