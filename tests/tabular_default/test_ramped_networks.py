"""Networks that are given ramps beside the inputs, and the share that rows left out give them."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from bayesprop import codec
from bayesprop.model.progress import Progress
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default.experts import NumberState
from bayesprop.tabular_default.fit import Stack, combined, fit
from bayesprop.tabular_default.held_out import HeldOut
from bayesprop.tabular_default.networks import outputs
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.stack import Components
from bayesprop.tabular_default.training import Table

SETTINGS = EnsembleSettings(
    hidden_layer_sizes=(12,),
    noise_layer_sizes=(5,),
    n_members=2,
    n_steps=1200,
    batch_size=50,
    learns_processes=False,
)
N = 400


def saw(x: np.ndarray) -> np.ndarray:
    """Rise and fall six times between -1.7 and 1.7."""
    return np.abs(np.mod(1.8 * x[:, 0], 2.0) - 1.0)[:, None] * 4.0


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.7, 1.7, (N, 2))
    return x, saw(x) + 0.1 * rng.standard_normal((N, 1))


@pytest.fixture(scope="module")
def fitted(table) -> NumberState:
    return fit(1, Rows(*table), SETTINGS)[0]


def test_a_saw_is_learnt_by_ramps(fitted):
    assert fitted.weights[1, 0] > 0.9
    assert [one.n_members for one in fitted.experts] == [2, 2]
    x = np.random.default_rng(1).uniform(-1.6, 1.6, (500, 2))
    alone, both = outputs(fitted.networks, x).predictive(), fitted.predict(x)
    errors = [np.sqrt(np.mean((each.mean - saw(x)) ** 2)) for each in (alone, both)]
    assert errors[1] < 0.7 * errors[0]


def test_the_prediction_is_the_mixture_of_both(fitted):
    x = np.random.default_rng(2).uniform(-2.0, 2.0, (20, 2))
    x[:3] = [[30.0, 0.0], [5.5, -900.0], [-7.0, 7.0]]
    bounded = np.copysign(np.minimum(np.abs(x), 5.0) + np.log1p(np.maximum(np.abs(x) - 5.0, 0)), x)
    share = fitted.weights[1]
    one, two = (
        expert.components(given).predictive()
        for expert, given in zip(fitted.experts, (bounded, fitted.ramps.encode(x)), strict=True)
    )
    both = fitted.predict(x)
    np.testing.assert_allclose(both.mean, (1.0 - share) * one.mean + share * two.mean, rtol=1e-9)
    for y in (one.mean, two.mean + 0.3):
        mixed = (1.0 - share) * one.cdf(y) + share * two.cdf(y)
        np.testing.assert_allclose(both.cdf(y), mixed, rtol=1e-9)


def test_draws_have_the_moments_of_the_mixture(fitted):
    state = fitted._replace(weights=np.array([[0.6], [0.4]]))
    x, n = np.array([[0.3, 0.0], [1.2, -1.0]]), 8000
    out = state.predict(x)
    f = state.draw(np.random.default_rng(3), x, n)
    assert (np.abs(f.mean(axis=0) - out.mean) < 4.5 * f.std(axis=0) / np.sqrt(n)).all()
    np.testing.assert_allclose(f.var(axis=0), out.epistemic_var, rtol=0.15)
    y = state.draw(np.random.default_rng(4), x, n, include_noise=True)
    for level in (0.2, 0.8):
        below = np.mean(y < out.quantile(level), axis=0)
        assert (np.abs(below - level) < 5.0 * np.sqrt(level * (1.0 - level) / n)).all()


def test_the_weight_is_the_most_likely_one(fitted):
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((60, 1)), rng.standard_normal((60, 2))
    distinct, stacks, densities = Table.of(x, y).distinct, [], []
    for rows, m in ((np.arange(50), 0.0), (np.arange(10, 60), 0.3)):
        zeros = np.zeros((1, 50, 2))
        gaussian = Components.of(zeros + m, zeros, 0.0)
        held_out = HeldOut(rows, gaussian, np.ones(50, bool))
        stacks.append(Stack(fitted.experts[:1], np.ones((1, 2)), held_out))
        densities.append(np.exp(-0.5 * ((distinct.table.y[10:50] - m) ** 2).sum(axis=1)))
    both = combined(*stacks, distinct)

    def loss(s: float) -> float:  # with the pseudo-counts of stacking
        mixed = np.log((1.0 - s) * densities[0] + s * densities[1]).sum()
        return -mixed - np.log(s) - np.log1p(-s)

    best = optimize.minimize_scalar(loss, bounds=(1e-4, 1.0 - 1e-4), method="bounded").x
    np.testing.assert_allclose(both.weights, [[1.0 - best] * 2, [best] * 2], atol=0.01)
    few = stacks[1]._replace(held_out=stacks[1].held_out._replace(rows=np.arange(45, 95)))
    assert len(combined(stacks[0], few, distinct).experts) == 1


def test_arrays_come_back(fitted):
    x = np.random.default_rng(6).uniform(-2.0, 2.0, (20, 2))
    again = codec.read(NumberState, codec.write(fitted, NumberState))
    np.testing.assert_array_equal(again.predict(x).f_mean, fitted.predict(x).f_mean)
    ramps = fitted.ramps
    fewer = ramps._replace(
        knots=ramps.knots[1:],
        n_knots=ramps.n_knots - np.array([1, 0]),
        centres=ramps.centres[1:],
    )
    for change, message in (
        ({"weights": fitted.weights + 0.1}, "sum to one"),
        ({"ramps": ramps._replace(centres=ramps.centres[1:])}, "as many as n_knots says"),
        ({"ramps": ramps._replace(centres=ramps.centres + 1e300)}, "means of shares"),
        ({"ramps": fewer}, "lead from its inputs"),
    ):
        forged = fitted._replace(**change)
        with pytest.raises(ValueError, match=message):
            codec.read(NumberState, codec.write(forged, NumberState))


def test_no_ramps_where_there_are_no_rows_to_weigh_them_by(table):
    x, y = table
    few = replace(SETTINGS, n_steps=20)
    large = replace(few, hidden_layer_sizes=(1500,))
    assert len(fit(1, Rows(x[:40], y[:40]), large)[0].experts) == 1
    levels = np.random.default_rng(7).integers(3, size=(40, 2)) * 1.0
    assert len(fit(1, Rows(levels, y[:40]), few)[0].experts) == 1


def test_time_that_is_over_leaves_the_first_networks_of_both(table):
    x, y = table
    progress = Progress(deadline=time.monotonic())
    state, _ = fit(1, Rows(x, y), SETTINGS, progress=progress)
    assert {one.n_members for one in state.experts} == {1}
    assert progress.cuts


def test_components_are_those_of_all_members(fitted):
    noisy = fitted.components(np.zeros((3, 2)))
    assert noisy.m.shape == (4, 3, 1)
    np.testing.assert_allclose(noisy.share.sum(axis=0), 1.0)


def test_far_rows_of_a_line_are_the_process_s():
    rng = np.random.default_rng(6)
    x = np.exp(rng.standard_normal((300, 2)))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = x.sum(axis=1, keepdims=True)
    settings = replace(SETTINGS, learns_processes=True)
    state = fit(1, Rows(x, y + 0.02 * rng.standard_normal(y.shape)), settings)[0]
    far = np.array([[12.0, 0.0], [8.0, 9.0]])
    np.testing.assert_allclose(state.predict(far).mean[:, 0], far.sum(axis=1), rtol=0.1)
