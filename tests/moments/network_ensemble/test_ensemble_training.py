"""The compiled training of the noise-network recipe against jax.grad, optax and itself."""

from __future__ import annotations

from threading import Event

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import special, stats

from bayesprop.moments.network_ensemble import ensemble as nn
from bayesprop.moments.network_ensemble import ensemble_training as engine
from bayesprop.moments.network_ensemble.gaussian_network import Layers
from bayesprop.moments.network_ensemble.member import Member, Schedule, member_loss, member_output
from bayesprop.moments.network_ensemble.weight_priors import Priors
from bayesprop.numerics.activation_moments import soft_relu
from bayesprop.simd import floats as kernel_floats
from bayesprop.simd import lanes as kernel_lanes

N_STEPS = 1000


def settings_of(**given) -> nn.EnsembleSettings:
    return nn.settings_for(1000, n_steps=N_STEPS, n_members=1, **given)


def unsure(layers: Layers, rng: np.random.Generator) -> Layers:
    """Give every weight its own doubt."""
    return tuple(
        layer._replace(
            w_m=layer.w_m + np.float32(0.3 * rng.standard_normal(layer.w_m.shape)),
            w_log_std=np.float32(rng.normal(-1.2, 0.4, layer.w_m.shape)),
            b_log_std=np.float32(rng.normal(-1.2, 0.4, layer.b_m.shape)),
        )
        for layer in layers
    )


def start_of(
    settings: nn.EnsembleSettings, n_inputs: int, y: np.ndarray, step: int
) -> nn.EnsembleState:
    """Return an ensemble in the middle of its training."""
    rng = np.random.default_rng(step)
    state = nn.init(3, n_inputs, y, settings)
    members = state.members
    numbers = {
        name: getattr(members, name) + np.float32(rng.standard_normal(members.raw_dof.shape))
        for name in ("log_noise", "own_log_noise", "raw_dof")
    }
    widths = tuple(np.float32(rng.normal(-1.0, 0.7, w.shape)) for w in members.log_widths)
    members = Member(
        unsure(members.mean, rng), unsure(members.noise, rng), **numbers, log_widths=widths
    )
    return state._replace(members=members, step=step)


def table(n: int, d: int, n_out: int, *, weighted: bool = False) -> engine.Rows:
    rng = np.random.default_rng(n)
    weight = rng.uniform(0.2, 3.0, n) if weighted else None
    return engine.Rows.of(rng.standard_normal((n, d)), rng.standard_normal((n, n_out)), weight)


def schedule_at(step: int, rows: engine.Rows, settings: nn.EnsembleSettings) -> Schedule:
    """Say again, in other words, where training stands."""
    done = step / settings.n_steps
    ramp = np.interp(done, [0.0, settings.noise_warm_up], [0.5, settings.noise_shares[0]])
    kl_weight = np.interp(done, [0.0, settings.kl_warm_up], [0.0, 1.0])
    return Schedule(rows.n_total, kl_weight, ramp, settings.mean_least_dofs[0])


def rows_of_step(state, rows: engine.Rows, settings, step: int) -> np.ndarray:
    batches = engine.Batches.of(len(rows.x), settings.batch_size)
    return next(engine.row_orders(state.seed, 0, len(rows.x), batches, step, 1))


