"""What a report says of the positive one of two classes, against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop.evaluation.thresholds import Costs, Rule
from bayesprop.evaluation.verdict import of_classes
from bayesprop.report.contents import collect
from bayesprop.report.of_classes import two_classes
from report_fakes import FRAUD, METADATA, classifier, given

COSTS = Costs(fn=10.0, fp=1.0)


def test_the_positive_class_and_the_rule_are_those_of_the_model():
    train, test = FRAUD
    about = METADATA | {"rule": Rule.of_costs(COSTS)}
    contents = collect(**given(train, test, positive=0, metadata=about))
    two = contents.details.two
    predicted = classifier(train).predict_dist(test.X)
    flagged, positive = predicted.proba[:, 0] >= 1 / 11, test.y == "clean"
    assert (two.positive, two.other) == ("clean", "fraud")
    assert two.at.found == np.sum(flagged & positive)
    assert two.at.false_alarms == np.sum(flagged & ~positive)
    assert contents.score("Average precision").values[1] == pytest.approx(np.mean(positive))
    assert "1 / (1" in two.how.replace(".00", "")


def test_costs_at_every_threshold_are_those_counted():
    rng = np.random.default_rng(0)
    p = rng.random(300) ** 3
    positive = rng.random(300) < p
    spent = two_classes(p, positive, ("yes", "no"), Rule.of_costs(COSTS)).costs
    assert spent is not None
    for t, cost in zip(spent.curve.x, spent.curve.y, strict=True):
        by_hand = 10.0 * np.sum(positive & (p < t)) + np.sum(~positive & (p >= t))
        assert cost == pytest.approx(100.0 * by_hand / 300)
    every = [10.0 * np.sum(positive & (p < t)) + np.sum(~positive & (p >= t)) for t in [*p, 2.0]]
    assert spent.best[1] == pytest.approx(100.0 * min(every) / 300)
    assert spent.best[1] <= spent.chosen
    assert np.all(spent.curve.low <= spent.curve.y)
    assert np.all(spent.curve.y <= spent.curve.high)


def test_few_rare_positives_are_too_few_to_tell():
    from bayesprop.distributions.categorical import ClassPredictive

    for n, tone in ((400, "unknown"), (20_000, "good")):
        p = np.full(n, 0.01)
        y = np.zeros(n, int)
        y[::100] = 1
        predicted = ClassPredictive(np.column_stack([1 - p, p]), np.zeros(n), np.arange(2))
        said = of_classes(predicted, y)
        assert said.tone == tone
        assert "It expects" in said.details[0]
