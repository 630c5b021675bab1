"""The compiled loops of the ensemble against jax.grad, optax and themselves."""

from __future__ import annotations

from threading import Event

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from ensemble_objective import Schedule, member_loss, member_output, soft_relu
from scipy import integrate, special, stats

from bayesprop import codec
from bayesprop.model.progress import SILENT, Progress
from bayesprop.numerics import float32_math
from bayesprop.numerics.activation_moments import relu
from bayesprop.numerics.compiled import compiled
from bayesprop.tabular_default import method as nn
from bayesprop.tabular_default import networks as ensemble_outputs
from bayesprop.tabular_default import training as engine
from bayesprop.tabular_default.kernel_layout import layout
from bayesprop.tabular_default.kernel_member import advance
from bayesprop.tabular_default.networks import (
    NOTHING,
    Layers,
    Member,
    Networks,
    flat,
    init_networks,
)
from bayesprop.tabular_default.settings import Priors
from bayesprop.tabular_default.training import Table

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


def start_of(settings: nn.EnsembleSettings, n_inputs: int, y: np.ndarray, seed: int):
    """Return an ensemble in the middle of its training."""
    rng = np.random.default_rng(seed)
    state, members = init_networks(3, n_inputs, y, settings), []
    for one in state.members:
        numbers = {
            name: getattr(one, name) + np.float32(rng.standard_normal(one.raw_dof.shape))
            for name in ("log_noise", "own_log_noise", "raw_dof")
        }
        widths = tuple(np.float32(rng.normal(-1.0, 0.7, w.shape)) for w in one.log_widths)
        networks = unsure(one.mean, rng), unsure(one.noise, rng)
        members.append(Member(*networks, **numbers, thresholds=NOTHING, log_widths=widths))
    return state._replace(members=tuple(members))


def table(n: int, d: int, n_out: int, *, weighted: bool = False) -> Table:
    rng = np.random.default_rng(n)
    weight = rng.uniform(0.2, 3.0, n) if weighted else None
    return Table.of(rng.standard_normal((n, d)), rng.standard_normal((n, n_out)), weight)


def schedule_at(step: int, rows: Table, settings: nn.EnsembleSettings) -> Schedule:
    """Say again, in other words, where training stands."""
    done = step / settings.n_steps
    ramp = np.interp(done, [0.0, settings.noise_warm_up], [0.5, settings.noise_shares[0]])
    kl_weight = np.interp(done, [0.0, settings.kl_warm_up], [0.0, 1.0])
    return Schedule(rows.n_total, kl_weight, ramp, settings.mean_least_dofs[0])


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
    (member,), losses = state.members, np.empty((1, 2), np.float32)
    batches = engine.Batches.of(n, batch_size)
    chosen = next(engine.row_orders(3, 0, n, batches, 1))
    plan = layout(member, priors)
    work, rules = (
        plan.work(flat(member), state.log_floor),
        engine.rules_of(settings, 0, rows.n_total),
    )
    advance(work, rules, *rows[:3], chosen, batches.size, step, losses)
    with jax.enable_x64():
        member = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), member)
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
    for got, want in zip(np.split(10.0 * work.slope[plan.leaves], ends[:-1]), leaves, strict=True):
        assert np.linalg.norm(got - want) <= 1e-5 * np.linalg.norm(want)
    np.testing.assert_allclose(losses[0], found, rtol=2e-6, atol=2e-6)


def test_steps_are_those_of_optax():
    settings = settings_of(hidden_layer_sizes=(4,), noise_layer_sizes=(3,), batch_size=16)
    rows, n_steps = table(40, 2, 1), 50
    start = init_networks(3, 2, rows.y, settings)
    batches = engine.Batches.of(40, settings.batch_size)
    orders = np.concatenate([*engine.row_orders(3, 0, 40, batches, n_steps)])
    plan = layout(start.members[0], settings.priors)
    work = plan.work(flat(start.members[0]), start.log_floor)
    rules, losses = engine.rules_of(settings, 0, rows.n_total), np.empty((n_steps, 2), np.float32)
    advance(work, rules, *rows[:3], orders, batches.size, 0, losses)
    member = jax.tree.map(jnp.asarray, start.members[0])
    cosine = optax.cosine_decay_schedule(settings.step_size, N_STEPS, alpha=0.01)
    rule, floor = optax.adam(cosine), jnp.asarray(start.log_floor)

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
    want = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(member)])
    np.testing.assert_allclose(work.theta[plan.leaves], want, rtol=1e-3, atol=1e-4)


