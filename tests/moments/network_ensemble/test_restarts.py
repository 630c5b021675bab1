"""A member of the default's ensemble that gives up on a cluster of rows is found and replaced."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprop.moments.network_ensemble import ensemble as nn
from bayesprop.moments.network_ensemble import restarts as restarts
from bayesprop.moments.network_ensemble.ensemble_training import Rows
from bayesprop.moments.network_ensemble.member import student_t_bound

SETTINGS = nn.settings_for(
    200, hidden_layer_sizes=(10,), noise_layer_sizes=(5,), n_members=3, n_steps=1500
)


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (200, 2))
    y = np.sin(2.0 * x[:, :1]) + 0.1 * rng.standard_normal((200, 1))
    return x, y / y.std()


@pytest.fixture(scope="module")
def fitted(table) -> tuple[nn.EnsembleState, nn.FitInfo]:
    x, y = table
    return nn.fit(nn.init(4, 2, y, SETTINGS), x, y, SETTINGS)


def given_up(state: nn.EnsembleState, member: int) -> nn.EnsembleState:
    """Let a member's mean say nothing, and its noise explain the targets."""
    mean, last = state.members.mean[:-1], state.members.mean[-1]
    w_m, log_noise = last.w_m.copy(), state.members.log_noise.copy()
    w_m[member], log_noise[member] = 0.0, log_noise[member] + 4.0
    layers = (*mean, last._replace(w_m=w_m))
    return state._replace(members=state.members._replace(mean=layers, log_noise=log_noise))


def test_a_long_table_is_judged_by_some_of_its_rows(table, fitted, monkeypatch):
    monkeypatch.setattr(restarts, "_MOST_ROWS", 60)
    state, (x, y) = given_up(fitted[0], 1), table
    assert restarts.gave_up(state, Rows.of(x, y, None)) == [1]
    fourth = Rows.of(x[::4], y[::4], None)
    for ours, theirs in zip(
        restarts._on_rows(state, Rows.of(x, y, None)), restarts._on_rows(state, fourth), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_members_that_learnt_all_rows_stay(table, fitted):
    state, info = fitted
    assert info.n_restarted == 0
    assert restarts.gave_up(state, Rows.of(*table, None)) == []


@pytest.mark.parametrize("member", [0, 2])
def test_the_one_that_gave_up_is_trained_again(table, fitted, member):
    x, y = table
    state = given_up(fitted[0], member)._replace(step=SETTINGS.n_steps)
    assert restarts.gave_up(state, Rows.of(x, y, None)) == [member]
    mended, info = nn.fit(state, x, y, SETTINGS)  # no step is left to take
    assert info.n_restarted == 1
    errors = np.sqrt(np.mean((nn.outputs(mended, x).m - y) ** 2, axis=(1, 2)))
    assert errors.max() < 1.5 * np.median(errors)
    for k, (ours, theirs) in enumerate(
        zip(mended.each_member(), fitted[0].each_member(), strict=True)
    ):
        same = jax.tree.map(np.array_equal, ours, theirs)
        assert all(jax.tree.leaves(same)) == (k != member)
    again, _ = nn.fit(state, x, y, SETTINGS)
    for name, value in mended.to_arrays().items():
        np.testing.assert_array_equal(value, again.to_arrays()[name], err_msg=name)
    assert mended.slope.shape == state.slope.shape


def test_the_better_start_is_kept(table, fitted):
    rows = Rows.of(*table, None)
    short = replace(SETTINGS, n_steps=2)
    assert restarts.start_again(fitted[0], rows, short, 1) is fitted[0]


def test_outliers_left_alone_are_no_giving_up(table):
    """The wild rows are told by the noise of all members alike."""
    x, y = table
    wild = y + np.where(np.arange(200)[:, None] % 20 == 0, 30.0, 0.0)
    assert nn.fit(nn.init(4, 2, wild, SETTINGS), x, wild, SETTINGS)[1].n_restarted == 0


def test_the_measure_is_the_bound_of_training(table, fitted):
    x, y = table
    weight = np.random.default_rng(3).uniform(0.5, 2.0, 200)
    errors, log_likelihood = restarts._on_rows(fitted[0], Rows.of(x, y, weight))
    said = nn.outputs(fitted[0], x)
    for k in range(3):
        bound = student_t_bound(
            jnp.float32((said.m[k] - y) ** 2), said.l_m[k], said.l_v[k], said.dof[k]
        )
        expected = np.average(np.asarray(bound)[:, 0], weights=weight)
        assert log_likelihood[k, 0] == pytest.approx(expected, rel=1e-4)
        mean_square = np.average((said.m[k] - y)[:, 0] ** 2, weights=weight)
        assert errors[k, 0] == pytest.approx(np.sqrt(mean_square), rel=1e-5)


def test_one_network_alone_has_nobody_to_be_compared_with(table):
    x, y = table
    alone = nn.settings_for(200, hidden_layer_sizes=(4,), n_members=1, n_steps=50)
    assert nn.fit(nn.init(1, 2, y, alone), x, y, alone)[1].n_restarted == 0
