"""Decisions, calibration and abstention from Python: what the command line says, as it says it."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayesprop
from bayesprop import metrics
from bayesprop.cli import main


def loans(seed: int, n: int = 600) -> pd.DataFrame:
    """Two classes, of which the rarer is the first in the alphabet; and what a loan costs."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    is_bad = rng.random(n) < 1.0 / (1.0 + np.exp(3.2 - 1.8 * x[:, 0]))
    spent = 100.0 + 30.0 * x[:, 0] + 10.0 * rng.standard_normal(n)
    kind = np.where(is_bad, "default", "paid")
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "kind": kind, "spent": spent})


LEARNT, LATER = loans(0), loans(1)
HOW = {"target": "kind", "drop": "spent", "method": "logistic"}


@pytest.fixture(scope="module")
def model() -> bayesprop.TableModel:
    return bayesprop.fit(LEARNT, **HOW, cost={"fn": np.int64(10), "fp": 1})


@pytest.fixture(scope="module")
def numbers() -> bayesprop.TableModel:
    return bayesprop.fit(LEARNT, target="spent", drop="kind", method="linear")


@pytest.fixture(scope="module")
def files(
    model: bayesprop.TableModel,
    numbers: bayesprop.TableModel,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    folder = tmp_path_factory.mktemp("loans")
    model.save(folder / "kind.bayesprop")
    numbers.save(folder / "spent.bayesprop")
    LATER.to_csv(folder / "later.csv", index=False)
    loans(2).to_csv(folder / "held_out.csv", index=False)
    return folder


def test_costs_are_a_mapping_or_text(model: bayesprop.TableModel):
    same = bayesprop.fit(LEARNT, **HOW, cost="fn=10,fp=1")
    assert model.notes.rule == same.notes.rule
    assert "cost={'fn': 10, 'fp': 1}" in model.notes.command
    assert "decides 'default' from a probability of 0.09091, by" in str(model)
    assert "decides" not in str(bayesprop.fit(LEARNT, **HOW))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"cost": {"fn": 10}}, "costs must be like fn=10,fp=1 .* got {'fn': 10}"),
        ({"cost": {"fn": 10, "fp": 1, 3: 1}}, "costs must be like fn=10,fp=1"),
        ({"cost": 10}, "costs must be like fn=10,fp=1 .* got 10"),
        ({"cost": {"fn": None, "fp": 1}}, "None in .* must be a number"),
        ({"rate": 0.9}, "a rate must be like recall=0.9, got 0.9"),
    ],
)
def test_other_costs_and_rates_are_refused(model: bayesprop.TableModel, asked: dict, words: str):
    with pytest.raises(ValueError, match=words):
        bayesprop.fit(LEARNT, **HOW, **asked)
    with pytest.raises(ValueError, match=words):
        model.predict(LATER, **asked)


def test_the_predictive_has_the_positive_class_of_the_model(model: bayesprop.TableModel):
    predictive = model.predict_dist(LATER)
    assert predictive.classes[predictive.positive] == model.positive.label == "default"
    scores = model.evaluate(LATER)
    assert metrics.summarise(predictive, LATER["kind"].to_numpy()) == pytest.approx(scores["model"])


