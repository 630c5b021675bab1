"""Twins against a loop over rows left out one by one; where there are none, nothing changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop import codec
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import neighbours
from bayesprop.tabular_default.fit import Classes, Numbers, fit
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.twins import LOG_STRENGTHS, Twins

FAST = EnsembleSettings(n_members=2, hidden_layer_sizes=(4,), n_steps=100)


def repeated(n: int = 300, n_inputs: int = 60, tells: float = 0.9, seed: int = 0) -> Rows:
    """Rows of few inputs, each of which has a class of its own with probability `tells`."""
    rng = np.random.default_rng(seed)
    inputs, own = rng.standard_normal((n_inputs, 2)), rng.integers(0, 3, n_inputs)
    at = rng.integers(0, n_inputs, n)
    codes = np.where(rng.random(n) < tells, own[at], rng.integers(0, 3, n))
    return Rows(inputs[at], codes, rng.choice([0.5, 1.0, 2.0], n))


def by_hand(rows: Rows, proba: np.ndarray, a: float) -> np.ndarray:
    """Return the gains of all rows with twins, each left out with the others kept."""
    gains, weight = [], rows.weights / rows.weights.mean()
    for i, x in enumerate(rows.x):
        counts = np.zeros(proba.shape[1])
        for j, other in enumerate(rows.x):
            if j != i and np.array_equal(x, other):
                counts[rows.y[j]] += weight[j]
        if counts.any():
            p = (counts + a * proba[i]) / (counts.sum() + a)
            gains.append(weight[i] * np.log(p[rows.y[i]] / proba[i, rows.y[i]]))
    return np.array(gains)


def test_strength_makes_rows_most_likely_that_are_left_out_alone():
    rows = repeated()
    inputs = np.unique(rows.x, axis=0, return_inverse=True)[1]
    of_inputs = np.random.default_rng(1).dirichlet([4.0, 4.0, 4.0], inputs.max() + 1)
    proba = of_inputs[inputs.ravel()]
    some = np.random.default_rng(2).permutation(300)  # in any order, and as others saw them
    found = Twins.fit(rows, rows.at(some), proba[some])
    assert found is not None
    values = []
    for log_a in LOG_STRENGTHS[16:49]:
        a = np.exp(log_a)
        values.append(by_hand(rows, proba, a).sum() + np.log(a / (1.0 + a) ** 2))
    assert found.log_strength == LOG_STRENGTHS[16 + int(np.argmax(values))]


def test_known_inputs_move_by_the_counts_of_their_rows():
    rows = repeated()
    proba = np.random.default_rng(1).dirichlet([1.0, 1.0, 1.0], 5)
    found = Twins.fit(rows, rows, np.full((300, 3), 1.0 / 3.0))
    assert found is not None
    at = np.concatenate([rows.x[:4], [[9.0, 9.0]]])
    moved, a = found.moved(at, proba), np.exp(found.log_strength)
    weight = rows.weights / rows.weights.mean()
    for i in range(4):
        same = (rows.x == rows.x[i]).all(axis=1)
        counts = np.bincount(rows.y[same], weight[same], 3)
        np.testing.assert_allclose(moved[i], (counts + a * proba[i]) / (counts.sum() + a))
    np.testing.assert_array_equal(moved[4], proba[4])
    np.testing.assert_array_equal(found.moved(at[2:3], proba[2:3]), moved[2:3])


def test_twins_that_say_nothing_are_not_asked():
    n_kept = 0
    for seed in range(40):
        rows = repeated(tells=0.0, seed=seed)
        n_kept += Twins.fit(rows, rows, np.full((300, 3), 1.0 / 3.0)) is not None
    assert n_kept <= 6  # one in 6.3 is above one standard error, and a must lose nothing by chance


def test_a_weight_of_two_is_no_twin():
    rng = np.random.default_rng(0)
    rows = Rows(rng.standard_normal((50, 2)), rng.integers(0, 2, 50), np.full(50, 2.0))
    assert Twins.fit(rows, rows, np.full((50, 2), 0.5)) is None


@pytest.mark.parametrize("task", ["numbers", "classes"])
def test_without_repeats_nothing_changes(task: str):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((200, 2))
    codes = (x[:, 0] + rng.standard_normal(200) > 0.0).astype(int)
    head = Classes(2) if task == "classes" else Numbers()
    y = codes if task == "classes" else x[:, :1] + rng.choice([-1.0, 1.0], (200, 1))
    one, other = (
        fit(0, Rows(x, y), replace(FAST, are_exchangeable=are), head)[0] for are in (True, False)
    )
    (header, arrays), (same, others) = (codec.write(a, type(a)) for a in (one, other))
    assert header == same
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name])


def test_twins_are_asked_unless_groups_or_times_forbid():
    rows = repeated(600, 200)
    new, codes = (part[::2] for part in (rows.x, rows.y))
    loss = {}
    for name, given, settings in (
        ("rows", rows, FAST),
        ("times", rows, replace(FAST, are_exchangeable=False)),
        ("no rows kept", rows, replace(FAST, learns_processes=False)),
        ("groups", rows._replace(group=np.arange(600)), FAST),
    ):
        state = fit(0, given, settings, Classes(3))[0]
        assert (state.twins is not None) == (name == "rows")
        proba = state.predict(new).proba
        loss[name] = -np.log(proba[np.arange(len(new)), codes]).mean()
        again = codec.read(type(state), codec.write(state, type(state)))
        np.testing.assert_array_equal(again.predict(new).proba, proba)
        np.testing.assert_array_equal(state.predict(new[:7]).proba, proba[:7])
    assert loss["rows"] < loss["times"] - 0.1


@pytest.mark.parametrize("hold_out", [{}, {"time": "day"}, {"group": "who"}])
def test_a_column_of_times_or_groups_ends_it(hold_out: dict[str, str]):
    rows = repeated(600, 200)
    frame = pl.DataFrame({"a": rows.x[:, 0], "b": rows.x[:, 1], "class": [f"c{k}" for k in rows.y]})
    if "time" in hold_out:
        days = pl.date_range(pl.date(2020, 1, 1), pl.date(2021, 12, 31), eager=True)[:600]
        frame = frame.with_columns(day=days)
    if "group" in hold_out:
        frame = frame.with_columns(who=pl.Series([f"p{k % 97}" for k in range(600)]))
    settings = {"target": "class", "n_epochs": 5, "n_members": 2}
    model = bayesprop.fit(frame[:500], **settings, **hold_out)
    again = model.update(frame[500:], known=frame[:500])
    for one in (model, again):
        assert (one.estimator.state_.twins is None) == bool(hold_out)


def test_forged_twins_are_refused():
    rows = repeated()
    twins = Twins.fit(rows, rows, np.full((300, 3), 1.0 / 3.0))
    assert twins is not None
    for message, parts in {
        "counts must be 0 or more": {"counts": -twins.counts},
        "log_strength must be within": {"log_strength": 99.0},
    }.items():
        with pytest.raises(ValueError, match=message):
            codec.read(Twins, codec.write(twins._replace(**parts), Twins))


def test_a_few_repeated_rows_among_many_do_not_count():
    x = np.arange(1200.0).reshape(600, 2)
    x[1:8:2] = x[0:8:2]
    assert not neighbours.repeat(x[:20])  # 8 rows, however few there are
    x[9:12:2] = x[8:12:2]
    assert neighbours.repeat(x)  # 12 of 600
    assert not neighbours.repeat(np.concatenate([x, x[12:] + 0.5]))  # 12 of 1188
