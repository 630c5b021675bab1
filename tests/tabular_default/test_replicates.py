"""Measurements that come back against a joint normal, brute force, and a model that is known."""

from __future__ import annotations

import numpy as np
import pytest
from test_joint_covariance import alone
from test_left_out_rows import fit, measured, output

from bayesprop import codec
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import regression as nn
from bayesprop.tabular_default import replicates
from bayesprop.tabular_default.function_draws import sample_functions
from bayesprop.tabular_default.networks import Networks
from bayesprop.tabular_default.regression import NumberState
from bayesprop.tabular_default.training import Table


@pytest.mark.parametrize("count", [0, 1, 4])
def test_the_next_measurement_is_conditioned_on_those_before(count: int):
    m, v, s, own, y = 0.7, 0.3, 2.0, 0.4, np.array([1.0, -0.5, 2.5, 3.0])[:count]
    u = v + (1.0 - own) * s  # of the function and what comes back
    seen = np.full((count, count), u) + own * s * np.eye(count)
    gain = np.linalg.solve(seen, np.full(count, u))
    mean = y.mean() if count else 0.0
    one = np.ones(1)
    found = replicates.recalled(m * one, v * one, s * one, np.log(own), count * one, mean * one)
    want = m + gain @ (y - m), u - u * gain.sum()
    np.testing.assert_allclose(np.ravel(found), want, rtol=1e-12)


def test_rows_of_the_same_inputs_become_one():
    rng = np.random.default_rng(0)
    x = rng.integers(-1, 2, (60, 2)) * 1.0
    x[::7] *= -1.0  # and with them some zeros
    y, weight = rng.standard_normal((60, 2)), rng.integers(0, 3, 60) * 0.5
    rows = Table.of(x, y, weight)
    distinct, _, gone, *_ = rows.distinct
    different = list(dict.fromkeys(map(tuple, x)))
    np.testing.assert_array_equal(distinct.x, different)
    for i, row in enumerate(different):
        same = (x == row).all(axis=1)
        np.testing.assert_array_equal(np.flatnonzero(gone == i), np.flatnonzero(same))
        assert distinct.weight[i] == pytest.approx(weight[same].sum() / weight.mean(), rel=1e-6)
        want = np.average(y[same], axis=0, weights=weight[same])
        np.testing.assert_allclose(distinct.y[i], want, rtol=1e-5, atol=1e-6)
    lone = Table.of(rng.standard_normal((9, 2)), y[:9])
    for part, same in zip(lone[:3], lone.distinct.once[:3], strict=True):
        np.testing.assert_array_equal(part, same)


def test_inputs_are_found_to_the_last_bit():
    x = np.random.default_rng(1).standard_normal((50, 3))
    x[4, 1] = 0.0
    numbered, nothing = np.arange(20.0)[:, None], np.zeros((20, 1))
    remembered = replicates.Replicates.of(x[:20], numbered, nothing, np.zeros(1))
    remembered.validate()
    asked = x[[30, 4, 19, 4]]
    asked[3, 1] = -0.0
    asked = np.vstack([asked, np.nextafter(np.float32(x[:1]), np.float32(9.0))])
    places, numbers = remembered.find(asked)
    np.testing.assert_array_equal(places, [1, 2, 3])
    np.testing.assert_array_equal(remembered.m[numbers, 0], [4.0, 19.0, 4.0])
    with pytest.raises(ValueError, match="sorted by their bits"):
        remembered._replace(rows=remembered.rows[::-1]).validate()
    assert len(replicates.Replicates.none(3, 1).find(asked)[0]) == 0


def twice(rng: np.random.Generator, n: int, own: float) -> Rows:
    """Two targets each of n inputs, of variance 1, of which that share is their own."""
    at = np.tile(np.arange(n), 2)
    y = np.sqrt(1.0 - own) * rng.standard_normal(n)[at] + np.sqrt(own) * rng.standard_normal(2 * n)
    return measured(y, at)


@pytest.mark.parametrize(
    ("own", "n", "least", "most"),
    [(1.0, 200, 0.0, 0.0), (0.25, 200, -2.0, -1.0), (0.0, 200, -8.0, -8.0), (0.0, 9, 0.0, 0.0)],
)
def test_the_share_that_comes_back_is_found(own: float, n: int, least: float, most: float):
    rng = np.random.default_rng(2)
    targets = twice(rng, n, own)
    assert least <= replicates.own_share(rng, output(2 * n, 0.0), targets) <= most


