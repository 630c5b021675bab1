"""The compiled steps of Bayes by Backprop against jax.grad, optax, N(0, 1) and themselves."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from bayesprop import BayesByBackpropRegressor
from bayesprop.estimators import online_network
from bayesprop.model.mean_field import MeanField
from bayesprop.model.network_likelihoods import KnownNoise
from bayesprop.model.networks import init_weights, plain_apply
from bayesprop.model.priors import NormalPrior, ScaleMixturePrior
from bayesprop.numerics import kernel_lanes, loops
from bayesprop.numerics.fast_normal import normal
from bayesprop.numerics.loops import Batch, Rows
from bayesprop.sampling import bayes_by_backprop as bbb
from bayesprop.sampling import bayes_by_backprop_engine as engine
from bayesprop.sampling.bayes_by_backprop import Params
from bayesprop.sampling.kernel_fast_normal import pair
from bayesprop.store import estimator_from_stored, estimator_to_stored

KEY = 7, 3
NORMAL, MIXTURE = NormalPrior(0.3), ScaleMixturePrior(0.25, 0.6, 0.02)


def method_of(steps: engine.Steps, n_out: int):
    return bbb.bayes_by_backprop(
        partial(plain_apply, activation_name=steps.activation),
        KnownNoise(n_out, steps.noise_var),
        steps.prior,
        optax.adam(steps.learning_rate),
        kl="closed" if isinstance(steps.prior, NormalPrior) else "sampled",
        kl_weights=steps.kl_weights,
    )


def start_of(steps: engine.Steps, sizes: tuple[int, ...]) -> bbb.BayesByBackpropState:
    """Return a state whose every weight has its own doubt, some of them large."""
    key, key_bias, key_rho = jax.random.split(jax.random.key(2), 3)
    state = method_of(steps, sizes[-1]).init(key, init_weights(key, sizes))
    m = [w + 0.1 * jax.random.normal(key_bias, w.shape) for w in state.q.m]
    rho = [jax.random.normal(key_rho, w.shape) - 2.0 for w in state.q.m]
    return state._replace(q=MeanField(tuple(m), tuple(rho)))


def memory(n_in: int, n_out: int, *, zeros: float, n: int = 40):
    rng = np.random.default_rng(n_in)
    x = rng.standard_normal((n, n_in)) * (rng.random((n, n_in)) >= zeros)
    return jnp.asarray(x, jnp.float32), jnp.asarray(rng.standard_normal((n, n_out)), jnp.float32)


# Sizes, batch size, share of zeros, prior, activation, shares of the KL.
CASES = [
    ((119, 100, 100, 1), 64, 0.8, MIXTURE, "relu", "uniform"),
    ((5, 33, 1), 1, 0.0, MIXTURE, "relu", "uniform"),
    ((3, 17, 50, 2), 7, 0.3, NORMAL, "relu", "geometric"),
    ((20, 130, 65, 16, 3), 12, 1.0, NORMAL, "leaky_relu", "uniform"),
    ((16, 18), 9, 0.0, MIXTURE, "identity", "uniform"),
    ((1, 1, 1), 4, 0.0, NORMAL, "identity", "uniform"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_step_follows_the_gradient_of_the_free_energy(case):
    sizes, batch_size, zeros, prior, activation, kl_weights = case
    steps = engine.Steps(activation, 0.2, prior, kl_weights, 1e-3)
    state, (x, y) = start_of(steps, sizes), memory(sizes[0], sizes[-1], zeros=zeros)
    n_rows = 30
    after, is_undone = engine.Replayer(steps)(
        state, KEY, x, y, n_rows, n_steps=1, batch_size=batch_size
    )
    assert not is_undone
    key = jax.random.fold_in(jax.random.key(KEY[0]), KEY[1])
    _, key_rows, key_step = jax.random.split(key, 3)
    rows = jax.random.randint(key_rows, (batch_size,), 0, n_rows)
    noise = bbb.draw_noise(key_step, state.q.m)
    n_batches = n_rows / batch_size
    share = 1.0 / n_batches if kl_weights == "uniform" else 0.5 / (1.0 - 2.0**-n_batches)
    with jax.enable_x64():
        q, noise, x, y = jax.tree.map(
            lambda a: jnp.asarray(a, jnp.float64), (state.q, noise, x[rows], y[rows])
        )

        def cost(q):
            w = jax.tree.map(lambda m, rho, e: m + jnp.log1p(jnp.exp(rho)) * e, q.m, q.rho, noise)
            outputs = jax.vmap(partial(plain_apply, w, activation_name=activation))(x)
            batch = Batch(x, y, jnp.ones(batch_size), 0, n_batches, n_rows)
            kl = "closed" if prior is NORMAL else "sampled"
            likelihood = KnownNoise(sizes[-1], 0.2)
            found = bbb.free_energy(
                prior, likelihood, Params(q, ()), noise, outputs, batch, kl=kl, share=share
            )
            return found.value / batch_size

        wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(jax.grad(cost))(q))]
    # The running mean of gradients, after one step from none, is a tenth of the gradient.
    found = jax.tree.leaves(after.optimizer[0].mu.q)
    for got, want in zip(found, wanted, strict=True):
        assert np.linalg.norm(10.0 * np.asarray(got) - want) <= 3e-6 * np.linalg.norm(want)


@pytest.mark.parametrize("prior", [NORMAL, MIXTURE], ids=["normal", "mixture"])
def test_steps_are_those_of_optax_on_the_rows_and_draws_of_jax(prior):
    """Of a linear network: units that cross zero would part the two."""
    steps = engine.Steps("identity", 0.5, prior, "uniform", 2e-3)
    sizes, n_steps, sixteen = (6, 5, 1), 60, {"n_steps": 60, "batch_size": 16}
    state, (x, y) = start_of(steps, sizes), memory(6, 1, zeros=0.4)
    update = method_of(steps, 1).update
    replay, ours, wanted = engine.Replayer(steps), state, state
    for number in range(2):
        ours = replay(ours, (5, number), x, y, 40, **sixteen).state
        key = jax.random.fold_in(jax.random.key(5), number)
        rows = Rows(x, y, jnp.ones(40))
        wanted = loops.replay(update, wanted, key, rows, jnp.asarray(40), **sixteen).state
    assert int(ours.optimizer[0].count) == int(wanted.optimizer[0].count) == 2 * n_steps
    assert jax.tree.structure(ours) == jax.tree.structure(wanted)
    for got, want in zip(jax.tree.leaves(ours), jax.tree.leaves(wanted), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-6)


@kernel_lanes.compiled
def draws(first, second, out):
    n_pairs = out.size // 2
    for k in range(0, n_pairs, 32):
        cosines, sines = pair(first, second, k)
        kernel_lanes.store(out, k, cosines)
        kernel_lanes.store(out, n_pairs + k, sines)


def drawn(first: int, second: int, n: int) -> np.ndarray:
    out = np.empty(n, np.float32)
    draws(first, second, out)
    return out


def test_normals_are_those_of_jax():
    for seed in (0, 1, 2**31 + 5):
        key = jax.random.fold_in(jax.random.key(seed), 11)
        wanted = normal(key, (100_096,))
        ours = drawn(*map(int, jax.random.key_data(key)), 100_096)
        np.testing.assert_allclose(ours, wanted, rtol=2e-6, atol=2e-6)


def test_normals_are_normal_to_their_tails():
    n = 2**21
    e = drawn(123, 2**32 - 9, n).astype(np.float64)
    for power, mean, std in ((1, 0.0, 1.0), (2, 1.0, 2**0.5), (3, 0.0, 15**0.5), (4, 3.0, 96**0.5)):
        assert abs(np.mean(e**power) - mean) < 4.5 * std / n**0.5
    assert stats.kstest(e[:200_000], "norm").pvalue > 1e-4
    for far in (3.0, 4.0, 4.7):
        for side in (e, -e):
            expected = n * stats.norm.sf(far)
            assert abs(np.sum(side > far) - expected) < 4.5 * expected**0.5 + 1.0
    for lag in (1, 15, 16, 17, 32, n // 2):
        other = np.roll(e, lag)
        assert abs(np.mean(e * other)) < 4.5 / n**0.5
        assert abs(np.mean((e**2 - 1.0) * (other**2 - 1.0))) < 4.5 * 2.0 / n**0.5


def begun(**settings) -> BayesByBackpropRegressor:
    settings = {"noise": 0.1, "learning_rate": 0.01} | settings
    return online_network.begun(BayesByBackpropRegressor((9,), **settings), 4, y_scale=1.0, seed=1)


def remembered() -> online_network.Memory:
    x, y = memory(4, 1, zeros=0.5, n=20)
    return online_network.remembered(online_network.empty(64, 4), np.asarray(x), np.asarray(y))


def practised(model, rows: online_network.Memory, *places: int):
    undone = [
        bool(online_network.practise(model, rows, place, n_steps=5, batch_size=8))
        for place in places
    ]
    return [np.asarray(leaf) for leaf in jax.tree.leaves(model.state_)], undone


def test_practice_repeats_to_the_last_bit_and_goes_on_from_what_is_stored():
    rows = remembered()
    once, _ = practised(begun(), rows, 0, 1, 2)
    stopped = begun()
    practised(stopped, rows, 0, 1)
    again, _ = practised(estimator_from_stored(*estimator_to_stored(stopped)), rows, 2)
    other, _ = practised(begun(), rows, 0, 1, 3)
    for a, b in zip(once, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (once[0] != other[0]).any()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"prior": "mixture"},
        {"activation": "identity", "kl_weights": "geometric"},
        {"prediction": "mean", "activation": "leaky_relu"},
    ],
    ids=str,
)
def test_practice_in_loops_is_practice_in_jax(settings, monkeypatch):
    settings = {"learning_rate": 1e-3} | settings
    rows, model, wanted = remembered(), begun(**settings), begun(**settings)
    assert model._compiled_replay() is not None
    practised(model, rows, 0, 1)
    monkeypatch.setattr(BayesByBackpropRegressor, "_compiled_replay", lambda _self: None)
    practised(wanted, rows, 0, 1)
    both = (jax.tree.leaves(m.state_.q) for m in (model, wanted))
    for a, b in zip(*both, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"noise": "learned"},
        {"noise": "input"},
        {"optimizer": "sgd"},
        {"optimizer": optax.adam(0.01)},
        {"n_samples": 2},
        {"local_reparameterisation": True},
        {"activation": "erf"},
    ],
    ids=["learned", "input", "sgd", "own-adam", "two-draws", "local", "erf"],
)
def test_other_settings_are_left_to_jax(settings):
    assert begun(**settings)._compiled_replay() is None


def test_steps_that_leave_the_finite_numbers_are_undone():
    model, rows = begun(learning_rate=1e38), remembered()
    before = model.state_
    _, undone = practised(model, rows, 0)
    assert undone == [True]
    assert model.state_ is before
    broken = begun()
    m = (before.q.m[0].at[0, 0].set(jnp.nan), *before.q.m[1:])
    broken.state_ = before._replace(q=before.q._replace(m=m))
    assert practised(broken, rows, 0)[1] == [True]


def test_what_does_not_fit_is_refused():
    steps, (x, y) = engine.Steps("relu", 0.1, NORMAL, "uniform", 0.01), memory(4, 1, zeros=0.0)
    state = start_of(steps, (4, 3, 1))
    for wrong in ((x[:, :3], y, 5), (x, y[:30], 5), (x, y, 41), (x, y, 0)):
        with pytest.raises(ValueError, match=r"x must be \(m, 4\), y \(m, 1\) and n_rows from 1"):
            engine.Replayer(steps)(state, KEY, *wrong, n_steps=1, batch_size=2)
