"""Intervals stretched on rows that the fit did not see."""

from __future__ import annotations

import math

import numpy as np

from house_table import as_csv, house_rows


def columns(result):
    return {name: np.array([float(row[name]) for row in result.rows]) for name in result.rows[0]}


def test_intervals_reach_as_far_as_the_calibration_rows_say(cli, house_model, tmp_path):
    held = tmp_path / "held.csv"
    rows = house_rows(n=40, seed=8)
    held.write_text(as_csv(rows))
    words = ["--interval", "0.5", "--interval", "0.9"]
    plain = columns(cli("predict", house_model, held, *words))
    score = np.sort(np.abs([row["price"] for row in rows] - plain["mean"]) / plain["std"])
    result = cli("predict", house_model, held, *words, "--calibrate", held)
    found = columns(result)
    for level in (0.5, 0.9):
        half = score[math.ceil(41 * level) - 1] * plain["std"]
        for bound, expected in (("lower", plain["mean"] - half), ("upper", plain["mean"] + half)):
            np.testing.assert_allclose(found[f"{bound}_{100 * level:g}"], expected, rtol=2e-6)
    np.testing.assert_array_equal(found["mean"], plain["mean"])
    assert "calibrated on 40 rows" in result.err
    assert "90 %: mean ± " in result.err


def test_rows_of_the_fit_are_refused(cli, house_model, houses, tmp_path):
    held = tmp_path / "held.csv"
    held.write_text(as_csv(house_rows(n=40, seed=8)))
    twice = cli("predict", house_model, "-", "--calibrate", "-").refusal
    assert "cannot both be standard input" in twice
    taught = tmp_path / "taught.bayesprop"
    assert cli("update", house_model, held, "--out", taught).code == 0
    assert (
        "rows that the fit did not see: the model has learnt these 40 rows"
        in cli("predict", taught, held, "--calibrate", held).refusal
    )
