"""Counts that stand out of their surroundings: round numbers, and steps of a scale."""

import numpy as np
import pytest
from scipy import stats

from bayesprop import codec
from bayesprop.targets import kinds
from bayesprop.targets.bijectors import COUNT, TargetMap
from bayesprop.targets.kinds import learnt_map


def learnt(y):
    return learnt_map(COUNT, np.ones((len(y), 1)), y[:, None])


def cigarettes(rng, n):
    """Nothing for most, packets of twenty for some, a spread of other counts."""
    kinds = rng.choice(3, size=n, p=[0.6, 0.2, 0.2])
    return np.select([kinds == 0, kinds == 1], [0.0, 20.0], 1.0 + rng.poisson(12.0, size=n))


HEAPS = np.repeat([0.0, 1.0, 3.0, 7.0, 12.0], [300, 60, 40, 50, 30])


def test_a_heap_and_what_lies_beside_it_have_their_shares():
    n = 2000
    scores = learnt(cigarettes(np.random.default_rng(0), n))
    k = np.arange(60.0)
    other = 0.2 * stats.poisson.pmf(k - 1.0, 12.0)
    share = scores.share(k)
    for heap, p in ((0, 0.6), (20, 0.2 + other[20])):
        assert abs(share[heap] - p) < 5.0 * np.sqrt(p * (1.0 - p) / n)
    beside = np.isin(k, (18, 19, 21, 22))
    p = other[beside].sum()
    assert abs(share[beside].sum() - p) < 5.0 * np.sqrt(p / n) + 0.2 * p, "linear between knots"
    # More likely than what the heap's rows spread evenly from the last knot below would be.
    assert share[19] < 0.2 * share[20]


def test_what_was_not_seen_between_heaps_has_half_a_row():
    scores = learnt(HEAPS)
    of_tail = 13.5
    knots = [0.5, 1.5, 2.5, 3.5, 6.5, 7.5, 11.5, 12.5, of_tail]
    np.testing.assert_array_equal(scores.knots, knots)
    rows = np.array([300, 60, 0.5, 40, 0.5, 50, 0.5, 30])
    share = np.diff(stats.norm.cdf(scores.scores[:-1]), prepend=0.0)
    assert share == pytest.approx(rows / (rows.sum() + 1.0), rel=1e-9)
    assert scores.share(np.array([4.0, 5.0, 6.0])).sum() == pytest.approx(0.5 / (rows.sum() + 1.0))


def test_beyond_a_heap_scores_rise_as_over_the_half_below():
    scores = learnt(HEAPS)
    half, last = scores.forward(np.array([12.5 / 2 + 0.25 - 0.5, 12.5]))
    rise = (last - half) / np.log(2.0) / 13.0
    assert scores.forward(np.array([30.0])) == pytest.approx(last + 17.5 * rise, rel=0.05)
    assert scores.share(np.array([15.0])) > 1e-6, "an outlier can be"


def test_least_counts_far_above_zero_leave_the_space_below_empty():
    y = np.repeat([14.0, 21.0, 28.0], [50, 30, 40])
    scores = learnt(y)
    assert scores.share(np.arange(14.0)).sum() == pytest.approx(0.5 / 122.5)


@pytest.mark.parametrize("mean", [2.0, 30.0, 400.0])
def test_smooth_counts_have_no_heaps(mean, monkeypatch):
    def n_knots():
        rngs = map(np.random.default_rng, range(20))
        tables = [rng.negative_binomial(1.5, 1.5 / (1.5 + mean), size=500) for rng in rngs]
        return np.array([len(learnt(y.astype(float)).knots) for y in tables])

    with_heaps = n_knots()
    monkeypatch.setattr(kinds, "_LEAST_HEAP", np.inf)
    assert np.sum(n_knots() != with_heaps) <= 1


def test_counts_too_large_to_be_apart_have_no_heaps():
    for y in ([0.0, 1e14, 3e14], [0.0, 1e15 - 1.0, 1e15], [1e12]):
        scores = learnt(np.repeat(y, 50))
        with np.errstate(all="raise"):
            z = scores.forward(np.array(y))
            assert np.isfinite([z, scores.inverse_slope(z), scores.inverse(z)]).all()
        assert (np.diff(np.log(scores.knots)) > 1e-9).all()


def test_the_heaps_that_say_most_are_kept():
    rng = np.random.default_rng(8)
    y = np.rint(np.exp(rng.normal(7.0, 1.0, 20_000)))
    y = np.where(rng.random(20_000) < 0.5, np.rint(y / 50.0) * 50.0, y)
    scores = learnt(y)
    assert len(scores.knots) < 150
    share = scores.share(np.array([500.0, 1000.0]))
    np.testing.assert_allclose(share, [np.mean(y == k) for k in (500.0, 1000.0)], rtol=1e-3)
    smooth = learnt(np.rint(np.exp(rng.normal(7.0, 1.0, 20_000))))
    assert len(scores.jumps)
    assert not len(smooth.jumps)


def test_heaps_are_worth_their_knots_on_new_rows():
    rng = np.random.default_rng(1)
    y, new = cigarettes(rng, 500), cigarettes(rng, 20_000)
    truth = 0.2 * stats.poisson.pmf(new - 1.0, 12.0) + np.select([new == 0, new == 20], [0.6, 0.2])
    loss = np.log(truth) - np.log(learnt(y).share(new))
    assert loss.mean() < 0.05


def test_heaps_are_saved_and_drawn_within_their_counts():
    y = cigarettes(np.random.default_rng(2), 400)[:, None]
    x = np.random.default_rng(3).normal(size=(400, 2))
    scores = learnt_map(COUNT, x, y)
    z = scores.encode(y, np.random.RandomState(0), x)
    np.testing.assert_array_equal(scores.observed(z), y)
    again = codec.from_json(TargetMap, codec.to_json(scores, TargetMap))
    np.testing.assert_array_equal(again.forward(y), scores.forward(y))


def test_counts_that_follow_from_inputs_have_no_heaps():
    x = np.random.default_rng(4).integers(0, 40, size=(600, 1)).astype(float)
    squares = x[:, 0] ** 2
    formula = learnt_map(COUNT, (x - x.mean()) / x.std(), squares[:, None])
    assert np.isin(formula.knots - 0.5, squares).all()
    assert not np.isin(learnt(squares).knots - 0.5, squares).all(), "nothing tells of them"
