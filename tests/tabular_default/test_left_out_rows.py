"""Rows left out against removed rows; what is left is learnt, where it is more than noise."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import integrate, stats
from test_joint_covariance import CASES, ensemble, settings_of

from bayesprop import codec, metrics
from bayesprop.distributions.mixture import BROAD_SHARE
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import fit as recipe
from bayesprop.tabular_default import held_out as dev
from bayesprop.tabular_default import networks as engine
from bayesprop.tabular_default import piecewise_linear
from bayesprop.tabular_default import stack as stacking
from bayesprop.tabular_default.experts import NumberState, Processes
from bayesprop.tabular_default.gaussian_process import Limits
from bayesprop.tabular_default.method import settings_for
from bayesprop.tabular_default.networks import Networks, init_networks, prior_variances
from bayesprop.tabular_default.residual_process import ResidualProcess
from bayesprop.tabular_default.stack import Components, scale_noise
from bayesprop.tabular_default.training import Start, Table, train


def linearised(trained: Networks, state: Networks, rows: Table, settings, k: int):
    """Slopes of a member's outputs by its weights, precisions of rows, and of weights a priori."""
    said = engine.outputs(trained, rows.x)
    weight = np.repeat(rows.weight * rows.n_total / rows.weight.sum(), rows.y.shape[1])
    r = weight * dev.row_precisions(state, settings, said, rows.y, k).ravel()
    j = dev.slopes(state.members[k].mean, rows.x, *engine.activations(state, rows.x, k))
    variances = prior_variances(trained.members[k].mean, settings.priors.mean)
    precision = np.diag(1.0 / np.concatenate([np.ravel(a) for v in variances for a in v]))
    return j.reshape(len(r), -1), r, precision


@pytest.mark.parametrize("n", [12, 200])  # fewer rows than weights, and more
def test_rows_left_out_are_rows_taken_away_and_a_newton_step(n: int):
    case = CASES[3]
    settings = settings_of(case)
    trained, rows = ensemble(case, settings, n)
    state, left_out = dev.hold_out(trained, rows.distinct, settings, 3)
    assert left_out is not None
    np.testing.assert_array_equal(left_out.rows, np.arange(n))
    said = engine.outputs(trained, rows.x)
    for k in range(state.n_members):
        j, r, precision = linearised(trained, state, rows, settings, k)
        error = (rows.y - said.m[k]).ravel()
        for i in (0, 4, 3 * n - 1):
            rest = np.arange(3 * n) != i
            s = np.linalg.inv(precision + j[rest].T @ (r[rest, None] * j[rest]))
            step = -s @ j[i] * r[i] * error[i]
            m, v = left_out.components.m[k].ravel()[i], left_out.components.v[k].ravel()[i]
            np.testing.assert_allclose(m, said.m[k].ravel()[i] + j[i] @ step, rtol=1e-5, atol=1e-7)
            np.testing.assert_allclose(v, j[i] @ s @ j[i], rtol=1e-5)


def test_rows_of_the_same_inputs_become_one():
    rng = np.random.default_rng(0)
    x = rng.integers(-1, 2, (60, 2)) * 1.0
    x[::7] *= -1.0  # and with them some zeros
    y, weight = rng.standard_normal((60, 2)), rng.integers(0, 3, 60) * 0.5
    rows = Table.of(x, y, weight)
    distinct, _, gone, *_ = rows.distinct
    different = list(dict.fromkeys(map(tuple, x)))
    np.testing.assert_array_equal(distinct.x, different)
    for i, row in enumerate(different):
        same = (x == row).all(axis=1)
        np.testing.assert_array_equal(np.flatnonzero(gone == i), np.flatnonzero(same))
        assert distinct.weight[i] == pytest.approx(weight[same].sum() / weight.mean(), rel=1e-6)
        want = np.average(y[same], axis=0, weights=weight[same])
        np.testing.assert_allclose(distinct.y[i], want, rtol=1e-5, atol=1e-6)
    lone = Table.of(rng.standard_normal((9, 2)), y[:9])
    for part, same in zip(lone[:3], lone.distinct.once[:3], strict=True):
        np.testing.assert_array_equal(part, same)


