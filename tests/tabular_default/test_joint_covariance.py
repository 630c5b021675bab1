"""The joint covariance of a mean network's weights against autodiff, inverses, copies of rows."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ensemble_objective import member_output, soft_relu, student_t_bound
from scipy import stats

from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import held_out as dev
from bayesprop.tabular_default import networks as engine
from bayesprop.tabular_default.experts import NumberState
from bayesprop.tabular_default.fit import fit
from bayesprop.tabular_default.method import settings_for
from bayesprop.tabular_default.networks import (
    NOTHING,
    GaussianLayer,
    Layers,
    Member,
    Networks,
    dead_units,
    init_networks,
    prior_variances,
)
from bayesprop.tabular_default.piecewise_linear import Ramps
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.training import Start, Table, train

# Hidden units, inputs, outputs, whether the last layer takes the inputs too.
CASES = [
    ((50,), 3, 1, False),
    ((3,), 1, 1, True),
    ((9, 6), 4, 1, False),
    ((5, 2, 7), 2, 3, True),
    ((8,), 2, 6, False),
]


def settings_of(case, **given) -> EnsembleSettings:
    hidden, _, _, is_direct = case
    chosen = {"hidden_layer_sizes": hidden, "noise_layer_sizes": (4,), "is_direct": is_direct}
    return settings_for(1000, **(chosen | {"n_members": 2, "n_steps": 50} | given))


def alone(networks: Networks) -> NumberState:
    """Return a state of one expert."""
    d, o = networks.n_inputs, networks.n_outputs
    ramps = Ramps(np.ones(d), np.zeros(0), np.zeros(d, int), np.zeros(0))
    return NumberState((networks,), np.ones((1, o)), ramps, (None,) * o, 0, np.zeros((2, o)))


def unsure(layers: Layers, rng: np.random.Generator) -> Layers:
    return tuple(
        GaussianLayer(
            *(
                np.float32(rng.normal(-1.5 if "std" in name else 0.0, 0.5, np.shape(part)))
                for name, part in layer._asdict().items()
            )
        )
        for layer in layers
    )


def ensemble(case, settings: EnsembleSettings, n: int) -> tuple[Networks, Table]:
    """Return an ensemble with doubt in every weight, and rows."""
    _, d, n_out, _ = case
    rng = np.random.default_rng(n)
    rows = Table.of(
        rng.standard_normal((n, d)), rng.standard_normal((n, n_out)), rng.uniform(0.2, 3.0, n)
    )
    state, members = init_networks(3, d, rows.y, settings), []
    for one in state.members:
        widths = tuple(np.float32(rng.normal(-1.0, 0.7, w.shape)) for w in one.log_widths)
        numbers = (np.float32(rng.standard_normal(n_out)) for _ in range(3))
        networks = unsure(one.mean, rng), unsure(one.noise, rng)
        members.append(Member(*networks, *numbers, NOTHING, widths))
    return state._replace(members=tuple(members)), rows


def expected(weights, member: Member, x: jax.Array) -> jax.Array:
    """Expected outputs as a function of the means of weights, variances held where they are."""
    z, v = x, jnp.zeros_like(x)
    for depth, (layer, (w, b)) in enumerate(zip(member.mean, weights, strict=True)):
        if len(w) > len(z):
            z, v = jnp.concatenate([z, x]), jnp.concatenate([v, jnp.zeros_like(x)])
        fixed = jax.lax.stop_gradient(z)
        v = (fixed**2 + v) @ jnp.exp(2.0 * layer.w_log_std) + v @ layer.w_m**2
        v = v + jnp.exp(2.0 * layer.b_log_std)
        z = z @ w + b
        if depth < len(weights) - 1:
            width = jnp.exp(2.0 * member.log_widths[depth])
            moments = soft_relu(z[None], v[None], width[None])
            z, v = moments.m[0], jax.lax.stop_gradient(moments.v[0])
    return z


@pytest.mark.parametrize("case", CASES, ids=str)
def test_slopes_are_those_of_autodiff_and_deviations_move_along_them(case):
    settings = settings_of(case)
    state, rows = ensemble(case, settings, 37)
    state = dev.hold_out(state, rows.distinct, settings, 3)[0]
    assert state.factors.shape == (2, min(24, state.n_mean_weights), state.n_mean_weights)
    out = engine.outputs(state, rows.x)
    slope = jax.jit(jax.vmap(jax.jacrev(expected), (None, None, 0)))
    outputs = jax.jit(member_output)
    for k, member in enumerate(state.members):
        at_rows = member.mean, rows.x, *engine.activations(state, rows.x, k)
        found, variances = dev.slopes(*at_rows), prior_variances(member.mean, 1.0)
        with jax.enable_x64(True):
            wide = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), member)
            weights = [(layer.w_m, layer.b_m) for layer in wide.mean]
            parts = jax.tree.leaves(slope(weights, wide, jnp.float64(rows.x)))
            want = np.concatenate([np.reshape(p, (*p.shape[:2], -1)) for p in parts], axis=2)
            m = outputs(wide, jnp.float64(rows.x), jnp.float64(state.log_floor)).m
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
        prior_var = np.concatenate([np.ravel(part) for layer in variances for part in layer])
        j = found.reshape(-1, len(prior_var))
        covariance = (j * prior_var) @ j.T
        found_covariance = dev.prior_covariance(*at_rows, variances)
        np.testing.assert_allclose(found_covariance, covariance, rtol=1e-11, atol=1e-11)
        moves = engine.moves(state, rows.x, k)
        np.testing.assert_allclose(
            moves, np.einsum("nop,sp->nso", found, state.factors[k]), rtol=1e-3, atol=1e-5
        )
        np.testing.assert_allclose(out.v[k], np.sum(np.float64(moves) ** 2, axis=1), rtol=1e-5)
        np.testing.assert_allclose(out.m[k], m, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("n", "p"), [(40, 7), (5, 30)])
def test_deviations_add_up_to_the_covariance(n: int, p: int):
    rng = np.random.default_rng(n)
    j, r, prior_var = rng.standard_normal((n, p)), rng.gamma(2.0, size=n), rng.gamma(2.0, size=p)
    r[2] = 1e-25
    want = np.linalg.inv(np.diag(1.0 / prior_var) + j.T @ np.diag(r) @ j)

    def factors(number: int) -> tuple[np.ndarray, np.ndarray]:
        return dev.covariance_factors(
            rng, j.copy(), r, prior_var, number, lambda: (j * prior_var) @ j.T
        )

    whole, leverages = factors(n + p)
    np.testing.assert_allclose(whole.T @ whole, want, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(leverages, r * np.einsum("np,pq,nq->n", j, want, j), rtol=1e-9)
    few = np.array([factors(4)[0] for _ in range(3000)])
    products = np.einsum("tsi,tsj->tij", few, few)
    error = products.std(axis=0) / np.sqrt(len(few))
    assert few.shape[1:] == (4, p)
    assert (np.abs(products.mean(axis=0) - want) < 5.0 * error).all()


@pytest.mark.parametrize("k", [0, 1])
def test_a_row_counts_as_much_as_the_bound_bends(k: int):
    case = CASES[3]
    settings = settings_of(case, noise_shares=(0.5, 1.0), mean_least_dofs=(30.0, 3.0))
    state, rows = ensemble(case, settings, 20)
    said = engine.outputs(state, rows.x)
    with jax.enable_x64(True):
        member = jax.tree.map(jnp.float64, state.members[k])
        floor = jnp.float64(state.log_floor)
        share, least = settings.noise_shares[k], settings.mean_least_dofs[k]
        noise = jax.jit(member_output)(
            member._replace(log_noise=jnp.zeros(3)), jnp.float64(rows.x), floor - 99
        )
        own = member.own_log_noise[None] + share * noise.l_m
        seen = jnp.logaddexp(own, floor[None])
        dof = jnp.maximum(noise.dof, least)
        square = jnp.asarray((said.m[k] - rows.y) ** 2 + said.v[k])
        slope = jax.jit(
            jax.grad(lambda s: student_t_bound(s, seen, share**2 * noise.l_v, dof).sum())
        )
        want = -2.0 * slope(square)
    np.testing.assert_allclose(
        dev.row_precisions(state, settings, said, rows.y, k), want, rtol=1e-4
    )


def variances(state, rows: Table, settings, x: np.ndarray) -> np.ndarray:
    return engine.outputs(dev.hold_out(state, rows.distinct, settings, 3)[0], x).v


def test_variances_are_those_of_the_inverse_and_weights_count_as_copies(monkeypatch):
    monkeypatch.setattr(dev, "N_FACTORS", 10**4)  # all there are
    case = CASES[2]
    settings = settings_of(case)
    state, rows = ensemble(case, settings, 200)
    times = np.random.default_rng(0).integers(1, 4, 200)
    once = Table.of(rows.x, rows.y, times.astype(float))
    copies = Table.of(np.repeat(rows.x, times, 0), np.repeat(rows.y, times, 0), None)
    x = np.random.default_rng(1).normal(0.0, 2.0, (10, 4)).astype(np.float32)
    found = variances(state, once, settings, x)
    np.testing.assert_allclose(found, variances(state, copies, settings, x), rtol=1e-3)
    said = engine.outputs(state, rows.x)
    for k, member in enumerate(state.members):
        j = dev.slopes(member.mean, rows.x, *engine.activations(state, rows.x, k))[:, 0]
        r = times * dev.row_precisions(state, settings, said, rows.y, k)[:, 0]
        each = prior_variances(member.mean, settings.priors.mean)
        prior_var = np.concatenate([np.ravel(part) for pair in each for part in pair])
        covariance = np.linalg.inv(np.diag(1.0 / prior_var) + j.T @ np.diag(r) @ j)
        new = dev.slopes(member.mean, x, *engine.activations(state, x, k))[:, 0]
        want = np.einsum("ni,ij,nj->n", new, covariance, new)
        np.testing.assert_allclose(found[k, :, 0], want, rtol=2e-3)


def test_some_rows_of_a_long_table_count_for_all(monkeypatch):
    monkeypatch.setattr(dev, "N_FACTORS", 10**4)
    case = CASES[1]
    settings = settings_of(case)
    state, rows = ensemble(case, settings, 4000)
    whole = variances(state, rows, settings, rows.x[:100])
    monkeypatch.setattr(dev, "ENOUGH_ROWS", 1000)
    monkeypatch.setattr(dev, "_MOST_PRODUCTS", 0)
    some = variances(state, rows, settings, rows.x[:100])
    np.testing.assert_allclose(np.median(some / whole), 1.0, atol=0.15)


def test_networks_that_are_too_large_keep_independent_weights(monkeypatch):
    settings = settings_of(CASES[0])
    state, rows = ensemble(CASES[0], settings, 30)
    monkeypatch.setattr(dev, "MOST_WEIGHTS", state.n_mean_weights - 1)
    assert dev.hold_out(state, rows.distinct, settings, 3)[0].factors.size == 0
    monkeypatch.undo()
    monkeypatch.setattr(dev, "ENOUGH_ROWS", 20)
    monkeypatch.setattr(dev, "_MOST_NUMBERS", 20 * state.n_mean_weights - 1)
    assert dev.hold_out(state, rows.distinct, settings, 3)[0].factors.size == 0  # 19 rows of 30
    draws = alone(state).draw(np.random.default_rng(0), rows.x[:3], 4000)
    said = alone(state).predict(rows.x[:3])
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - said.mean) < 5.0 * error).all()


def test_rows_that_do_not_count_are_not_looked_at(monkeypatch):
    settings = settings_of(CASES[1])
    state, rows = ensemble(CASES[1], settings, 50)
    rows.weight[2:] = 0.0
    monkeypatch.setattr(dev, "ENOUGH_ROWS", 2)
    monkeypatch.setattr(dev, "_MOST_PRODUCTS", 0)
    two = rows._replace(x=rows.x[:2], y=rows.y[:2], weight=rows.weight[:2])
    found, want = (dev.hold_out(state, r.distinct, settings, 3)[0] for r in (rows, two))
    np.testing.assert_allclose(found.factors, want.factors, rtol=1e-5, atol=1e-7)


def test_enormous_weights_leave_numbers():
    settings = settings_of(CASES[2])
    state, rows = ensemble(CASES[2], settings, 400)
    rows.x[:] = rows.x[:20].repeat(20, axis=0)  # few different rows: the matrix is singular
    heavy = dev.hold_out(state, rows._replace(n_total=1e18).distinct, settings, 3)[0]
    assert heavy.factors.size
    assert np.isfinite(engine.outputs(heavy, rows.x).v).all()


@pytest.fixture(scope="module")
def wave() -> tuple[np.ndarray, np.ndarray, EnsembleSettings]:
    """Rows of a sine with a gap between -.7 and .7, and the end of the rows at 2."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-2.0, -0.7, 80), rng.uniform(0.7, 2.0, 80)])[:, None]
    y = np.sin(2.0 * x) + 0.1 * rng.standard_normal(x.shape)
    return x, y, settings_for(len(x), n_steps=6000, n_members=3)


