"""A member of the default's ensemble that gives up on a cluster of rows is found and replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from ensemble_objective import student_t_bound

from bayesprop.tabular_default import regression as nn
from bayesprop.tabular_default import restarts
from bayesprop.tabular_default.networks import Networks, flat, init_networks
from bayesprop.tabular_default.outputs import outputs
from bayesprop.tabular_default.settings import settings_for
from bayesprop.tabular_default.training import Table, Training, train

SETTINGS = settings_for(
    200,
    hidden_layer_sizes=(10,),
    noise_layer_sizes=(5,),
    n_members=3,
    n_steps=1500,
    learns_processes=False,
)


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (200, 2))
    y = np.sin(2.0 * x[:, :1]) + 0.1 * rng.standard_normal((200, 1))
    return x, y / y.std()


@pytest.fixture(scope="module")
def trained(table) -> Networks:
    rows = Table.of(*table)
    start = init_networks(4, 2, rows.y, SETTINGS)
    return train([start], [rows], [SETTINGS], seed=4).experts[0]


def given_up(state: Networks, member: int) -> Networks:
    """Let a member's mean say nothing, and its noise explain the targets."""
    members = list(state.members)
    *below, last = members[member].mean
    members[member] = members[member]._replace(
        mean=(*below, last._replace(w_m=0.0 * last.w_m)),
        log_noise=members[member].log_noise + np.float32(4.0),
    )
    return state._replace(members=tuple(members))


def test_a_long_table_is_judged_by_some_of_its_rows(table, trained, monkeypatch):
    monkeypatch.setattr(restarts, "_MOST_ROWS", 60)
    state, (x, y) = given_up(trained, 1), table
    assert restarts.gave_up(state, Table.of(x, y, None)) == [1]
    fourth = Table.of(x[::4], y[::4], None)
    whole, some = (restarts.scores(state, rows) for rows in (Table.of(x, y, None), fourth))
    for ours, theirs in zip(whole, some, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_members_that_learnt_all_rows_stay(table, trained):
    assert restarts.gave_up(trained, Table.of(*table, None)) == []


@pytest.mark.parametrize("member", [0, 2])
def test_the_one_that_gave_up_is_restarted(table, trained, member):
    rows, (x, y) = Table.of(*table, None), table
    state = given_up(trained, member)
    assert restarts.gave_up(state, rows) == [member]
    mended = restarts.restart(state, rows, SETTINGS, 4, member)
    errors = np.sqrt(np.mean((outputs(mended, x).m - y) ** 2, axis=(1, 2)))
    assert errors.max() < 1.5 * np.median(errors)
    for k, (ours, theirs) in enumerate(zip(mended.members, trained.members, strict=True)):
        assert np.array_equal(flat(ours), flat(theirs)) == (k != member)


def test_a_fit_restarts_and_says_so(table, trained, monkeypatch):
    losses = np.zeros((3, SETTINGS.n_steps, 2), np.float32)

    def spoilt(*arguments: Any, **options: Any) -> Any:
        (_, *others), _ = train(*arguments, **options)
        return Training([given_up(trained, 1), *others], losses)

    monkeypatch.setattr(nn, "train", spoilt)
    state, info = nn.fit(4, *table, SETTINGS)
    assert info.guards["members_restarted"] == 1
    assert restarts.gave_up(state.networks, Table.of(*table)) == []


def test_the_better_start_is_kept(table, trained):
    short = replace(SETTINGS, n_steps=2)
    assert restarts.restart(trained, Table.of(*table), short, 4, 1) is trained


@pytest.mark.exhaustive
def test_outliers_left_alone_are_no_giving_up(table):
    """The wild rows are told by the noise of all members alike."""
    x, y = table
    wild = y + np.where(np.arange(200)[:, None] % 20 == 0, 30.0, 0.0)
    assert nn.fit(4, x, wild, SETTINGS)[1].guards["members_restarted"] == 0


def test_the_measure_is_the_bound_of_training(table, trained):
    x, y = table
    weight = np.random.default_rng(3).uniform(0.5, 2.0, 200)
    rmse, bound = restarts.scores(trained, Table.of(x, y, weight))
    noisy = outputs(trained, x)
    for k in range(3):
        square = jnp.float32((noisy.m[k] - y) ** 2)
        each = student_t_bound(square, noisy.l_m[k], noisy.l_v[k], noisy.dof[k, 0])
        expected = np.average(np.asarray(each)[:, 0], weights=weight)
        assert bound[k, 0] == pytest.approx(expected, rel=1e-4)
        mean_square = np.average((noisy.m[k] - y)[:, 0] ** 2, weights=weight)
        assert rmse[k, 0] == pytest.approx(np.sqrt(mean_square), rel=1e-5)


def test_one_network_alone_has_nobody_to_be_compared_with(table):
    alone = replace(SETTINGS, hidden_layer_sizes=(4,), n_members=1, n_steps=50)
    assert nn.fit(1, *table, alone)[1].guards["members_restarted"] == 0
