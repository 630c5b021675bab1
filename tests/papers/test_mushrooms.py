"""Streams against what their papers say, counted and averaged by hand."""

from __future__ import annotations

import numpy as np
import pytest

from papers.mushrooms import Interactions, Mushroom, expected_regret, realised_regret

SMALL = Mushroom([["x", "n"], ["y", "n"], ["x", "n"]], [True, False, False])


def within(values, mean):
    """Whether the mean of independent values is the expected one, by four standard errors."""
    return abs(np.mean(values) - mean) < 4.0 * np.std(values, ddof=1) / np.sqrt(len(values))


def test_streams_repeat_go_on_and_are_honest_about_means():
    long = SMALL.draw(20_000, seed=3)
    n, k = 20_000, len(SMALL.arms)
    assert [part.shape for part in long] == [(n, SMALL.n_features), (n, k), (n, k)]
    for part, whole in zip(SMALL.draw(57, seed=3), long, strict=True):
        np.testing.assert_array_equal(part, whole[:57])
    assert not np.array_equal(SMALL.draw(57, seed=4).context, long.context[:57])
    for arm in range(k):
        surprise = (long.realised - long.expected)[:, arm]
        assert within(surprise, 0.0) or not surprise.any()
        best = long.expected[:, arm] == long.expected.max(axis=1)
        assert within(surprise[best], 0.0) or not surprise[best].any()


def test_mushrooms_pay_as_in_the_paper():
    stream = SMALL.draw(30_000, seed=0)
    with_constant = [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]  # of the column that never changes
    np.testing.assert_array_equal(np.unique(stream.context, axis=0), with_constant)
    eat, leave = np.zeros(30_000, int), np.ones(30_000, int)
    edible = stream.expected[:, 0] == 5.0
    assert within(edible, 1 / 3)
    assert set(stream.expected[~edible, 0]) == {-15.0}
    assert set(stream.realised[edible, 0]) == {5.0}
    assert set(stream.realised[~edible, 0]) == {5.0, -35.0}
    assert within(stream.realised[~edible, 0] == 5.0, 0.5)
    assert not stream.realised[:, 1].any()
    assert set(expected_regret(stream, eat)) == {0.0, 15.0}
    assert set(realised_regret(stream, eat)) == {0.0, 35.0, -5.0}
    for regret in (expected_regret, realised_regret):
        assert set(regret(stream, leave)) == {0.0, 5.0}
        assert within(regret(stream, eat), 10.0)


@pytest.mark.usefixtures("published")
def test_regret_of_simple_agents_on_the_real_mushrooms():
    mushroom = Mushroom()
    assert mushroom.n_features == 117
    stream = mushroom.draw(20_000, seed=1)
    np.testing.assert_array_equal(stream.context.sum(axis=1), 22.0)
    arms = np.random.default_rng(2).integers(2, size=20_000)
    for chosen, mean in ((arms * 0, 7.230), (arms * 0 + 1, 2.590), (arms, 4.910)):
        assert within(expected_regret(stream, chosen), mean)
        assert within(realised_regret(stream, chosen), mean)


NOTHING = Interactions(*[np.zeros((3, 2))] * 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SMALL.draw(0, seed=0), "n must be an int >= 1, got 0"),
        (lambda: Mushroom([["x"]]), "given together"),
        (lambda: Mushroom([["x"]], ["e"]), "True or False of each of 1"),
        (lambda: expected_regret(NOTHING, np.zeros(3)), r"of shape \(3,\), got float"),
        (lambda: realised_regret(NOTHING, np.array([0, 2, 0])), "got 2 in row 1"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