def test_rows_of_the_same_inputs_are_left_out_together():
    case, n = CASES[2], 60
    settings = settings_of(case)
    trained, rows = ensemble(case, settings, n)
    rows.x[20:50] = np.tile(rows.x[:15], (2, 1))
    state, left_out = dev.hold_out(trained, rows.distinct, settings, 3)
    assert left_out is not None
    assert len(left_out.rows) == 30
    said = engine.outputs(trained, rows.x)
    for k in range(state.n_members):
        j, r, precision = linearised(trained, state, rows, settings, k)
        error = (rows.y - said.m[k])[:, 0]
        for i, first in ((0, 0), (7, 7), (17, 17), (25, 55)):
            same = (rows.x == rows.x[first]).all(axis=1)
            s = np.linalg.inv(precision + j[~same].T @ (r[~same, None] * j[~same]))
            step = -s @ j[same].T @ (r * error)[same]
            want = said.m[k, first, 0] + j[first] @ step, j[first] @ s @ j[first]
            found = left_out.components.m[k, i, 0], left_out.components.v[k, i, 0]
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-7)


def test_a_group_is_judged_by_the_member_that_was_trained_without_it():
    case, n = CASES[2], 60
    settings = settings_of(case)
    trained, rows = ensemble(case, settings, n)
    fold = np.random.default_rng(3).integers(trained.n_members, size=n)
    grouped = rows._replace(group=np.arange(n), fold=fold)
    state, left_out = dev.hold_out(trained, grouped.distinct, settings, 3)
    assert left_out is not None
    said, components = engine.outputs(trained, rows.x), left_out.components
    for k in range(state.n_members):
        out = fold == k
        np.testing.assert_allclose(components.m[0, out], said.m[k, out], rtol=1e-7, atol=1e-9)
        np.testing.assert_array_equal(components.l_m[0, out], said.l_m[k, out])
        j, r, precision = linearised(trained, state, rows, settings, k)
        s = np.linalg.inv(precision + j[~out].T @ (r[~out, None] * j[~out]))
        want = np.einsum("np,pq,nq->n", j[out], s, j[out])
        np.testing.assert_allclose(components.v[0, out, 0], want, rtol=1e-5)


def test_scores_of_groups_have_the_mean_of_the_measurements():
    rng = np.random.default_rng(4)
    at, weight, group = rng.integers(20, size=50), rng.uniform(0.5, 2.0, 50), np.arange(20) // 3
    y = rng.standard_normal(50)
    scores = stacking.scores(measured(y, group[at], weight), y)
    assert len(scores) == 7
    np.testing.assert_allclose(scores.mean(), np.average(y, weights=weight))
    third = group[at] == 2
    expected = 7.0 * (weight * y)[third].sum() / weight.sum()
    np.testing.assert_allclose(scores[2], expected)


