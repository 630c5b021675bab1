"""Streams against what their papers say, counted and averaged by hand."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayesprop.table.errors import TableError
from papers.bandit_environments import (
    ClassesAsArms,
    Interactions,
    Mushroom,
    Wheel,
    expected_regret,
    realised_regret,
)

FOLDER = Path(
    os.environ.get("BAYESPROP_DATA") or Path(__file__).resolve().parents[2] / "../shared/data"
)
SMALL = Mushroom([["x", "n"], ["y", "n"], ["x", "n"]], [True, False, False])
FLOWERS = ClassesAsArms([[1.0], [2.0], [4.0]], ["a", "b", "c"], label_noise=0.3)


def within(values, mean):
    """Whether the mean of independent values is the expected one, by four standard errors."""
    return abs(np.mean(values) - mean) < 4.0 * np.std(values, ddof=1) / np.sqrt(len(values))


@pytest.mark.parametrize("environment", [SMALL, Wheel(0.6), FLOWERS], ids=lambda e: e.name)
def test_streams_repeat_go_on_and_are_honest_about_means(environment):
    long = environment.draw(20_000, seed=3)
    n, k = 20_000, len(environment.arms)
    assert [part.shape for part in long] == [(n, environment.n_features), (n, k), (n, k)]
    for part, whole in zip(environment.draw(57, seed=3), long, strict=True):
        np.testing.assert_array_equal(part, whole[:57])
    assert not np.array_equal(environment.draw(57, seed=4).context, long.context[:57])
    for arm in range(k):
        surprise = (long.realised - long.expected)[:, arm]
        assert within(surprise, 0.0) or not surprise.any()
        best = long.expected[:, arm] == long.expected.max(axis=1)
        assert within(surprise[best], 0.0) or not surprise[best].any()


def test_mushrooms_pay_as_in_the_paper():
    stream = SMALL.draw(30_000, seed=0)
    np.testing.assert_array_equal(
        np.unique(stream.context, axis=0), [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]
    )  # the column that never changes is there
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


@pytest.mark.skipif(not (FOLDER / "mushroom").exists(), reason="the data folder is not here")
def test_regret_of_simple_agents_on_the_real_mushrooms(monkeypatch):
    monkeypatch.setenv("BAYESPROP_DATA", str(FOLDER))
    mushroom = Mushroom()
    assert mushroom.n_features == 117
    stream = mushroom.draw(20_000, seed=1)
    np.testing.assert_array_equal(stream.context.sum(axis=1), 22.0)
    arms = np.random.default_rng(2).integers(2, size=20_000)
    for chosen, mean in ((arms * 0, 7.230), (arms * 0 + 1, 2.590), (arms, 4.910)):
        assert within(expected_regret(stream, chosen), mean)
        assert within(realised_regret(stream, chosen), mean)


def test_mushrooms_that_are_not_at_hand(monkeypatch, tmp_path):
    monkeypatch.setenv("BAYESPROP_DATA", str(tmp_path))
    with pytest.raises(TableError, match="set BAYESPROP_DATA to a folder that holds mushroom/"):
        Mushroom()


def test_the_wheel_is_that_of_the_paper():
    stream = Wheel(0.6).draw(40_000, seed=5)
    x, y = stream.context.T
    square = x**2 + y**2
    assert square.max() <= 1.0
    for share in (0.1, 0.5, 0.9):  # uniform in the disc: the area grows with the square
        assert within(square < share, share)
    assert within(x, 0.0)
    assert within(y, 0.0)
    assert within(x * y, 0.0)
    np.testing.assert_array_equal(stream.expected[:, 0], 1.2)
    inside = square < 0.36
    np.testing.assert_array_equal(stream.expected[inside, 1:], 1.0)
    quadrants = [(x > 0) & (y > 0), (x > 0) & (y < 0), (x < 0) & (y > 0), (x < 0) & (y < 0)]
    for arm, quadrant in enumerate(quadrants, start=1):
        rows = stream.expected[quadrant & ~inside]
        np.testing.assert_array_equal(rows[:, arm], 50.0)
        np.testing.assert_array_equal(np.delete(rows, [0, arm], axis=1), 1.0)
    spread = (stream.realised - stream.expected).std(axis=0)
    np.testing.assert_allclose(spread, 0.01, rtol=4.0 / np.sqrt(2.0 * 40_000))
    never = Wheel(1.0).draw(1000, seed=0)
    assert never.expected.max() == 1.2
    assert (Wheel(0.0).draw(1000, seed=0).expected == 50.0).sum() == 1000


def test_classes_pay_for_their_name():
    X, y = np.arange(12.0).reshape(4, 3), np.array(["b", "a", "c", "b"])
    quiet = ClassesAsArms(X, y, right=2.0, wrong=-1.0, standardise=False)
    assert quiet.arms == ("a", "b", "c")
    stream = quiet.draw(500, seed=0)
    np.testing.assert_array_equal(stream.expected, stream.realised)
    row = (stream.context[:, 0] / 3.0).astype(int)
    np.testing.assert_array_equal(stream.context, X[row])
    np.testing.assert_array_equal(np.unique(row), np.arange(4))
    named = np.array(list("abc"))
    np.testing.assert_array_equal(stream.realised, np.where(y[row, None] == named, 2.0, -1.0))
    scaled = ClassesAsArms(X, y).draw(1, seed=0).context
    np.testing.assert_allclose(scaled, (stream.context[:1] - X.mean(0)) / X.std(0))


def test_noise_of_labels_lets_one_other_class_pay():
    stream = FLOWERS.draw(30_000, seed=0)
    np.testing.assert_array_equal(stream.realised.sum(axis=1), 1.0)
    true = np.argmax(stream.expected, axis=1)
    assert within(stream.realised[np.arange(30_000), true], 0.7)
    for arm in range(3):
        assert within(stream.realised[true != arm, arm], 0.15)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_frames_are_encoded(make):
    frame = make(
        {"kind": ["u", "v", "u", "v"], "size": [1.0, 2.0, 3.0, 4.0], "class": [0, 1, 2, 3]}
    )
    contexts = ClassesAsArms(frame, [1, 2, 1, 2], standardise=False).draw(50, seed=0).context
    np.testing.assert_array_equal(
        np.unique(contexts, axis=0),
        [[0, 1, 2, 1], [0, 1, 4, 3], [1, 0, 1, 0], [1, 0, 3, 2]],
    )


X, Y = np.zeros((3, 2)), [0, 1, 1]
STREAM = Interactions(X, X, X)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SMALL.draw(0, seed=0), "n must be an int >= 1, got 0"),
        (lambda: Wheel(2.0), "delta must be a radius from 0 to 1"),
        (lambda: Mushroom([["x"]]), "given together"),
        (lambda: Mushroom([["x"]], ["e"]), "True or False of each of 1"),
        (lambda: ClassesAsArms(X, [0, 0, 0]), r"two classes at least, got \[0\]"),
        (lambda: ClassesAsArms(X, Y, right=0.0), "finite reward above wrong"),
        (lambda: ClassesAsArms(X, Y, label_noise=1.0), "label_noise must be"),
        (lambda: ClassesAsArms(X, [0.0, 1.0, np.nan]), "missing in row 2"),
        (lambda: ClassesAsArms(X, [0, 1]), r"one class a row of X, shape \(3,\), got \(2,\)"),
        (lambda: ClassesAsArms([[0.0], [np.inf], [1.0]], Y), "row 1 is not"),
        (lambda: ClassesAsArms([["x"], ["y"], ["z"]], Y), "a frame if it has text"),
        (
            lambda: expected_regret(Interactions(X, X, X), np.zeros(3)),
            r"of shape \(3,\), got float",
        ),
        (lambda: realised_regret(Interactions(X, X, X), np.array([0, 2, 0])), "got 2 in row 1"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
