"""Calibrated intervals and sets of a report, against order statistics by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.predictive import GaussianPredictive
from bayesprop.report import conformal

RNG = np.random.default_rng(0)
N = 57
RANK = math.ceil(0.9 * (N + 1))


def test_intervals_are_stretched_by_the_rank_of_the_scores():
    mean, std = RNG.standard_normal(N), 0.5 + RNG.random(N)
    y = mean + 2.0 * std * RNG.standard_normal(N)
    found = conformal.stretched(
        GaussianPredictive(mean, 0.1 * std**2, 0.9 * std**2), y, kind="table"
    )
    assert found.std_wide == pytest.approx(np.sort(np.abs(y - mean) / std)[RANK - 1])
    assert found.times_as_wide == pytest.approx(found.std_wide / 1.6448536269514722)
    assert "interval of a new row the mean ±" in found.sentence


def test_sets_hold_the_classes_above_the_rank_of_the_probabilities():
    proba = RNG.dirichlet(np.ones(3), N)
    classes = np.array(["a", "b", "c"])
    y = np.array([RNG.choice(classes, p=row) for row in proba])
    found = conformal.sets(ClassPredictive(proba, np.zeros(N), classes), y, kind="held-out")
    own = proba[np.arange(N), np.searchsorted(classes, y)]
    assert found.limit == pytest.approx(np.sort(own)[N - RANK])
    assert found.mean_size == pytest.approx(np.mean(np.sum(proba >= found.limit, axis=1)))


def test_not_on_training_rows_nor_on_too_few_nor_without_mapie(monkeypatch):
    ones = np.ones(10)
    few = GaussianPredictive(ones, ones, ones)
    assert conformal.stretched(few, ones, kind="held-out") is None
    ones = np.ones(40)
    many = GaussianPredictive(ones, ones, ones)
    assert conformal.stretched(many, RNG.random(40), kind="training") is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert conformal.stretched(many, RNG.random(40), kind="held-out") is None
