"""Thresholds against brute force; what is said of new rows against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bayesprop import codec
from bayesprop.evaluation.thresholds import (
    AtThreshold,
    Costs,
    Rate,
    Rule,
    UnreachableError,
    binomial_interval,
)
from bayesprop.metrics import Ranked


def calibrated(n: int, seed: int, base: float = -3.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = 1.0 / (1.0 + np.exp(-base - 1.5 * rng.standard_normal(n)))
    return p, rng.random(n) < p


@pytest.mark.parametrize(("fn", "fp"), [(10.0, 1.0), (1.0, 3.0), (0.5, 0.5)])
def test_the_threshold_of_costs_is_cheapest_of_all_by_expectation(fn, fp):
    p, _ = calibrated(500, seed=1)
    costs = Costs(fn, fp)
    rule = Rule.of_costs(costs)
    spent = [np.sum(np.where(p >= t, fp * (1 - p), fn * p)) for t in np.append(np.sort(p), 2.0)]
    flagged = rule.flags(p)
    assert np.sum(costs.expected(p, flagged)) == pytest.approx(min(spent), rel=1e-12)
    assert rule.threshold == pytest.approx(fp / (fp + fn))


@pytest.mark.parametrize("rate", ["recall=0.9", "recall=0.35", "precision=0.5", "flagged=0.07"])
@pytest.mark.parametrize("digits", [1, 12])
def test_the_threshold_of_a_rate_is_that_of_a_search_over_all(rate, digits):
    p, positive = calibrated(800, seed=2)
    p = p.round(digits)
    kind, share = rate.split("=")
    reached = []
    for t in np.unique(p):
        flagged = p >= t
        got = {
            "recall": np.mean(flagged[positive]),
            "precision": np.mean(positive[flagged]),
            "flagged": np.mean(flagged),
        }[kind]
        if (got <= float(share)) if kind == "flagged" else (got >= float(share)):
            reached.append(t)
    best = (max if kind == "recall" else min)(reached) if reached else None
    if best is None:
        with pytest.raises(UnreachableError, match="no threshold reaches"):
            Rule.of_rate(Rate.parse(rate), p, positive)
        return
    rule = Rule.of_rate(Rate.parse(rate), p, positive)
    assert rule.threshold == best
    assert rule.spread[0] <= rule.threshold <= rule.spread[1]
    assert (rule.n_rows, rule.n_positive) == (800, int(np.sum(positive)))


@pytest.mark.parametrize("rate", ["recall=0.8", "flagged=0.1"])
def test_what_new_rows_will_have_lies_in_the_interval_as_often_as_it_says(rate, monkeypatch):
    monkeypatch.setattr(Ranked, "redrawn", lambda _: [])  # the spread of thresholds takes seconds
    many, positive = calibrated(400_000, seed=3)
    new = np.sort(many[positive] if rate.startswith("recall") else many)
    inside, n_trials = 0, 400
    for seed in range(n_trials):
        rule = Rule.of_rate(Rate.parse(rate), *calibrated(400, seed=100 + seed))
        share = 1.0 - np.searchsorted(new, rule.threshold) / len(new)
        assert rule.among_new is not None
        inside += rule.among_new[0] <= share <= rule.among_new[1]
    assert abs(inside / n_trials - 0.95) < 4.0 * math.sqrt(0.95 * 0.05 / n_trials)


@pytest.mark.parametrize(("k", "n"), [(0, 7), (3, 7), (7, 7), (50, 2000)])
def test_binomial_intervals_are_those_of_scipy(k, n):
    exact = stats.binomtest(k, n).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose(binomial_interval(k, n), (exact.low, exact.high), atol=1e-12)


def test_counts_and_costs_at_a_threshold_by_hand():
    positive = np.array([True, True, True, False, False, False])
    flagged = np.array([True, True, False, True, False, False])
    at = AtThreshold.of(flagged, positive)
    assert at == (2, 1, 1, 2)
    assert at.recall[0] == at.precision[0] == pytest.approx(2 / 3)
    assert at.cost(Costs(fn=10.0, fp=2.0)) == pytest.approx(12.0 / 6.0)
    assert math.isnan(AtThreshold.of(flagged, ~flagged & positive & flagged).recall[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fn=10", "fn=10,fp=1"),
        ("fn=10,fn=1", "fn=10,fp=1"),
        ("fn=10,fp=1,tp=0", "fn=10,fp=1"),
        ("fn=ten,fp=1", "'ten' in"),
        ("fn=0,fp=1", "above 0, got 0"),
        ("fn=inf,fp=1", "finite"),
    ],
)
def test_costs_that_cannot_be_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        Costs.parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [("0.9", "recall=0.9"), ("hits=0.9", "recall, precision"), ("recall=1", "below 1")],
)
def test_rates_that_cannot_be_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        Rate.parse(text)


def test_a_rate_needs_both_classes():
    with pytest.raises(UnreachableError, match="both classes"):
        Rule.of_rate(Rate("recall", 0.9), np.array([0.1, 0.2]), np.array([False, False]))


def test_a_rule_survives_storing_and_hostile_ones_are_refused():
    rule = Rule.of_rate(Rate("recall", 0.9), *calibrated(300, seed=5))
    for one in (rule, Rule.of_costs(Costs(10.0, 1.0))):
        assert codec.from_json(Rule, codec.to_json(one, Rule)) == one
    good = codec.to_json(rule, Rule)
    for change in ({"threshold": 2.0}, {"rate": None}, {"spread": [0.1]}, {"threshold": "x"}):
        with pytest.raises(ValueError, match="must"):
            codec.from_json(Rule, good | change)
