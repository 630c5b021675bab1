"""Calibrated intervals and sets of a report, against order statistics by hand."""

from __future__ import annotations

import math

import numpy as np

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.predictive import GaussianPredictive
from bayesprop.report import conformal
from bayesprop.report.words import number

RNG = np.random.default_rng(0)
N = 57
RANK = math.ceil(0.9 * (N + 1))


def test_intervals_are_stretched_by_the_rank_of_the_scores():
    mean, std = RNG.standard_normal(N), 0.5 + RNG.random(N)
    y = mean + 2.0 * std * RNG.standard_normal(N)
    found = conformal.of_numbers(GaussianPredictive(mean, 0.1 * std**2, 0.9 * std**2), y)
    wide = np.sort(np.abs(y - mean) / std)[RANK - 1]
    times = wide / 1.6448536269514722
    assert f"interval of a new row the mean ± {number(wide)} std: {number(times)} times" in found


def test_sets_hold_the_classes_above_the_rank_of_the_probabilities():
    proba = RNG.dirichlet(np.ones(3), N)
    classes = np.array(["a", "b", "c"])
    y = np.array([RNG.choice(classes, p=row) for row in proba])
    found = conformal.of_classes(ClassPredictive(proba, np.zeros(N), classes), y)
    own = proba[np.arange(N), np.searchsorted(classes, y)]
    limit = np.sort(own)[N - RANK]
    assert f"probability {number(limit)} or more" in found
    assert f"{number(np.mean(np.sum(proba >= limit, axis=1)))} classes on average" in found


def test_not_on_too_few_rows():
    """The 9th of 9 scores covers with probability 9 / 10; of 8 none does."""
    enough = np.ones(9)
    assert conformal.of_numbers(GaussianPredictive(enough, enough, enough), RNG.random(9))
    few = np.ones(8)
    assert conformal.of_numbers(GaussianPredictive(few, few, few), RNG.random(8)) == ""
    proba = RNG.dirichlet(np.ones(3), 8)
    classes = ClassPredictive(proba, np.zeros(8), np.arange(3))
    assert conformal.of_classes(classes, RNG.integers(3, size=8)) == ""