WIDE, NARROW = Priors(), Priors(1.0, 2.0, 0.1)
# Hidden units, noise units, rows, inputs, outputs, batch size, step, weights, share of the noise,
# least degrees of freedom for the mean, whether the last layer takes the inputs too, priors.
CASES = [
    ((50,), (20,), 64, 10, 1, 64, 900, False, 1.0, 30.0, False, WIDE),
    ((8,), (5,), 100, 3, 1, 64, 100, True, 0.5, 3.0, True, NARROW),
    ((8,), (5,), 21, 3, 3, 64, 500, True, 0.0, 11.0, False, NARROW),
    ((13, 7), (5,), 37, 4, 1, 16, 500, False, 1.0, 3.0, True, WIDE),
    ((13, 7), (6, 3), 90, 4, 2, 30, 0, True, 1.0, 1e6, True, NARROW),
    ((5, 6, 9), (17,), 90, 1, 5, 30, 700, True, 0.7, 9.0, True, WIDE),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_step_follows_the_gradient_of_the_loss(case):
    hidden, noise, n, d, n_out, batch_size, step, weighted, share, dof, is_direct, priors = case
    settings = settings_of(
        hidden_layer_sizes=hidden,
        noise_layer_sizes=noise,
        batch_size=batch_size,
        noise_shares=(share,),
        mean_least_dofs=(dof,),
        is_direct=is_direct,
        priors=priors,
    )
    rows = table(n, d, n_out, weighted=weighted)
    state = start_of(settings, d, rows.y, step)
    after, losses = engine.train(state, rows, settings, 1)
    chosen = rows_of_step(state, rows, settings, step)
    with jax.enable_x64():
        member = jax.tree.map(lambda leaf: jnp.asarray(leaf[0], jnp.float64), state.members)
        x, y, weight, floor = (
            jnp.asarray(a, jnp.float64)
            for a in (*(part[chosen] for part in rows[:3]), state.log_floor)
        )
        schedule = schedule_at(step, rows, settings)

        def loss(member: Member):
            found = member_loss(member, x, y, weight, floor, schedule, priors)
            return found.total, found

        (_, found), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(member)
        leaves = [np.ravel(leaf) for leaf in jax.tree.leaves(gradient)]
    ends = np.cumsum([len(leaf) for leaf in leaves])
    # The running mean of gradients, after one step from none, is a tenth of the gradient.
    for got, want in zip(np.split(10.0 * after.slope, ends[:-1]), leaves, strict=True):
        assert np.linalg.norm(got - want) <= 1e-5 * np.linalg.norm(want)
    np.testing.assert_allclose(losses[0, 0], found, rtol=2e-6, atol=2e-6)


def test_steps_are_those_of_optax():
    settings = settings_of(hidden_layer_sizes=(4,), noise_layer_sizes=(3,), batch_size=16)
    rows, n_steps = table(40, 2, 1), 50
    start = nn.init(3, 2, rows.y, settings)
    after, _ = engine.train(start, rows, settings, n_steps)
    member = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), start.members)
    cosine = optax.cosine_decay_schedule(settings.step_size, N_STEPS, alpha=0.01)
    rule, floor = optax.adam(cosine), jnp.asarray(start.log_floor)
    batches = engine.Batches.of(40, settings.batch_size)
    orders = np.concatenate([*engine.row_orders(3, 0, 40, batches, 0, n_steps)])

    @jax.jit
    def moved(member, memory, x, y, weight, schedule):
        slope = jax.grad(
            lambda member: member_loss(member, x, y, weight, floor, schedule, WIDE).total
        )(member)
        change, memory = rule.update(slope, memory, member)
        return optax.apply_updates(member, change), memory

    memory = rule.init(member)
    for step, chosen in enumerate(np.split(orders, n_steps)):
        parts = (part[chosen] for part in rows[:3])
        member, memory = moved(member, memory, *parts, schedule_at(step, rows, settings))
    for got, want in zip(jax.tree.leaves(after.members), jax.tree.leaves(member), strict=True):
        np.testing.assert_allclose(got[0], want, rtol=1e-3, atol=1e-4)


def trained(n_steps: list[int], n_threads: int = 1) -> nn.EnsembleState:
    settings = nn.settings_for(
        90, hidden_layer_sizes=(5, 4), noise_layer_sizes=(3,), n_members=3, n_steps=700
    )
    rows = table(90, 2, 2)
    state = nn.init(5, 2, rows.y, settings)
    for n in n_steps:
        state, _ = engine.train(state, rows, settings, n, n_threads=n_threads)
    return state


def same(a: nn.EnsembleState, b: nn.EnsembleState) -> None:
    for name, value in a.to_arrays().items():
        np.testing.assert_array_equal(value, b.to_arrays()[name], err_msg=name)


