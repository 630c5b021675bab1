"""The compiled online loops against JAX's derivatives, `graves_vi`, and NumPy's functions."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bayesprop.model import mean_field
from bayesprop.model.gradient_method import Draw
from bayesprop.model.mean_field import MeanField
from bayesprop.model.network_likelihoods import LearnedNoise
from bayesprop.model.networks import mlp_apply, plain_apply
from bayesprop.numerics import fast_normal, threefry
from bayesprop.numerics.loops import Batch
from bayesprop.sampling import graves_vi
from papers import online_kernel
from papers.online_descent import OnlineNetwork, fit_graves, fit_point

N = 12
RATES = {"learning_rate": 0.05, "momentum": 0.7}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 3))
    return x, np.tanh(x[:, 0]) + 0.1 * rng.standard_normal(N)


def apply_of(network):
    return mlp_apply if network.is_scaled else plain_apply


@pytest.mark.parametrize("sizes", [(3, 1), (3, 50, 1), (3, 7, 37, 5, 1)])
@pytest.mark.parametrize("is_scaled", [True, False])
def test_an_epoch_of_backpropagation_is_a_loop_over_autodiff(data, sizes, is_scaled):
    network = OnlineNetwork(sizes, is_scaled)
    x, y = data
    w = network.start(np.random.default_rng(1))
    order = np.random.default_rng(2).permutation(N)
    found = fit_point(network, w, x, y, [order], **RATES, weight_decay=0.02)

    @jax.jit
    @partial(jax.value_and_grad, has_aux=True)
    def loss(layers, row, target):
        error = target - apply_of(network)(layers, row)[0]
        return 0.5 * error**2, error**2

    layers = [np.asarray(part, np.float64) for part in network.layers(w)]
    velocity = [np.zeros_like(part) for part in layers]
    total = 0.0
    for row in order:
        (_, squared), slopes = loss(tuple(layers), jnp.asarray(x[row]), y[row])
        total += float(squared)
        for part, v, slope in zip(layers, velocity, slopes, strict=True):
            v *= RATES["momentum"]
            v -= RATES["learning_rate"] * (np.asarray(slope, np.float64) + 0.02 * part)
            part += v
    assert found.losses == [pytest.approx(total, rel=1e-5)]
    for ours, theirs in zip(network.layers(found.w), layers, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=3e-6)
    by_row = [float(apply_of(network)(network.layers(found.w), jnp.asarray(r))[0]) for r in x]
    np.testing.assert_allclose(network.predict(found.w, x), by_row, atol=3e-6)


@pytest.mark.parametrize("sizes", [(3, 9, 1), (3, 6, 5, 1)])
def test_an_epoch_of_vi_is_graves_vi_on_the_same_draws(data, sizes, monkeypatch):
    network = OnlineNetwork(sizes)
    x, y = data
    m = network.start(np.random.default_rng(1))
    orders = [np.random.default_rng(s).permutation(N) for s in (2, 3)]
    seed = (7 << 32) + 11
    found = fit_graves(network, m, x, y, orders, **RATES, seed=seed, init_std=0.3)

    def tables(w):
        return tuple(jnp.asarray(part) for part in network.layers(np.asarray(w)))

    def sample(normals, state):
        w = jax.tree.map(
            lambda m, std, e: m + std * e, state.q.m, mean_field.stds(state.q), normals
        )
        return Draw(w, state.likelihood)

    monkeypatch.setattr(graves_vi, "sample", sample)
    optimizer = optax.sgd(RATES["learning_rate"], RATES["momentum"])
    method = graves_vi.graves_vi(mlp_apply, LearnedNoise(1), optimizer, init_std=0.3)
    state, losses = method.init(jax.random.key(0), tables(m)), [0.0, 0.0]
    update = jax.jit(method.update)
    for t, row in enumerate(np.concatenate(orders)):
        normals = np.empty(network.n_weights + network.n_weights % 2, np.float32)
        online_kernel.fill_normals(np.array([7, 11], np.uint32), t, normals)
        batch = Batch(
            jnp.asarray(x[[row]]), jnp.asarray(y[[row], None]), jnp.ones(1), jnp.asarray(0), N, N
        )
        state, info = update(tables(normals[: network.n_weights]), state, batch)
        losses[t // N] -= float(info.mean_log_likelihood)
    assert found.losses == pytest.approx(losses, rel=1e-4)
    assert found.noise_var == pytest.approx(float(jnp.exp(state.likelihood[0])), rel=1e-4)
    q = MeanField(tables(found.m), tables(found.rho))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3, atol=2e-4), q, state.q)


def test_normals_are_those_of_the_generator_in_jax():
    key = np.array([123456789, 4000000000], np.uint32)
    out = np.empty(1000, np.float32)
    online_kernel.fill_normals(key, 0, out)
    counter = jnp.arange(500, dtype=jnp.uint32)
    words = threefry.encrypted(
        jnp.asarray(key), counter, jnp.zeros_like(counter), rounds=fast_normal.ROUNDS
    )
    np.testing.assert_allclose(out, np.concatenate(fast_normal.pairs(*words)), atol=2e-6)


def test_normals_of_all_steps_are_independent_and_normal():
    key = np.array([1, 2], np.uint32)
    drawn = np.empty((300, 1000), np.float32)
    for step in range(300):
        online_kernel.fill_normals(key, step, drawn[step])
    n, e = drawn.size, drawn.astype(np.float64)
    for power, (moment, variance) in {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96)}.items():
        assert abs((e**power).mean() - moment) < 4.0 * np.sqrt(variance / n)
    for one, other in ((e[1:], e[:-1]), (e[:, 1:], e[:, :-1]), (e[:, :500], e[:, 500:])):
        assert abs((one * other).mean()) < 4.0 / np.sqrt(one.size)


def test_elementary_functions():
    x = np.concatenate([np.linspace(-87, 87, 2001), np.linspace(-1, 1, 2001)]).astype(np.float32)
    e = np.array([online_kernel.exp32(value) for value in x], np.float32)
    exact = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(e, exact, rtol=3e-7)
    logs = np.array([online_kernel.log32(value) for value in e])
    np.testing.assert_allclose(logs, np.log(e.astype(np.float64)), rtol=3e-7, atol=1e-7)
    softplus = np.array([online_kernel.softplus32(value) for value in e])
    np.testing.assert_allclose(softplus, np.log1p(e.astype(np.float64)), rtol=1e-5)


def test_a_fit_is_its_seed_and_a_diverged_one_shows(data):
    x, y = data
    network = OnlineNetwork((3, 9, 1))
    m, orders = network.start(np.random.default_rng(0)), [np.arange(N)] * 5
    how = {"momentum": 0.5, "seed": 3}
    one, same, other = (
        fit_graves(network, m, x, y, orders, learning_rate=0.01, **(how | {"seed": seed}))
        for seed in (3, 3, 4)
    )
    assert one.is_finite
    np.testing.assert_array_equal(one.m, same.m)
    np.testing.assert_array_equal(one.rho, same.rho)
    assert not np.array_equal(one.m, other.m)
    assert not fit_graves(network, m, x, y, orders * 5, learning_rate=50.0, **how).is_finite
    point = {"momentum": 0.9, "weight_decay": 0.0}
    assert not fit_point(network, m, x, y, orders * 20, learning_rate=50.0, **point).is_finite


def test_bad_shapes_are_named(data):
    x, y = data
    network = OnlineNetwork((3, 9, 1))
    w = network.start(np.random.default_rng(0))
    how = {"learning_rate": 0.1, "momentum": 0.0, "weight_decay": 0.0}
    for broken, told in (
        ((w, x[:, :2], y, []), r"x must be \(n, 3\)"),
        ((w[:-1], x, y, []), "46 float32"),
        ((w, x, y[:-1], []), "one number for each of 12"),
        ((w, x, y, [np.array([N])]), "< 12"),
    ):
        with pytest.raises(ValueError, match=told):
            fit_point(network, *broken, **how)
    with pytest.raises(ValueError, match="the last of them 1"):
        OnlineNetwork((3, 2))