def train_one(start, rows, settings, seed, progress=SILENT) -> tuple[Networks, np.ndarray]:
    """Train one expert; return it, and the losses of its networks."""
    (one,), losses = engine.train(
        [engine.Start(start, rows, settings)], seed=seed, progress=progress
    )
    return one, losses


def trained() -> Networks:
    settings = nn.settings_for(
        90, hidden_layer_sizes=(5, 4), noise_layer_sizes=(3,), n_members=3, n_steps=700
    )
    rows = table(90, 2, 2)
    return train_one(init_networks(5, 2, rows.y, settings), rows, settings, 5)[0]


def same(a: Networks, b: Networks) -> None:
    others = codec.write(b).arrays
    for name, value in codec.write(a).arrays.items():
        np.testing.assert_array_equal(value, others[name], err_msg=name)


def test_neither_looks_nor_threads_nor_progress_change_anything(monkeypatch: pytest.MonkeyPatch):
    whole = trained()
    for n in (1, 3):
        monkeypatch.setattr(engine, "n_cores", lambda n=n: n)
        same(whole, trained())
    monkeypatch.setattr(engine, "_STEPS_AT_A_TIME", 7)
    same(whole, trained())
    assert len({float(m.mean[0].w_m[0, 0]) for m in whole.members}) == 3


def test_progress_is_told_ten_times_a_member(capsys: pytest.CaptureFixture[str]):
    settings = settings_of(hidden_layer_sizes=(4,), noise_layer_sizes=(3,))
    rows, shown = table(40, 2, 1), []
    start = init_networks(3, 2, rows.y, settings)
    progress = Progress(1, show=lambda *at: shown.append(at))
    _, losses = train_one(start, rows, settings, 3, progress)
    assert shown == [(pytest.approx(0.1 * (i + 1)), "network 1 of 1") for i in range(10)]
    want = losses[0].reshape(10, 100, 2).mean(axis=1)
    lines = [line.split() for line in capsys.readouterr().err.splitlines()]
    assert [line[5] for line in lines] == [str(100 * (i + 1)) for i in range(10)]
    figures = [[float(line[place]) for place in (9, 11)] for line in lines]
    np.testing.assert_allclose(figures, want, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "values"), [("noise_shares", (0.2, 1.0)), ("mean_least_dofs", (30.0, 3.0))]
)
def test_members_take_settings_of_the_mean_in_turn(name, values):
    rows = table(50, 2, 1)

    def trained(*values: float) -> np.ndarray:
        settings = nn.settings_for(50, n_members=3, n_steps=40, **{name: values})
        after, _ = train_one(init_networks(5, 2, rows.y, settings), rows, settings, 5)
        return np.stack([one.mean[0].w_m for one in after.members])

    mixed, low, high = trained(*values), trained(values[0]), trained(values[1])
    np.testing.assert_array_equal(mixed, np.stack([low[0], high[1], low[2]]))
    assert not np.array_equal(low, high)


