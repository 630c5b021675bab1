"""Networks that are given ramps beside the inputs, and the share that rows left out give them."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from bayesprop import codec
from bayesprop.model.progress import Progress
from bayesprop.tabular_default import regression as nn
from bayesprop.tabular_default.distinct_rows import Distinct, Rows
from bayesprop.tabular_default.function_draws import sample_functions
from bayesprop.tabular_default.held_out import Judgement, components, share_of
from bayesprop.tabular_default.noisy_output import NoisyOutput
from bayesprop.tabular_default.state import EnsembleState

SETTINGS = nn.EnsembleSettings(
    hidden_layer_sizes=(12,),
    noise_layer_sizes=(5,),
    n_members=2,
    n_steps=1200,
    batch_size=50,
    learns_processes=False,
)
N, _CUT = 400, ("knots", "centres")


def saw(x: np.ndarray) -> np.ndarray:
    """Rise and fall six times between -1.7 and 1.7."""
    return np.abs(np.mod(1.8 * x[:, 0], 2.0) - 1.0)[:, None] * 4.0


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.7, 1.7, (N, 2))
    return x, saw(x) + 0.1 * rng.standard_normal((N, 1))


@pytest.fixture(scope="module")
def fitted(table) -> EnsembleState:
    return nn.fit(1, *table, SETTINGS)[0]


def test_a_saw_is_learnt_by_ramps(fitted):
    assert fitted.companion.share > 0.9
    assert len(fitted.companion.state.members) == 2
    x = np.random.default_rng(1).uniform(-1.6, 1.6, (500, 2))
    alone = nn.predict(fitted._replace(companion=None), x)
    errors = [
        np.sqrt(np.mean((each.mean - saw(x)) ** 2)) for each in (alone, nn.predict(fitted, x))
    ]
    assert errors[1] < 0.7 * errors[0]


def test_the_prediction_is_the_mixture_of_both(fitted):
    x = np.random.default_rng(2).uniform(-2.0, 2.0, (20, 2))
    other, ramps, share = fitted.companion
    one = nn.predict(fitted._replace(companion=None), x)
    two = nn.predict(other, ramps.beside(x))
    both = nn.predict(fitted, x)
    np.testing.assert_allclose(both.mean, (1.0 - share) * one.mean + share * two.mean, rtol=1e-9)
    for y in (one.mean, two.mean + 0.3):
        mixed = (1.0 - share) * one.cdf(y) + share * two.cdf(y)
        np.testing.assert_allclose(both.cdf(y), mixed, rtol=1e-9)


def test_draws_have_the_moments_of_the_mixture(fitted):
    state = fitted._replace(companion=fitted.companion._replace(share=0.4))
    x, n = np.array([[0.3, 0.0], [1.2, -1.0]]), 8000
    out = nn.predict(state, x)
    f = sample_functions(np.random.default_rng(3), state, x, n)
    assert (np.abs(f.mean(axis=0) - out.mean) < 4.5 * f.std(axis=0) / np.sqrt(n)).all()
    np.testing.assert_allclose(f.var(axis=0), out.epistemic_var, rtol=0.15)
    y = sample_functions(np.random.default_rng(4), state, x, n, include_noise=True)
    for level in (0.2, 0.8):
        below = np.mean(y < out.quantile(level), axis=0)
        assert (np.abs(below - level) < 5.0 * np.sqrt(level * (1.0 - level) / n)).all()


def test_the_share_is_the_most_likely_one():
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((60, 1)), rng.standard_normal((60, 2))
    distinct = Distinct.of(Rows.of(x, y, None))
    judgements, densities = [], []
    for rows, m in ((np.arange(50), 0.0), (np.arange(10, 60), 0.8)):
        zeros = np.zeros((1, 50, 2))
        gaussian = NoisyOutput.of(
            zeros + m, zeros, zeros, zeros, zeros[:, :1] + 1e7, zeros[:, :1] + 1
        )
        judgements.append(Judgement(rows, gaussian, np.full(2, -20.0)))
        densities.append(np.exp(-0.5 * ((y[10:50] - m) ** 2).sum(axis=1)))
    share = share_of(judgements[1], judgements[0], distinct)

    def loss(s: float) -> float:  # with the pseudo-counts of stacking
        mixed = np.log((1.0 - s) * densities[0] + s * densities[1]).sum()
        return -mixed - np.log(s) - np.log1p(-s)

    best = optimize.minimize_scalar(loss, bounds=(1e-4, 1.0 - 1e-4), method="bounded").x
    assert share == pytest.approx(best, abs=0.01)
    few = judgements[1]._replace(some=np.arange(45, 95))
    assert share_of(few, judgements[0], distinct) == 0.0


def test_arrays_come_back(fitted):
    x = np.random.default_rng(6).uniform(-2.0, 2.0, (20, 2))
    again = codec.read(EnsembleState, codec.write(fitted, EnsembleState))
    np.testing.assert_array_equal(nn.predict(again, x).f_mean, nn.predict(fitted, x).f_mean)
    companion = fitted.companion
    ramps = companion.ramps
    fewer = ramps._replace(
        knots=ramps.knots[1:],
        n_knots=ramps.n_knots - np.array([1, 0]),
        centres=ramps.centres[1:],
    )
    for change, message in (
        ({"share": 1.0}, "between 0 and 1"),
        ({"ramps": ramps._replace(centres=ramps.centres[1:])}, "as many as n_knots says"),
        ({"ramps": ramps._replace(centres=ramps.centres + 1e300)}, "means of shares"),
        ({"ramps": fewer}, "inputs and ramps of the others"),
    ):
        forged = fitted._replace(companion=companion._replace(**change))
        with pytest.raises(ValueError, match=message):
            codec.read(EnsembleState, codec.write(forged, EnsembleState))


def test_no_companion_where_there_is_nothing_to_judge_it_by(table):
    x, y = table
    few = replace(SETTINGS, n_steps=20)
    for settings in (
        replace(few, hidden_layer_sizes=(1500,)),
        replace(few, learns_replicates=True),
    ):
        assert nn.fit(1, x[:40], y[:40], settings)[0].companion is None
    levels = np.random.default_rng(7).integers(3, size=(40, 2)) * 1.0
    assert nn.fit(1, levels, y[:40], few)[0].companion is None


def test_time_that_is_over_leaves_the_first(table):
    x, y = table
    progress = Progress(deadline=time.monotonic())
    state, _ = nn.fit(1, x, y, SETTINGS, progress=progress)
    assert state.companion is None
    assert progress.cuts


def test_components_are_those_of_all_members(fitted):
    noisy = components(fitted, np.zeros((3, 2)))
    assert noisy.m.shape == (4, 3, 1)
    np.testing.assert_allclose(noisy.share.sum(axis=0), 1.0)