def test_evaluate_says_what_the_decision_does(model: bayesprop.TableModel):
    decided = model.evaluate(LATER).decided
    is_bad = (LATER["kind"] == "default").to_numpy()
    flagged = (model.predict(LATER)["decision"] == "default").to_numpy()
    assert decided["threshold"] == pytest.approx(1 / 11)
    assert decided["found"] == np.sum(flagged & is_bad)
    assert decided["recall"][0] == pytest.approx(np.mean(flagged[is_bad]))
    cost = (10 * decided["missed"] + decided["false_alarms"]) / len(LATER)
    assert decided["mean_cost"] == pytest.approx(cost)
    assert bayesprop.fit(LEARNT, **HOW).evaluate(LATER).decided is None


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("kind", {"cost": "fn=1,fp=4"}),
        ("kind", {"rate": "recall=0.8", "calibrate": "held_out.csv"}),
        ("kind", {"abstain_above": 0.3, "by": "error-probability"}),
        ("kind", {"abstain_above": 0.2}),
        ("spent", {"calibrate": "held_out.csv"}),
        ("spent", {"abstain_above": 1.0, "by": "epistemic", "calibrate": "held_out.csv"}),
    ],
)
def test_predict_takes_what_the_command_line_takes(
    files: Path, name: str, asked: dict, capsys: pytest.CaptureFixture[str]
):
    if "calibrate" in asked:
        asked = asked | {"calibrate": str(files / asked["calibrate"])}
    words = [str(part) for key, value in asked.items()
             for part in (f"--{key.replace('_', '-')}", value)]  # fmt: skip
    table, file = str(files / "later.csv"), files / f"{name}.bayesprop"
    assert main(["predict", str(file), table, *words, "--quiet"]) == 0
    printed = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    predicted = bayesprop.load(file).predict(table, **asked)
    assert list(printed[0]) == ["row", *predicted.columns]
    for column in predicted.columns:
        own, other = predicted[column], [row[column] for row in printed]
        assert [one is None for one in own] == [one == "" for one in other]
        if own.dtype == pl.String:
            assert [one or "" for one in own] == other
        else:
            numbers = [float(one or "nan") for one in other]
            np.testing.assert_allclose(own.to_numpy(), numbers, rtol=1e-5, atol=1e-6)


def test_intervals_reach_as_far_as_the_calibration_rows_say(numbers: bayesprop.TableModel):
    held, levels = loans(3, 40), (0.5, 0.9)
    plain, found = numbers.predict(held, levels), numbers.predict(held, levels, calibrate=held)
    score = np.sort((np.abs(held["spent"] - plain["mean"]) / plain["std"]).to_numpy())
    for level in levels:
        half = score[math.ceil(41 * level) - 1] * plain["std"]
        np.testing.assert_allclose(found[f"lower_{100 * level:g}"], plain["mean"] - half)
        np.testing.assert_allclose(found[f"upper_{100 * level:g}"], plain["mean"] + half)
    pd.testing.assert_series_equal(found["mean"], plain["mean"])
    with pytest.raises(
        ValueError, match="were not used in the fit: the model has learnt these 40 rows"
    ):
        numbers.update(held).predict(held, calibrate=held)


def test_a_rate_is_reached_on_frames(model: bayesprop.TableModel):
    predicted = model.predict(LATER, rate="recall=0.8", calibrate=LATER)
    is_bad = (LATER["kind"] == "default").to_numpy()
    assert 0.8 <= np.mean(predicted["decision"][is_bad] == "default") < 0.8 + 1.5 / is_bad.sum()
    with pytest.raises(ValueError, match=r"^rate chooses a threshold .*: give calibrate$"):
        model.predict(LATER, rate="recall=0.8")
    with pytest.raises(ValueError, match=r"^calibrate requires rows that were not used in the fit"):
        model.predict(LATER, rate="recall=0.8", calibrate=LEARNT)


def test_rows_beyond_are_missing_in_a_frame_of_the_same_kind(numbers: bayesprop.TableModel):
    plain = numbers.predict(LATER)
    above = float(plain["epistemic_std"].median())
    predicted = numbers.predict(LATER, abstain_above=above, by="epistemic")
    is_beyond = plain["epistemic_std"] > above
    assert (predicted["mean"].isna() == is_beyond).all()
    assert (predicted["abstained"].notna() == is_beyond).all()
    pd.testing.assert_index_equal(predicted.index, LATER.index)
    none = numbers.predict(LATER, abstain_above=0.0)
    assert none["mean"].isna().all()
    assert none["mean"].dtype == np.float64
    pd.testing.assert_series_equal(none["std"], plain["std"])
    other = numbers.predict(pl.from_pandas(LATER), abstain_above=np.float32(0.0))
    assert other["mean"].null_count() == len(LATER)
    for asked, words in (
        ({"by": "std"}, "^by chooses the uncertainty that abstain_above"),
        ({"abstain_above": "much"}, "^abstain_above must be a number of at least 0, got much"),
        ({"abstain_above": 1.0, "by": 3}, "^by=3 is not available for a model of numbers"),
        ({"calibrate": LATER, "quantiles": 0.1}, "^calibrate scales intervals only"),
        ({"cost": "fn=1,fp=1"}, "^cost is for two classes, and the target is a number"),
    ):
        with pytest.raises(ValueError, match=words):
            numbers.predict(LATER, **asked)