@pytest.fixture(scope="module")
def recipes():
    """Recipes tried twice, half of whose noise is their own, and one more try of each."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2.0, 2.0, (300, 2))
    shared, noise = 0.4 * rng.standard_normal(300), 0.1 * rng.standard_normal((3, 300))
    y = np.float32(x[:, 0] + shared + noise)
    x = np.float32(x)
    before = y[:2, :200].reshape(-1, 1)
    state = fit(np.tile(x[:200], (2, 1)), before)
    return x, y[2], state, before


@pytest.mark.exhaustive
def test_known_inputs_are_expected_to_give_what_they_gave(recipes):
    x, y, state, before = recipes
    assert len(state.replicates.rows) == 200
    assert -3.5 <= state.replicates.log_own[0] <= -2.0  # .01 of .17, log of it -2.8
    known, new = nn.predict(state, x[:200]), nn.predict(state, x[200:])
    pair = before.reshape(2, 200)
    truth = x[:200, 0] + 0.32 / 0.33 * (pair.mean(axis=0) - x[:200, 0])  # .16, .01, two each
    var = 0.01 + 0.16 * 0.01 / 0.33
    best = -0.5 * np.log(2.0 * np.pi * var) - 0.5 * (y[:200] - truth) ** 2 / var
    gap = best - known.log_prob(y[:200, None])[:, 0]
    assert gap.mean() < 0.1 + 3.0 * gap.std() / np.sqrt(200)
    for said, first, n in ((known, 0, 200), (new, 200, 100)):
        inside = np.abs(said.cdf(y[first:, None][:n]) - 0.5)[:, 0] < 0.45
        assert abs(inside.mean() - 0.9) < 4.0 * np.sqrt(0.09 / n)


def test_new_inputs_gain_nothing_and_lose_nothing(recipes):
    x, _, state, _ = recipes
    forgetful = state._replace(replicates=replicates.Replicates.none(2, 1))
    ours, theirs = (nn.predict(one, x[190:]) for one in (state, forgetful))
    for name in ("mean", "epistemic_var", "noise_var"):
        one, other = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_array_equal(one[10:], other[10:])
        assert (one[:10] != other[:10]).all()


@pytest.mark.exhaustive
def test_inputs_that_do_not_count_are_not_remembered(recipes):
    x, _, _, before = recipes
    x = np.vstack([np.tile(x[:200], (2, 1)), x[200:]])
    y = np.vstack([before, np.zeros((100, 1))])
    state = fit(x, y, weight=np.r_[np.ones(200), np.full(200, 1e-20), np.zeros(100)])
    assert len(state.replicates.rows) in (0, 200)  # the second try of each counts next to nothing
    state = fit(x, y, weight=np.r_[np.ones(400), np.zeros(100)])
    assert len(state.replicates.rows) == 200
    assert nn.predict(state, x[:0]).mean.shape == (0, 1)


def test_few_inputs_are_remembered_though_they_judge_no_noise():
    rng = np.random.default_rng(6)
    x = np.repeat(np.float32(rng.uniform(-2.0, 2.0, (40, 2))), 10, axis=0)
    y = np.repeat(rng.standard_normal(40), 10)[:, None] + 0.1 * rng.standard_normal((400, 1))
    state = fit(x, y)
    assert len(state.replicates.rows) == 40
    assert state.networks.log_noise_factor[0] == 0.0
    said = nn.predict(state, x)
    assert np.sqrt(np.mean((said.mean - y) ** 2)) < 0.15
    assert np.all(said.noise_var < 0.2)


def test_draws_have_the_moments_of_what_is_known(recipes):
    x, _, state, _ = recipes
    asked = np.vstack([x[198:202], x[198:199]])
    said = nn.predict(state, asked)
    drawn = sample_functions(np.random.default_rng(4), state, asked, 4000)
    error = np.sqrt(said.epistemic_var / 4000)
    assert (np.abs(drawn.mean(axis=0) - said.mean) < 5.0 * error).all()
    np.testing.assert_allclose(drawn.var(axis=0), said.epistemic_var, rtol=0.2)
    np.testing.assert_allclose(drawn[:, 0], drawn[:, 4], rtol=1e-5, atol=1e-6)
    noisy = sample_functions(np.random.default_rng(5), state, asked, 4000, include_noise=True)
    total = said.epistemic_var + said.noise_var
    np.testing.assert_allclose(noisy[:, :2].var(axis=0), total[:2], rtol=0.3)


def test_of_two_outputs_one_comes_back():
    rng = np.random.default_rng(7)
    x = np.float32(rng.uniform(-2.0, 2.0, (60, 2)))
    state = fit(x, np.hstack([x, x])[:, :2] + 0.1 * rng.standard_normal((60, 2)))
    state = alone(Networks.of(state.networks.members, state.networks.log_floor))
    m, v = np.full((60, 2), 5.0), np.full((60, 2), 0.04)
    remembers = state._replace(replicates=replicates.Replicates.of(x, m, v, np.array([0.0, -2.0])))
    ours, theirs = nn.predict(remembers, x), nn.predict(state, x)
    for name in ("mean", "epistemic_var", "noise_var"):
        np.testing.assert_array_equal(getattr(ours, name)[:, 0], getattr(theirs, name)[:, 0])
    np.testing.assert_allclose(ours.mean[:, 1], 5.0, rtol=1e-6)
    np.testing.assert_allclose(ours.epistemic_var[:, 1], 0.04, rtol=1e-5)
    floor = np.exp(state.networks.log_floor[1])
    want = floor + np.exp(-2.0) * (theirs.noise_var[:, 1] - floor)
    np.testing.assert_allclose(ours.noise_var[:, 1], want, rtol=0.01)
    one, two = (
        sample_functions(np.random.default_rng(8), each, x[:5], 2000) for each in (remembers, state)
    )
    assert (np.abs(one[..., 1].mean(axis=0) - 5.0) < 5.0 * 0.2 / np.sqrt(2000)).all()
    error = two[..., 0].std(axis=0) / np.sqrt(1000)
    assert (np.abs(one[..., 0].mean(axis=0) - two[..., 0].mean(axis=0)) < 5.0 * error).all()


@pytest.mark.exhaustive
def test_what_is_known_is_saved_and_can_be_forgotten(recipes):
    x, _, state, before = recipes
    again = codec.read(NumberState, codec.write(state, NumberState))
    np.testing.assert_array_equal(nn.predict(again, x).mean, nn.predict(state, x).mean)
    negative = state.replicates._replace(v=-state.replicates.v - 1.0)
    with pytest.raises(ValueError, match="v must be at least 0"):
        codec.read(NumberState, codec.write(state._replace(replicates=negative), NumberState))
    without = fit(np.tile(x[:200], (2, 1)), before, learns_replicates=False)
    assert len(without.replicates.rows) == 0
    assert len(nn.without_replicates(state).replicates.rows) == 0