@pytest.fixture(scope="module")
def with_a_gap(wave) -> Networks:
    x, y, settings = wave
    return fit(1, Rows(x, y), replace(settings, learns_processes=False))[0].networks


@pytest.fixture(scope="module")
def trained(wave) -> Networks:
    """Return the same before its weights know of each other."""
    x, y, settings = wave
    start, rows = init_networks(1, 1, y, settings), Table.of(x, y)
    return train([Start(start, rows, settings)], seed=1)[0][0]


def test_doubt_grows_where_there_are_no_rows(with_a_gap, trained):
    among, between = np.linspace(-1.7, -1.0, 9)[:, None], np.linspace(-0.3, 0.3, 9)[:, None]
    of_rows, of_gap = (engine.outputs(with_a_gap, x).v.mean() for x in (among, between))
    assert of_gap > 4.0 * of_rows
    assert of_gap > 2.0 * engine.outputs(trained, between).v.mean()
    beyond = np.array([[4.0], [-4.0]])
    of_both = [engine.outputs(one, beyond).v.mean() for one in (with_a_gap, trained)]
    assert of_both[0] > 1.4 * of_both[1]


def test_units_that_sleep_are_woken_where_no_row_lies(with_a_gap, trained):
    """Each gets its prior's kink, and the means stay."""
    x = np.linspace(-6.0, 6.0, 50)[:, None]
    awake, asleep = engine.outputs(with_a_gap, x), engine.outputs(trained, x)
    np.testing.assert_allclose(awake.m, asleep.m, atol=0.05)
    spread = EnsembleSettings().priors.mean
    for k, (before, after) in enumerate(zip(trained.members, with_a_gap.members, strict=True)):
        sleeps = np.array(dead_units(before.mean, spread))
        assert 5 < sleeps.sum() < 50
        first, last = after.mean
        assert (last.w_m[sleeps] == 0.0).all()
        np.testing.assert_array_equal(last.w_m[~sleeps], before.mean[1].w_m[~sleeps])
        np.testing.assert_array_equal(first.w_m[:, ~sleeps], before.mean[0].w_m[:, ~sleeps])
        assert set(after.log_widths[0][sleeps]) <= set(before.log_widths[0][~sleeps])
        (w_var, b_var), _ = prior_variances(before.mean, spread)
        for drawn, var in ((first.w_m[0], w_var[0]), (first.b_m, b_var)):
            z = drawn[sleeps] / np.sqrt(var[sleeps])
            assert stats.kstest(z, "norm").pvalue > 1e-3, k
    again = dev.reinitialise_dead_units(1, 0, trained.members[0], spread)
    np.testing.assert_array_equal(again.mean[0].w_m, with_a_gap.members[0].mean[0].w_m)


def test_drawn_functions_vary_together_as_they_are_said_to(with_a_gap):
    x = np.array([[-1.5], [-0.2], [0.1], [1.2]])
    rng = np.random.default_rng(2)
    draws = alone(with_a_gap).draw(rng, x, 20_000)[:, :, 0]
    some = [alone(with_a_gap).draw(rng, x, 10)[:, :, 0] for _ in range(400)]
    moves = [np.float64(engine.moves(with_a_gap, x, k)[:, :, 0]) for k in range(3)]
    means = engine.outputs(with_a_gap, x).m[:, :, 0]
    want = np.mean([m @ m.T for m in moves], axis=0) + np.cov(means.T, bias=True)
    for drawn in (draws, np.concatenate(some)):  # many at once, and a few at a time
        away = drawn - means.mean(axis=0)
        products = away[:, :, None] * away[:, None, :]
        error = products.std(axis=0) / np.sqrt(len(drawn))
        assert (np.abs(products.mean(axis=0) - want) < 5.0 * error).all()