def test_noise_of_groups_goes_where_they_want_it_however_few_they_are():
    at = np.arange(200)
    y = 0.8 * np.random.default_rng(5).standard_normal(200)
    alone, together = (
        stacking.noise_factor(output(200, 0.0), measured(y, group), n_errors)[0]
        for group, n_errors in ((at, 1.0), (at // 40, 0.0))
    )
    every = [output(200, 0.0).predictive(0.25 * step).log_prob(y).mean() for step in range(-16, 17)]
    assert together == 0.25 * (int(np.argmax(every)) - 16)
    assert abs(alone) <= abs(together)


def test_inputs_that_the_networks_interpolate_judge_nothing():
    rng = np.random.default_rng(5)
    inputs, own = rng.standard_normal((60, 6)), 0.5 * rng.standard_normal(60)
    x = np.float32(np.repeat(inputs, 6, axis=0))
    y = np.repeat(inputs[:, 0] + own, 6)[:, None] + 0.2 * rng.standard_normal((360, 1))
    settings = settings_for(360, n_members=2, n_steps=3000)
    state, _ = recipe.fit(0, Rows(x, y), settings)
    assert state.networks.log_noise_factor[0] == 0.0
    assert state.networks.residuals == (None,)
    assert len(state.experts) == 1


def test_weights_in_another_unit_judge_the_same():
    rng = np.random.default_rng(8)
    y, at = 0.3 * rng.standard_normal(300), rng.integers(0, 200, 300)
    weight = rng.uniform(0.5, 2.0, 300)
    there = output(200, 0.0).at(at)
    ratio, found = stacking.noise_factor(there, measured(y, at, weight))
    want = np.average(there.predictive(ratio).log_prob(y), weights=weight)
    assert found.mean() == pytest.approx(want, rel=1e-12)
    for unit in (1e-12, 1e300):
        again, scores = stacking.noise_factor(there, measured(y, at, unit * weight))
        assert again == ratio
        np.testing.assert_allclose(scores, found, rtol=1e-9)


def test_a_row_of_endless_noise_is_left_out_without_a_warning():
    case, n = CASES[2], 40
    settings = settings_of(case)
    state, rows = ensemble(case, settings, n)
    rows.x[3] = 1e6
    left_out = dev.hold_out(state, rows.distinct, settings, 3)[1]
    assert left_out is not None
    assert np.isfinite(left_out.components.m).all()
    assert np.isfinite(left_out.components.v).all()


def test_of_many_rows_some_stand_for_all_and_one_is_left_out(monkeypatch):
    case = CASES[2]
    settings = settings_of(case)
    state, rows = ensemble(case, settings, 240)
    whole = dev.hold_out(state, rows.distinct, settings, 3)[1]
    monkeypatch.setattr(dev, "ENOUGH_ROWS", 120)
    monkeypatch.setattr(dev, "_MOST_PRODUCTS", 1)
    half = dev.hold_out(state, rows.distinct, settings, 3)[1]
    assert whole is not None
    assert half is not None
    assert len(half.rows) == 120
    moved = whole.components.m[:, half.rows] - engine.outputs(state, rows.x[half.rows]).m
    about = half.components.m - engine.outputs(state, rows.x[half.rows]).m
    slope = np.sum(about * moved) / np.sum(moved**2)  # twice that if two rows were left out
    assert 0.8 < slope < 1.25


def test_noise_above_the_floor_is_multiplied():
    log_noise, floor = np.array([-3.0, 0.5, 2.0]), np.array([-3.0, -1.0, -40.0])
    for ratio in (-4.0, 0.0, 1.0):
        above = np.exp(ratio) * (np.exp(log_noise) - np.exp(floor))
        want = np.log(np.exp(floor) + above)
        np.testing.assert_allclose(scale_noise(log_noise, ratio, floor), want, rtol=1e-12)
    np.testing.assert_allclose(scale_noise(log_noise, 0.0, floor), log_noise, rtol=1e-14)


def output(n: int, log_noise: float, mean: np.ndarray | float = 0.0) -> Components:
    """Three members that agree, of nearly Gaussian noise."""
    zeros = np.zeros((3, n))
    moments = zeros + mean, zeros + 1e-4, zeros + log_noise, zeros + 1e-6
    return Components.of(*moments, dof=100.0, share=1 / 3, floor=-14.0)


def measured(
    y: np.ndarray, group: np.ndarray | None = None, weight: np.ndarray | None = None
) -> Rows:
    """Return measurements that are left out by groups; None: each alone."""
    n = len(y)
    return Rows(
        np.zeros((n, 1)),
        y,
        np.ones(n) if weight is None else weight,
        np.arange(n) if group is None else group,
    )


@pytest.mark.parametrize(("true", "least", "most"), [(1.0, 0.0, 0.0), (0.3, -2.5, -1.0)])
def test_noise_moves_only_as_far_as_rows_tell(true: float, least: float, most: float):
    rng = np.random.default_rng(0)
    y = true * rng.standard_normal(300)
    log_ratio, scores = stacking.noise_factor(output(300, 0.0), measured(y))
    assert least <= log_ratio <= most
    again = output(300, 0.0).predictive(log_ratio).log_prob(y)
    np.testing.assert_allclose(scores, again, rtol=1e-12)


def test_a_factor_that_is_log_normal_gives_noise_its_tails():
    rng, n = np.random.default_rng(0), 1500
    z, g = rng.standard_normal((2, n))
    assert stacking.tail(output(n, 0.0), measured(z)) == (0.0, 0.0)
    y = np.exp(0.5 * (np.sqrt(2.0) * g - 0.5)) * z
    log_factor, log_var = stacking.tail(output(n, 0.0), measured(y))
    assert abs(log_factor + 0.5) < 0.6
    assert log_var in (1.0, 2.0)
    wide = output(n, 0.0).with_noise(-0.5, 2.0).predictive()
    at, log_noise = np.array([0.0, 0.3, 4.0]), np.linspace(-12.0, 11.0, 4001)
    t = stats.t.pdf(at[:, None] * np.exp(-0.5 * log_noise), 100.0) * np.exp(-0.5 * log_noise)
    want = integrate.trapezoid(t * stats.norm.pdf(log_noise, -0.5, np.sqrt(2.0)), log_noise)
    got = np.exp([wide[0].log_prob(one) for one in at]) - BROAD_SHARE * stats.norm.pdf(at)
    np.testing.assert_allclose(got / (1.0 - BROAD_SHARE), want, rtol=1e-2)


LIMITS = Limits(-20.0, 1000)


def choice(members: Components, x: np.ndarray, y: np.ndarray, limits: Limits | None = LIMITS):
    """Let rows choose none of which lies too far away."""
    known, n, rng = Rows(x, y, np.ones(len(y))), len(y), np.random.default_rng(1)
    around = Rows(np.float32(x), y, np.ones(n))
    learn = partial(ResidualProcess.fit, rng, around, members.predictive(), n)
    return recipe._choice(
        rng, members, np.arange(n), measured(y), known, known.y < np.inf, limits, learn
    )


@pytest.mark.exhaustive
def test_neighbours_are_asked_only_where_rows_speak_for_it():
    rng = np.random.default_rng(1)
    x, noise = rng.uniform(-3.0, 3.0, (350, 2)), 0.3 * rng.standard_normal(350)
    known = 3.0 * rng.standard_normal(350)  # to the members alone
    one = output(350, 2.0 * np.log(0.6), known)
    of_noise = choice(one, x, known + noise)
    assert of_noise.residual is of_noise.process is None
    assert -2.0 <= of_noise.log_factor < 0.0
    wave = known + 0.5 * np.sin(3.0 * x[:, 0]) + noise
    found = choice(one, x, wave)
    assert found.residual is not None
    assert found.process is None
    left, (_, local) = wave - known, found.residual
    assert np.mean((left - np.sqrt(0.6) * local.m) ** 2) < 0.6 * np.mean(left**2)
    assert choice(one, x, wave, None)[1:] == (None, None, 0.0)


def test_a_process_on_targets_stays_only_where_rows_speak_for_it():
    rng = np.random.default_rng(2)
    x, n = rng.uniform(-3.0, 3.0, (400, 2)), 400
    y = np.sin(x[:, 0]) * x[:, 1]
    line = x @ np.linalg.lstsq(x, y)[0]
    found = choice(output(n, 2.0 * np.log(np.std(y - line)), line), x, y)
    assert found.process is not None
    assert found.residual is None  # nothing is left to do
    assert found.weight > 0.95
    known = rng.standard_normal(n)  # to the members alone
    better = output(n, 2.0 * np.log(0.3), known)
    assert choice(better, x, known + 0.3 * rng.standard_normal(n))[1:] == (None, None, 0.0)


def test_a_process_stays_where_few_rows_cannot_tell_whether_it_gains():
    rng = np.random.default_rng(3)
    for _ in range(8):
        x, y = rng.uniform(-3.0, 3.0, (12, 2)), rng.standard_normal(12)
        assert choice(output(12, 0.0), x, y).weight > 1 / 14  # the pull alone
    right = output(12, 2.0 * np.log(1e-2), y)  # of noise a hundredth of the process's
    assert choice(right, x, y).weight < 1 / 13


def test_components_are_mixed_by_their_shares():
    rng = np.random.default_rng(3)
    m, v = rng.standard_normal((3, 5, 2)), rng.uniform(0.5, 1.0, (3, 5, 2))
    noisy = Components.of(m, v, -1.0, dof=50.0, share=1 / 3, floor=-9.0)
    new, log_noise, share = m[0] + 1.0, np.array([-2.0, 0.0]), np.array([0.7, 0.0])
    other = Components.of(new[None], v[:1], log_noise)
    mixed = Components.mixed([noisy, other], [1.0 - share, share]).predictive()
    alone = noisy.predictive()
    np.testing.assert_allclose(mixed.mean[:, 1], alone.mean[:, 1], rtol=1e-12)
    np.testing.assert_allclose(mixed.mean[:, 0], 0.3 * alone.mean[:, 0] + 0.7 * new[:, 0])
    noise = 0.3 * alone.noise_var[:, 0] + 0.7 * np.exp(-2.0)
    np.testing.assert_allclose(mixed.noise_var[:, 0], noise, rtol=1e-5)
    y = rng.standard_normal((5, 2))
    densities = (
        np.exp(alone.log_prob(y)[:, 0]) - BROAD_SHARE * stats.norm.pdf(y[:, 0]),
        stats.norm.pdf(y[:, 0], new[:, 0], np.sqrt(v[0, :, 0] + np.exp(-2.0))),
    )
    expected = 0.3 * densities[0] + (1.0 - BROAD_SHARE) * 0.7 * densities[1]
    expected += BROAD_SHARE * stats.norm.pdf(y[:, 0])
    np.testing.assert_allclose(np.exp(mixed.log_prob(y)[:, 0]), expected, rtol=1e-4)
    np.testing.assert_allclose(mixed.log_prob(y)[:, 1], alone.log_prob(y)[:, 1], rtol=1e-12)
    draws = mixed.sample(np.random.default_rng(4), 40_000)
    error = np.sqrt((mixed.epistemic_var + mixed.noise_var) / 40_000)
    assert (np.abs(draws.mean(axis=0) - mixed.mean) < 5.0 * error + 1e-3).all()


@pytest.fixture(scope="module")
def ripple() -> tuple[np.ndarray, np.ndarray]:
    """A ripple on a slope, and beside it noise alone: more kinks than four units have."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-2.0, 2.0, (400, 2))
    y = np.stack([x[:, 0] + np.sin(5.0 * x[:, 1]), np.zeros(400)], axis=1)
    y += 0.2 * rng.standard_normal(y.shape)
    return np.float32(x), np.float32(y / y.std(axis=0))


def fit(x: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None, **given):
    sizes = {"hidden_layer_sizes": (4,), "noise_layer_sizes": (4,), "n_members": 2}
    chosen = {"n_steps": 600} | given
    settings = settings_for(len(x), **sizes, **chosen)
    return recipe.fit(0, Rows(x, y, weight), settings)[0]


@pytest.mark.exhaustive
def test_what_small_networks_cannot_learn_is_learnt_and_kept(ripple, monkeypatch):
    # Alone: weights of networks with ramps are those of all outputs together.
    monkeypatch.setattr(piecewise_linear, "has_ramps", lambda *_size: False)
    x, y = ripple
    state = fit(x[:300], y[:300])
    without = fit(x[:300], y[:300], learns_processes=False)
    assert state.weights[1, 0] > 0.5
    assert state.networks.residuals[1] is None
    assert without.networks.residuals == (None, None)
    assert len(without.experts) == 1
    better, worse = (one.predict(x[300:]) for one in (state, without))
    error, before = (np.mean((one.mean - y[300:]) ** 2, axis=0) for one in (better, worse))
    assert error[0] < 0.5 * before[0]
    np.testing.assert_allclose(error[1], before[1], rtol=0.02)
    score, past = (one.log_prob(y[300:])[:, 0] for one in (better, worse))
    assert np.mean(score - past) > 5.0 * np.std(score - past) / 10.0
    inside = metrics.coverage(better, y[300:], 0.9)
    assert abs(inside - 0.9) < 5.0 * np.sqrt(0.09 / 200)

    again = codec.read(NumberState, codec.write(state, NumberState))
    for weights in (2.0 * state.weights, -state.weights, state.weights[:1]):
        forged = codec.write(state._replace(weights=weights), NumberState)
        with pytest.raises(ValueError, match="weights must be"):
            codec.read(NumberState, forged)
    np.testing.assert_array_equal(again.predict(x).mean, state.predict(x).mean)

    wide = state._replace(tail=np.array([[-0.5], [2.0]]))
    drawn = wide.draw(np.random.default_rng(4), x[300:310], 4000, include_noise=True)
    below = np.mean(drawn < wide.predict(x[300:310]).quantile(0.9), axis=0)
    assert (np.abs(below - 0.9) < 5.0 * np.sqrt(0.09 / 4000)).all()

    drawn = state.draw(np.random.default_rng(3), x[300:310], 20_000)
    out, away = state.predict(x[300:310]), drawn - drawn.mean(axis=0)
    error = np.sqrt(out.epistemic_var / len(drawn))
    assert (np.abs(drawn.mean(axis=0) - out.mean) < 5.0 * error).all()
    error = np.std(away**2, axis=0) / np.sqrt(len(drawn))  # the networks' few draws have most of it
    assert (np.abs(drawn.var(axis=0) - out.epistemic_var) < 4.0 * error).all()
    assert (error < 0.1 * out.epistemic_var).all()


def test_few_rows_are_not_judged_by_leaving_them_out(ripple):
    x, y = ripple
    state = fit(x[: recipe.LEAST_ROWS - 1], y[: recipe.LEAST_ROWS - 1])
    assert state.networks.residuals == (None, None)
    assert len(state.experts) == 1
    assert not state.networks.log_noise_factor.any()


def test_errors_at_rows_left_out_are_those_at_new_rows():
    rng = np.random.default_rng(4)
    x = rng.uniform(-1.7, 1.7, (2200, 8))
    y = np.sin(2.0 * x[:, :1]) * x[:, 1:2] + 0.3 * rng.standard_normal((2200, 1))
    settings = settings_for(200, n_members=2, n_steps=4000)
    rows = Table.of(x[:200], y[:200])
    (state,), _ = train([Start(init_networks(0, 8, rows.y, settings), rows, settings)], seed=0)
    left_out = dev.hold_out(state, rows.distinct, settings, 3)[1]
    assert left_out is not None
    new = np.mean((engine.outputs(state, x[200:]).m - y[200:]) ** 2)
    seen = np.mean((engine.outputs(state, x[:200]).m - y[:200]) ** 2)
    left = np.mean((left_out.components.m - y[:200]) ** 2)
    assert seen < 0.8 * new
    assert 0.6 < (left - seen) / (new - seen) < 1.6


def test_components_at_rows_left_out_are_those_of_processes_without_the_row(ripple):
    x, y = ripple[0][:300], ripple[1][:300, :1]
    settings = settings_for(300, hidden_layer_sizes=(4,), n_members=2, n_steps=600)
    rows = Table.of(x, y)
    (networks,), _ = train([Start(init_networks(0, 2, rows.y, settings), rows, settings)], seed=0)
    networks, left_out = dev.hold_out(networks, rows.distinct, settings, 0)
    assert left_out is not None
    given = networks, left_out, rows.distinct, rows.distinct.once.x, 0, 2
    each, weights, held_out = recipe.choose_beside(*given, learns_processes=True)
    assert isinstance(each[1], Processes)
    (process,), out = each[1].processes, held_out.components
    assert process is not None
    _, m, v, _ = process.held_out()
    np.testing.assert_allclose(out.m[-1, :, 0], m, rtol=1e-9)
    np.testing.assert_allclose(out.v[-1, :, 0], v, rtol=1e-9)
    seen = Components.mixed([one.components(x) for one in each], weights)
    for mixture in (out, seen):
        np.testing.assert_allclose(mixture.share.sum(axis=0), 1.0, rtol=1e-9)
        np.testing.assert_allclose(mixture.share[-1, 0], weights[1], rtol=1e-6)
    error, before = (np.mean((each.m[-1] - y) ** 2) for each in (out, seen))
    assert error > 1.05 * before  # rows that were seen are known better


def test_cells_are_levels_that_are_crossed_and_not_groups():
    """Two factors with an interaction: six means of eight rows, which new rows will have."""
    rng = np.random.default_rng(6)
    levels = np.mgrid[0:2, 0:3].reshape(2, 6).T - 0.75
    of_groups = levels + np.arange(6)[:, None]
    x, y = np.tile(levels, (8, 1)), np.tile([0.0, 2.0, 0.0, 1.0, -2.0, 3.0], 8)[:, None]
    y = y + 0.2 * rng.standard_normal(y.shape)
    assert Table.of(x, y, None).distinct.has_cells
    assert not Table.of(np.tile(of_groups, (8, 1)), y, None).distinct.has_cells
    assert not Table.of(x[:11], y[:11], None).distinct.has_cells
    state, _ = recipe.fit(0, Rows(x, y), settings_for(48, n_steps=2000))
    means = y.reshape(8, 6).mean(axis=0)
    assert state.weights[1, 0] > 0.5
    again = codec.read(NumberState, codec.write(state, NumberState))
    np.testing.assert_allclose(again.predict(levels).mean[:, 0], means, atol=0.3)
