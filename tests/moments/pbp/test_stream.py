"""The stream of single rows against passes over a table; drawn functions against drawn weights."""

from __future__ import annotations

import numpy as np
import pytest
from compiled_passes import assert_states_close, data_pass, problem

from bayesprop.moments.pbp import engine
from bayesprop.moments.pbp.stream import PBPStream, StreamState
from bayesprop.moments.pbp.updates import sample_functions


@pytest.mark.parametrize("sizes", [(3, 1), (3, 9, 2), (4, 8, 10, 1)])
def test_rows_one_at_a_time_are_a_pass(sizes):
    state, x, y = problem(sizes, 12)
    wanted, info = data_pass(state, x, y, np.arange(len(x)))
    wanted, refreshed = engine.refresh_prior(wanted)
    stream = PBPStream(StreamState.of(state, 0))
    infos = [stream.absorb(*row) for row in zip(x, y, strict=True)]
    assert stream.refresh() == refreshed
    assert_states_close(stream.state.posterior, wanted, rtol=1e-12, atol=1e-14)
    assert np.isclose(sum(one.log_z for one in infos), info.log_z, rtol=1e-12)
    assert np.isclose(sum(one.epistemic_share for one in infos), info.epistemic_share, rtol=1e-12)
    for got, known in zip(stream.moments(x), engine.predict_moments(wanted, x), strict=True):
        np.testing.assert_allclose(got, known, rtol=1e-12)


def test_recalled_rows_are_the_last_ones_newest_first_and_teach_no_noise():
    state, x, y = problem((2, 5, 1), n=7)
    stream, wanted = PBPStream(StreamState.of(state, 3), recall_weight=2.0), state
    for t in range(7):
        stream.absorb(x[t], y[t])
        wanted, _ = data_pass(wanted, x, y, np.array([t]))
        earlier = np.arange(t - 1, max(t - 4, -1), -1)
        after, _ = data_pass(wanted, x, y, earlier, np.full(7, 2.0))
        noise = {"noise_shape": wanted.noise_shape, "noise_rate": wanted.noise_rate}
        wanted = after._replace(**noise)
    assert_states_close(stream.state.posterior, wanted, rtol=1e-12, atol=1e-14)


def only_first_output(state):
    """The same network without its second output."""
    layered = {name: part for name, part in state._asdict().items() if isinstance(part, tuple)}
    layers = {name: (*part[:-1], part[-1][:, :1]) for name, part in layered.items()}
    noise = {n: getattr(state, n)[:1] for n in state._fields if "noise" in n}
    return state._replace(**layers, **noise)


def test_an_output_that_was_not_seen_learns_nothing_and_teaches_nothing():
    state, x, y = problem((2, 5, 2), 12)
    stream = PBPStream(StreamState.of(state, 0))
    for row, target in zip(x, y, strict=True):
        stream.absorb(row, np.array([target[0], np.nan]))
    got = stream.state.posterior
    for before, after in ((state.m, got.m), (state.v, got.v)):
        np.testing.assert_array_equal(after[-1][:, 1], before[-1][:, 1])
    assert (got.noise_shape[1], got.noise_rate[1]) == (6.0, 6.0)
    alone = only_first_output(state)
    wanted, _ = data_pass(alone, x, y[:, :1], np.arange(len(x)))
    assert_states_close(only_first_output(got), wanted, rtol=1e-12, atol=1e-14)


def test_a_stream_taken_up_again_goes_on_to_the_last_bit():
    state, x, y = problem((3, 6, 1), 12)
    whole, half = (PBPStream(StreamState.of(state, 4)) for _ in range(2))
    for t in range(12):
        whole.absorb(x[t], y[t])
        whole.refresh()
    for t in range(8):
        half.absorb(x[t], y[t])
        half.refresh()
    again = PBPStream(half.state)
    for t in range(8, 12):
        again.absorb(x[t], y[t])
        again.refresh()
    assert_states_close(again.state.posterior, whole.state.posterior, rtol=0.0)


@pytest.mark.parametrize("sizes", [(3, 2), (3, 9, 1), (4, 8, 10, 2)])
def test_drawn_functions_are_those_of_drawn_weights_in_distribution(sizes):
    state, x, y = problem(sizes, 12)
    stream = PBPStream(StreamState.of(state, 0))
    for row, target in zip(x, y, strict=True):
        stream.absorb(row, target)
    rows = x[:3].copy()
    rows[1, 1:], rows[2, 0] = rows[0, 1:], 0.0  # columns that are shared, and zeros
    n, few = 40_000, 4000
    got = stream.draw(np.random.default_rng(1), rows, n).reshape(n, -1)
    wanted = sample_functions(
        np.random.default_rng(2), stream.state.posterior, rows, few, activation="relu"
    ).reshape(few, -1)
    products = [
        np.einsum("si,sj->sij", part, part).reshape(len(part), -1) for part in (got, wanted)
    ]
    for one, other in ((got, wanted), products, (got**3, wanted**3)):
        error = np.sqrt(one.var(axis=0) / n + other.var(axis=0) / few)
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4.5 * error).all()


def test_equal_inputs_have_equal_values_and_a_stream_of_many_falls_back_on_weights():
    state, x, _ = problem((3, 9, 7, 2), n=70)
    stream = PBPStream(StreamState.of(state, 0))
    rows = x[[0, 0, 1, 0]]
    drawn = stream.draw(np.random.default_rng(0), rows, 300)
    for other in (1, 3):
        np.testing.assert_allclose(drawn[:, 0], drawn[:, other], rtol=1e-7, atol=1e-9)
    assert np.isfinite(drawn).all()
    assert np.abs(drawn[:, 0] - drawn[:, 2]).min() > 0.0
    many = stream.draw(np.random.default_rng(1), x, 2)
    wanted = sample_functions(np.random.default_rng(1), state, x, 2)
    np.testing.assert_array_equal(many, wanted)


def test_inputs_of_another_width_are_refused():
    stream = PBPStream(StreamState.of(problem((3, 4, 1), 1)[0], 0))
    with pytest.raises(ValueError, match=r"x must be \(n, 3\), got shape \(2, 4\)"):
        stream.draw(np.random.default_rng(0), np.zeros((2, 4)), 1)
