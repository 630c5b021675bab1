"""Members trained together are members trained alone; each meets every row in its own order."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bayesprop.networks.gradient_method import GradientMethod, Info, Parameters
from bayesprop.networks.likelihoods import InputNoise
from bayesprop.networks.mlp import init_weights, plain_apply
from bayesprop.numerics import loops
from bayesprop.numerics.loops import Batch
from bayesprop.numerics.rows import Rows
from bayesprop.sampling import deep_ensemble as module
from bayesprop.sampling.deep_ensemble import Lessons, deep_ensemble, own_orders
from bayesprop.sampling.mc_dropout import Rates, dropout_forward
from bayesprop.sampling.point_network import point_network

M = 3


@pytest.fixture(params=["side by side", "one after another"])
def _both_ways(request, monkeypatch):
    if request.param == "one after another":
        monkeypatch.setattr(module, "_LARGE_NETWORK", 0)


def starts(sizes=(2, 5, 2)):
    keys = jax.random.split(jax.random.key(0), M)
    return jax.vmap(lambda key: init_weights(key, sizes))(keys)


def one(members, k):
    return jax.tree.map(lambda leaf: leaf[k], members)


def rows_of(n):
    key_x, key_y = jax.random.split(jax.random.key(1))
    x, y = jax.random.normal(key_x, (n, 2)), jax.random.normal(key_y, (n, 1))
    return Rows(x, y, jnp.linspace(0.5, 1.5, n))


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("own_rows", [True, False])
def test_an_update_is_that_of_every_member_on_its_rows(own_rows):
    forward = dropout_forward(Rates(hidden=0.5), activation_name="relu")
    member = point_network(plain_apply, InputNoise(1), optax.adam(0.1), forward=forward)
    ensemble, data, key = deep_ensemble(member, n_members=M), rows_of(11), jax.random.key(2)
    place, real = jnp.zeros((), jnp.int32), jnp.array([1.0, 1.0, 1.0, 0.0])
    numbers = jnp.asarray([[0, 3, 5], [7, 1, 2], [4, 9, 10], [8, 6, 0]])
    if own_rows:
        state = Lessons(ensemble.init(key, starts()), data, jnp.float32(30.0))
        batch = Batch(numbers, (), real, place, 4, jnp.float32(11.0))
    else:
        numbers = jnp.tile(numbers[:, :1], M)
        state, (x, y, weight) = ensemble.init(key, starts()), (c[numbers[:, 0]] for c in data[:3])
        batch = Batch(x, y, real * weight, place, 4, jnp.float32(30.0))
    together, info = jax.jit(ensemble.update)(key, state, batch)
    before, after = (state.members, together.members) if own_rows else (state, together)
    update, losses = jax.jit(member.update), []
    for k, own_key in enumerate(jax.random.split(key, M)):
        x, y, weight = (column[numbers[:, k]] for column in data[:3])
        own = Batch(x, y, real * weight, place, 4, jnp.float32(30.0))
        expected, of_member = update(own_key, one(before, k), own)
        found = one(after, k)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), found, expected)
        losses.append(float(of_member.loss))
    assert float(info.loss) == pytest.approx(np.mean(losses), rel=1e-5)
    assert len({round(loss, 6) for loss in losses}) == M


def watching(n):
    """Build a method that only counts, per place of the epoch, which rows it met."""

    def update(key, state, batch):
        del key
        met = state.at[batch.x[:, 0].astype(int)].add(
            jnp.where(batch.weight > 0.0, batch.place + 1.0, 0.0)
        )
        total = jnp.sum(batch.weight * batch.y)
        return met, Info(total, batch.n_total, jnp.sum(batch.weight))

    def nothing(*_):
        return Parameters((), ())

    return GradientMethod(None, None, lambda _key, _weights: jnp.zeros(n), update, nothing, nothing)


@pytest.mark.usefixtures("_both_ways")
def test_every_member_meets_every_row_once_in_its_own_order():
    n, batch_size = 11, 3
    weight = jnp.linspace(0.5, 1.5, n)
    data = Rows(jnp.arange(n, dtype=jnp.float32)[:, None], jnp.ones(n), weight)
    method = deep_ensemble(watching(n), n_members=M)
    members = method.init(jax.random.key(0), jnp.zeros(M))
    state = Lessons(members, data, jnp.sum(weight))
    order = own_orders(jax.random.key(1), data, len(data.y), n_members=M)
    for column in np.asarray(order.x).T:
        np.testing.assert_array_equal(np.sort(column), np.arange(n))
    state, info = loops.epoch(method.update, state, jax.random.key(2), order, batch_size=batch_size)
    met = np.asarray(state.members)
    sizes = np.array([3, 3, 3, 2])
    for places in met:
        np.testing.assert_array_equal(np.bincount(places.astype(int))[1:], sizes)
    assert (met[0] != met[1]).any()
    assert (met[1] != met[2]).any()
    assert float(info.loss) * 4 == pytest.approx(float(weight.sum()), rel=1e-5)
    assert float(info.mean_log_likelihood) == pytest.approx(float(weight.sum()), rel=1e-5)


def test_draws_are_members_equally_often():
    n = 3000
    member = point_network(plain_apply, InputNoise(1), optax.sgd(0.1))
    ensemble = deep_ensemble(member, n_members=M)
    states = ensemble.init(jax.random.key(0), starts())
    keys = jax.random.split(jax.random.key(3), n)
    first = jax.vmap(lambda key: ensemble.sample(key, states).weights[0][0, 0])(keys)
    own = np.asarray(states.params.weights[0][:, 0, 0])
    shares = (np.asarray(first)[:, None] == own).mean(axis=0)
    assert shares.sum() == pytest.approx(1.0)
    assert (np.abs(shares - 1 / M) < 4.5 * np.sqrt(2 / 9 / n)).all()