def test_neither_pauses_nor_threads_change_anything(monkeypatch: pytest.MonkeyPatch):
    whole = trained([700])
    same(whole, trained([700], n_threads=3))
    monkeypatch.setattr(engine, "_STEPS_AT_A_TIME", 7)
    same(whole, trained([1, 299, 400]))
    assert len({float(m.mean[0].w_m[0, 0]) for m in whole.each_member()}) == 3


@pytest.mark.parametrize(
    ("name", "values"), [("noise_shares", (0.2, 1.0)), ("mean_least_dofs", (30.0, 3.0))]
)
def test_members_take_settings_of_the_mean_in_turn(name, values):
    rows = table(50, 2, 1)

    def trained(*values: float) -> np.ndarray:
        settings = nn.settings_for(50, n_members=3, n_steps=40, **{name: values})
        after, _ = engine.train(nn.init(5, 2, rows.y, settings), rows, settings, 40)
        return after.members.mean[0].w_m

    mixed, low, high = trained(*values), trained(values[0]), trained(values[1])
    np.testing.assert_array_equal(mixed, np.stack([low[0], high[1], low[2]]))
    assert not np.array_equal(low, high)


def test_an_epoch_takes_no_row_twice_and_members_differ(monkeypatch: pytest.MonkeyPatch):
    n, batches = 23, engine.Batches.of(23, 5)
    assert batches == (5, 4)
    monkeypatch.setattr(engine, "_ORDERED_AT_A_TIME", 3 * n)  # three epochs in a piece

    def orders(seed: int, member: int, first: int, n_steps: int) -> np.ndarray:
        return np.concatenate([*engine.row_orders(seed, member, n, batches, first, n_steps)])

    epochs = orders(1, 0, 0, 40).reshape(8, 20)
    assert epochs.dtype == np.int32
    assert all(len(set(epoch)) == 20 for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 8
    assert set(epochs.ravel()) == set(range(n))
    np.testing.assert_array_equal(orders(1, 0, 13, 9), epochs.reshape(40, 4)[13:22].ravel())
    for other in (orders(1, 1, 0, 40), orders(2, 0, 0, 40)):
        assert (other.reshape(8, 20) != epochs).any(axis=1).all()


@pytest.mark.parametrize(
    ("n", "size", "expected"), [(3, 64, (1, 3)), (398, 64, (6, 66)), (129, 128, (1, 129))]
)
def test_batches_are_close_to_the_size_asked_for(n, size, expected):
    assert engine.Batches.of(n, size) == expected


def test_interrupting_stops_the_threads(monkeypatch: pytest.MonkeyPatch):
    real, begun = engine.advance, Event()

    def advance(*args):
        if begun.is_set():
            raise KeyboardInterrupt
        begun.set()
        return real(*args)

    monkeypatch.setattr(engine, "advance", advance)
    monkeypatch.setattr(engine, "_STEPS_AT_A_TIME", 1)
    with pytest.raises(KeyboardInterrupt):
        trained([700], n_threads=2)


def test_what_is_not_a_number_shows():
    settings = settings_of(hidden_layer_sizes=(4,), noise_layer_sizes=(3,))
    rows = table(30, 2, 1)
    rows.y[3] = np.nan
    state, losses = engine.train(nn.init(3, 2, table(30, 2, 1).y, settings), rows, settings, 9)
    assert np.isnan(losses[0, -1]).all()
    assert np.isnan(state.members.mean[0].w_m).all()


@pytest.mark.parametrize(
    ("x", "y", "weight", "message"),
    [
        (np.zeros((3, 2)), np.zeros((2, 1)), None, "x must be"),
        (np.zeros((3, 2)), np.zeros(3), None, "x must be"),
        (np.zeros((3, 2)), np.zeros((3, 1)), np.ones(2), "weight must hold 3 numbers"),
    ],
)
def test_rows_that_do_not_fit_are_refused(x, y, weight, message):
    with pytest.raises(ValueError, match=message):
        engine.Rows.of(x, y, weight)


@kernel_lanes.compiled
def formulas(x, v, softness, out):
    """Every formula of sixteen lanes, a row each."""
    for k in range(0, x.size, 16):
        a, b = kernel_lanes.load_floats(x, k), kernel_lanes.load_floats(v, k)
        kernel_lanes.store(out[0], k, kernel_floats.exp(a))
        kernel_lanes.store(out[1], k, kernel_floats.log(b))
        kernel_lanes.store(out[2], k, kernel_floats.log1p(b))
        kernel_lanes.store(out[3], k, kernel_floats.log_add_exp(a, b))
        moments = kernel_floats.relu_moments(a, b)
        kernel_lanes.store(out[4], k, moments[0])
        kernel_lanes.store(out[5], k, moments[1])
        moments = kernel_floats.soft_relu_moments(a, b, kernel_lanes.load_floats(softness, k))
        kernel_lanes.store(out[6], k, moments[0])
        kernel_lanes.store(out[7], k, moments[1])


def test_formulas_are_those_of_float64():
    rng = np.random.default_rng(0)
    x = (6.0 * rng.standard_normal(1600)).astype(np.float32)
    v = np.exp(3.0 * rng.standard_normal(1600)).astype(np.float32)
    softness = np.exp(3.0 * rng.standard_normal(1600)).astype(np.float32)
    softness[1:200] = 0.0
    x[0] = np.nan
    out = np.zeros((8, 1600), np.float32)
    formulas(x, v, softness, out)
    assert np.isnan(out[[0, 3, 4, 5, 6, 7], 0]).all()
    x, v, softness, out = (a[..., 1:].astype(np.float64) for a in (x, v, softness, out))
    for got, want in zip(out, (np.exp(x), np.log(v), np.log1p(v)), strict=False):
        np.testing.assert_allclose(got, want, rtol=3e-7)
    np.testing.assert_allclose(out[3], np.logaddexp(x, v), rtol=3e-7, atol=1e-6)
    a = x / np.sqrt(v)
    mean = x * special.ndtr(a) + np.sqrt(v) * stats.norm.pdf(a)
    second = (x * x + v) * special.ndtr(a) + x * np.sqrt(v) * stats.norm.pdf(a)
    assert (np.abs(out[4] - mean) < 1e-6 * (np.sqrt(v) + np.abs(x))).all()
    assert (np.abs(out[5] - (second - mean**2)) < 4e-6 * v).all()
    with jax.enable_x64(True):
        soft = jax.tree.map(np.asarray, soft_relu(*(jnp.asarray(a) for a in (x, v, softness))))
    assert (np.abs(out[6] - soft.m) < 1e-6 * (np.sqrt(v + softness) + np.abs(x))).all()
    assert (np.abs(out[7] - soft.v) < 5e-6 * v).all()
    np.testing.assert_allclose(out[6:, :199], out[4:6, :199], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("sizes", "n_out"), [(((50,), (20,)), 1), (((30, 7), (5, 3)), 3)], ids=str)
def test_outputs_are_those_of_every_member(monkeypatch: pytest.MonkeyPatch, sizes, n_out):
    rows = table(1000, 4, n_out)
    settings = nn.settings_for(
        100 * n_out, n_members=2, hidden_layer_sizes=sizes[0], noise_layer_sizes=sizes[1]
    )
    assert settings.is_direct == (n_out == 1)
    state = start_of(settings, 4, rows.y, step=5)
    found = engine.outputs(state, rows.x, n_threads=1)
    with jax.enable_x64(True):
        for k, member in enumerate(state.each_member()):
            wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), member)
            expected = member_output(wide, jnp.float64(rows.x), jnp.float64(state.log_floor))
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_allclose(ours[k], theirs, rtol=2e-5, atol=2e-5)
    monkeypatch.setattr(engine, "_ROWS_A_TASK", 100)
    for ours, threaded in zip(found, engine.outputs(state, rows.x, n_threads=3), strict=True):
        np.testing.assert_array_equal(ours, threaded)
    assert engine.outputs(state, rows.x[:0]).m.shape == (2, 0, n_out)
    assert engine.outputs(state, rows.x[:1]).m.shape == (2, 1, n_out)