def test_an_epoch_takes_no_row_twice_and_members_differ(monkeypatch: pytest.MonkeyPatch):
    n, batches = 23, engine.Batches.of(23, 5)
    assert batches == (5, 4)
    monkeypatch.setattr(engine, "_ORDERED_AT_A_TIME", 3 * n)  # three epochs in a piece

    def orders(seed: int, member: int, n_steps: int) -> np.ndarray:
        return np.concatenate([*engine.row_orders(seed, member, n, batches, n_steps)])

    epochs = orders(1, 0, 40).reshape(8, 20)
    assert epochs.dtype == np.int32
    assert all(len(set(epoch)) == 20 for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 8
    assert set(epochs.ravel()) == set(range(n))
    np.testing.assert_array_equal(orders(1, 0, 22), epochs.reshape(40, 4)[:22].ravel())
    for other in (orders(1, 1, 40), orders(2, 0, 40)):
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

    monkeypatch.setattr(engine, "n_cores", lambda: 2)
    monkeypatch.setattr(engine, "OF_NUMBERS", engine.OF_NUMBERS._replace(advance=advance))
    monkeypatch.setattr(engine, "_STEPS_AT_A_TIME", 1)
    with pytest.raises(KeyboardInterrupt):
        trained()


def test_what_is_not_a_number_shows():
    settings = nn.settings_for(
        30, hidden_layer_sizes=(4,), noise_layer_sizes=(3,), n_members=1, n_steps=9
    )
    rows = table(30, 2, 1)
    rows.y[3] = np.nan
    start = init_networks(3, 2, table(30, 2, 1).y, settings)
    state, losses = train_one(start, rows, settings, 3)
    assert np.isnan(losses[0, -1]).all()
    assert np.isnan(state.members[0].mean[0].w_m).all()


def test_soft_relu_moments_are_integrals():
    """Of the form in which the compiled one is written, which is compared with it below."""
    rng = np.random.default_rng(0)
    m, v, softness = 2.0 * rng.standard_normal(400), *np.exp(1.5 * rng.standard_normal((2, 400)))
    mean, var = np.empty((2, 400))
    for k in range(400):
        std, width = np.sqrt(v[k]), np.sqrt(softness[k])
        z = np.linspace(-12.0, 12.0, 24_001)
        a = m[k] + std * z
        g = a * special.ndtr(a / width) + width * stats.norm.pdf(a / width)
        mean[k] = integrate.simpson(stats.norm.pdf(z) * g, x=z)
        var[k] = integrate.simpson(stats.norm.pdf(z) * (g - mean[k]) ** 2, x=z)
    with jax.enable_x64(True):
        arrays = [jnp.asarray(a) for a in (m, v, softness)]
        found = soft_relu(*arrays), soft_relu(*arrays[:2], 0.0 * arrays[1]), relu(*arrays[:2])
    got, sharp, hard = jax.tree.map(np.asarray, found)
    np.testing.assert_allclose(got.m, mean, rtol=1e-9, atol=1e-10)
    assert (got.v > var - 1e-8 * v).all()
    assert (got.v < var + 0.003 * v).all()
    share = v / (v + softness)  # of whose cube the factor is too large
    assert (got.v - var < 0.0113 * share**3 * (v + softness) + 1e-8 * v).all()
    for ours, theirs in zip(sharp, hard, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@compiled
def formulas(x, v, softness, out):
    """Every formula, a row each."""
    for k in range(x.size):
        a, b = x[k], v[k]
        out[0, k], out[1, k] = float32_math.exp(a), float32_math.log(b)
        out[2, k], out[3, k] = float32_math.log1p(b), float32_math.log_add_exp(a, b)
        sharp = float32_math.relu_moments(a, b)
        soft = float32_math.soft_relu_moments(a, b, softness[k])
        out[4, k], out[5, k], out[6, k], out[7, k] = sharp[0], sharp[1], soft[0], soft[1]


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
    state = start_of(settings, 4, rows.y, 5)
    monkeypatch.setattr(ensemble_outputs, "n_cores", lambda: 1)
    found = ensemble_outputs.outputs(state, rows.x)
    with jax.enable_x64(True):
        for k, member in enumerate(state.members):
            wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), member)
            expected = jax.jit(member_output)(
                wide, jnp.float64(rows.x), jnp.float64(state.log_floor)
            )
            for ours, theirs in zip(found[:5], expected[:5], strict=True):
                np.testing.assert_allclose(
                    ours[k], np.broadcast_to(theirs, ours[k].shape), rtol=2e-5, atol=2e-5
                )
    monkeypatch.setattr(ensemble_outputs, "_ROWS_A_TASK", 100)
    monkeypatch.setattr(ensemble_outputs, "n_cores", lambda: 3)
    for ours, threaded in zip(found, ensemble_outputs.outputs(state, rows.x), strict=True):
        np.testing.assert_allclose(ours, threaded, rtol=1e-5, atol=1e-6)
    assert ensemble_outputs.outputs(state, rows.x[:0]).m.shape == (2, 0, n_out)
    assert ensemble_outputs.outputs(state, rows.x[:1]).m.shape == (2, 1, n_out)
