"""PBPRegressor as a user meets it: units, frames, streams, weights, pipelines, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import bayesprop
from bayesprop import PBPRegressor
from bayesprop.bandits.streamed_rewards import StreamedRewards


def line(n=80, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, size=(n, 2))
    return x, 40.0 + 10.0 * np.sin(x[:, 0]) + 10.0 * noise * rng.normal(size=n)


def test_units_of_inputs_and_target_do_not_matter():
    x, y = line()
    base = PBPRegressor((8,), 5, random_state=0).fit(x, y)
    shift, scale = np.array([7.0, -2.0]), np.array([1e4, 1e-6])
    moved = PBPRegressor((8,), 5, random_state=0).fit(x * scale + shift, 1e3 * y - 5)
    np.testing.assert_allclose(
        moved.predict(x * scale + shift), 1e3 * base.predict(x) - 5, rtol=1e-6
    )
    gap = moved.log_likelihood(x * scale + shift, 1e3 * y - 5) - base.log_likelihood(x, y)
    assert gap == pytest.approx(-np.log(1e3), abs=1e-6)
    evidence = [m.fit_report_.log_evidence["prequential"] for m in (base, moved)]
    assert evidence[1] - evidence[0] == pytest.approx(-80 * np.log(1e3), abs=1e-3)
    twice = [
        PBPRegressor((8,), 5, random_state=0).fit(x, scale * y, sample_weight=np.full(80, 2.0))
        for scale in (1.0, 1e3)
    ]
    evidence = [m.fit_report_.log_evidence["prequential"] for m in twice]
    assert evidence[1] - evidence[0] == pytest.approx(-160 * np.log(1e3), abs=1e-3)


def test_two_halves_of_a_stream_are_one_pass_but_for_the_prior_refresh():
    x, y = line(40)
    a = PBPRegressor((8,), random_state=0).partial_fit(x, y)
    method, z, t = a.fitted_.method, a.x_scaler_.transform(x), a.y_scaler_.transform(y[:, None])
    from bayesprop.moments.pbp.engine import passes, refresh_prior

    start, halves = method.start(np.random.RandomState(0)), np.arange(40).reshape(2, 20)
    *_, (state, _) = passes(start, z, t, halves[:, None], refreshes=False)
    state, _ = refresh_prior(state)
    np.testing.assert_allclose(method.predict(state, z).mean, method.predict(a.state_, z).mean)
    np.testing.assert_allclose(
        method.predict(state, z).epistemic_var, method.predict(a.state_, z).epistemic_var
    )


@pytest.mark.parametrize("rule", [{"batch_size": 16}, {"activation": "erf"}], ids=str)
def test_what_the_compiled_engine_does_not_run_fits_as_well(rule, capsys):
    x, y = line(120)
    test_x, test_y = line(200, seed=1)
    model = PBPRegressor((20,), 30, random_state=0, verbose=1, **rule).fit(x, y)
    assert np.sqrt(np.mean((model.predict(test_x) - test_y) ** 2)) < 0.6 * test_y.std()
    assert [len(values) for values in model.fit_report_.trace.values()] == [30, 30, 30]
    assert capsys.readouterr().err.count("epoch") == 30


def test_the_evidence_of_stochastic_ep_is_in_the_units_of_the_target():
    x, y = line(40)
    one, kilo = (
        PBPRegressor((4,), 10, inference="sep", random_state=0).fit(x, unit * y)
        for unit in (1.0, 1e3)
    )
    gap = kilo.log_evidence(x, 1e3 * y) - one.log_evidence(x, y)
    assert gap == pytest.approx(-40 * np.log(1e3), abs=1e-3)
    with pytest.raises(ValueError, match="inference='sep'"):
        PBPRegressor((10,), 2).fit(x, y).log_evidence(x, y)


@pytest.mark.parametrize("inference", ["adf", "sep"])
def test_deep_networks_keep_a_sane_prior(inference: str):
    # Refreshing the prior of weights without data once drove E[1 / lambda] to 1e10.
    x, y = line(60)
    x = np.column_stack([x, np.random.default_rng(2).normal(size=(60, 4))])
    for seed in range(3):
        model = PBPRegressor((30, 30, 30), 60, inference=inference, random_state=seed).fit(x, y)
        state = model.state_
        assert 0.02 < float(state.prior_rate / (state.prior_shape - 1.0)) < 50
        # Stochastic EP may find the table too small for three layers, and predict the mean.
        assert np.sqrt(np.mean((model.predict(x) - y) ** 2)) < 1.1 * y.std()


@pytest.mark.parametrize("n", [4, 6, 9])
def test_few_rows_are_predicted_within_their_range(n):
    # As pseudo-data, the random start once made E[1 / lambda] of four rows grow without bound.
    for seed in range(5):
        x = np.random.default_rng(seed).uniform(0.0, 10.0, size=(n, 1))
        model = PBPRegressor(random_state=seed).fit(x, 3.0 * x[:, 0])
        new = np.linspace(x.min(), x.max(), 40)[:, None]
        predictive, reach = model.predict_dist(new), 3.0 * np.ptp(x)
        assert np.abs(predictive.mean - 3.0 * new[:, 0]).max() < 0.5 * reach
        assert predictive.std.max() < reach


def test_long_stochastic_ep_does_not_drift_away():
    x, y = line(60)
    model = PBPRegressor((30,), 300, inference="sep", random_state=0).fit(x, y)
    assert max(np.abs(m).max() for m in model.state_.m) < 50
    assert model.fit_report_.trace["mean_log_z"][-1] > model.fit_report_.trace["mean_log_z"][5]
    assert model.fit_report_.trace["epistemic_share"][-1] > 0.05


@pytest.mark.parametrize("engine", ["kernel", pytest.param("jax", marks=pytest.mark.exhaustive)])
def test_the_prior_is_refreshed_after_every_few_rows(engine):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((75, 2))
    y = X[:, 0] - X[:, 1] ** 2 + 0.1 * rng.standard_normal(75)
    often = PBPRegressor((4,), engine=engine, refresh_every=20, random_state=0)
    by_hand = clone(often).set_params(refresh_every=None)
    for model in (often, by_hand):
        model.partial_fit(X[:15], y[:15])
    often.partial_fit(X[15:], y[15:])
    for first in range(15, 75, 20):
        by_hand.partial_fit(X[first : first + 20], y[first : first + 20])
    for one, other in zip(often.state_, by_hand.state_, strict=True):
        for a, b in zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]:
            np.testing.assert_allclose(a, b, rtol=1e-12)
    whole = clone(by_hand).partial_fit(X[:15], y[:15]).partial_fit(X[15:], y[15:])
    assert not np.allclose(whole.state_.v[0], often.state_.v[0], rtol=1e-6)


def test_stochastic_ep_refreshes_the_prior_after_whole_passes():
    with pytest.raises(ValueError, match="refresh_every must be None"):
        PBPRegressor(inference="sep", refresh_every=5).fit(np.eye(4), np.arange(4.0))


@pytest.mark.parametrize("other", [{"activation": "erf"}, {"inference": "sep"}, {"batch_size": 4}])
def test_the_authors_algorithm_has_settings_of_its_own(other):
    with pytest.raises(ValueError, match="guarded=False is the authors' algorithm, which needs"):
        PBPRegressor(guarded=False, **other).fit(np.eye(4), np.arange(4.0))


def test_without_guards_an_outlier_can_end_the_noise_and_is_named(tmp_path):
    x, y = line()
    model = PBPRegressor((8, 8), 5, random_state=0, guarded=False).fit(x, y)
    model.save(tmp_path / "model.bayesprop")
    loaded = bayesprop.load(tmp_path / "model.bayesprop")
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    with pytest.raises(ValueError, match="guarded=False left no distribution of the noise"):
        PBPRegressor(noise_prior=(1.2, 0.01), guarded=False, random_state=0).fit(x, y)
    with pytest.raises(ValueError, match="guarded=True"):
        StreamedRewards(PBPRegressor((4,), guarded=False)).check()
