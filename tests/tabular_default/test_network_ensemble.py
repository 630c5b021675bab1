"""The noise-network recipe: its parts against quadrature and draws, its fits against the truth."""

from __future__ import annotations

import ensemble_objective as objective
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, optimize, stats
from test_joint_covariance import alone

from bayesprop import codec, metrics
from bayesprop.numerics.machine import in_float64
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import method as ensemble_method
from bayesprop.tabular_default import networks as gn
from bayesprop.tabular_default.experts import NumberState
from bayesprop.tabular_default.fit import fit
from bayesprop.tabular_default.method import settings_for
from bayesprop.tabular_default.networks import (
    Member,
    Networks,
    init_member,
    log_noise_floor,
    outputs,
)
from bayesprop.tabular_default.settings import TILT_LIMIT, EnsembleSettings, Priors
from bayesprop.tabular_default.training import FitInfo

PRIORS = Priors(4.0, 4.0, 9.0)
SETTINGS = EnsembleSettings(
    hidden_layer_sizes=(8,), noise_layer_sizes=(5,), n_members=2, n_steps=800, batch_size=50
)
N, D = 300, 2


def spread(layers: gn.Layers, rng: np.random.Generator, log_std: float) -> gn.Layers:
    """Give weights that know little, unlike those that training starts from."""
    return tuple(
        gn.GaussianLayer(
            layer.w_m + 0.1 * rng.standard_normal(layer.w_m.shape).astype(np.float32),
            np.full_like(layer.w_m, log_std),
            layer.b_m,
            np.full_like(layer.b_m, log_std),
        )
        for layer in layers
    )


@pytest.fixture(scope="module")
def member() -> Member:
    rng = np.random.default_rng(0)
    start = init_member(rng, (D, 8, 1), (5,), is_direct=True)
    return start._replace(
        mean=spread(start.mean, rng, np.log(0.3)), noise=spread(start.noise, rng, np.log(0.2))
    )


@pytest.fixture(scope="module")
def wave() -> tuple[np.ndarray, np.ndarray, stats.rv_continuous]:
    """Inputs, targets, and the true distribution of each target."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1.7, 1.7, (N, D))
    noise_std = 0.1 + 0.4 * (x[:, 0] > 0.0)
    f = np.sin(1.5 * x[:, 0])
    y = f + noise_std * rng.standard_normal(N)
    return x, (y / y.std())[:, None], stats.norm(f / y.std(), noise_std / y.std())


@pytest.fixture(scope="module")
def fitted(wave) -> tuple[NumberState, FitInfo]:
    x, y, _ = wave
    return fit(3, Rows(x, y), SETTINGS)


def test_moments_are_those_of_drawn_networks(member: Member):
    rng, n = np.random.default_rng(2), 20_000
    x = np.array([[0.3, -1.0], [2.0, 1.5]])
    widths = (member.log_widths[0] + np.linspace(-4.0, 2.0, 8).astype(np.float32),)
    draws = np.stack([gn.apply(gn.draw(rng, member.mean), x, widths)[:, 0] for _ in range(n)])
    got = jax.jit(objective.propagate)(member.mean, jnp.asarray(x, jnp.float32), widths)
    mean_se = draws.std(axis=0) / np.sqrt(n)
    var_se = ((draws - draws.mean(axis=0)) ** 2).std(axis=0) / np.sqrt(n)
    assert (np.abs(draws.mean(axis=0) - got.m[:, 0]) < 4.5 * mean_se).all()
    assert (np.abs(draws.var(axis=0) - got.v[:, 0]) < 4.5 * var_se).all()


@in_float64
def bound_at(square: float, l_m: float, l_v: float, dof: float) -> float:
    at = (jnp.full((1, 1), value) for value in (square, l_m, l_v))
    return float(objective.student_t_bound(*at, jnp.array([dof]))[0, 0])


def expected_log_t(m: float, v: float, l_m: float, l_v: float, dof: float) -> float:
    """E[log t(0 | f, exp(l))] over f and l by a fine grid."""
    f = m + np.sqrt(v) * np.linspace(-8, 8, 801)[:, None]
    log_var = l_m + np.sqrt(l_v) * np.linspace(-8, 8, 401)[None, :]
    weight = stats.norm.pdf(f, m, np.sqrt(v)) * stats.norm.pdf(log_var, l_m, np.sqrt(l_v))
    values = weight * stats.t.logpdf(0.0, dof, loc=f, scale=np.exp(0.5 * log_var))
    return integrate.simpson(integrate.simpson(values, x=log_var[0], axis=1), x=f[:, 0])


@pytest.mark.parametrize(("m", "v", "l_v", "dof"), [(0.5, 0.3, 0.4, 3.5), (2.0, 1.5, 1.0, 20.0)])
def test_bound_is_below_the_expectation_and_tight_without_doubt(m, v, l_v, dof):
    def bound(square: float, l_v: float) -> float:
        return bound_at(square, -0.8, l_v, dof)

    exact = expected_log_t(m, v, -0.8, l_v, dof)
    assert bound(v + m * m, l_v) < exact
    certain = stats.t.logpdf(m, dof, scale=np.exp(-0.4))
    assert bound(m * m, 0.0) == pytest.approx(certain, abs=1e-5)


def test_bound_is_exact_for_gaussian_noise():
    m, v, l_m, l_v = 0.7, 0.4, -0.5, 0.3
    bound = bound_at(v + m * m, l_m, l_v, 1e6)
    assert bound == pytest.approx(expected_log_t(m, v, l_m, l_v, 1e6), abs=1e-3)


def test_adaptive_kl_changes_as_its_definition(member: Member):
    def price(layers: gn.Layers) -> float:
        total = 0.0
        for depth, layer in enumerate(layers):
            square = np.float64(layer.w_m) ** 2 + np.exp(2 * np.float64(layer.w_log_std))
            halves = np.split(square, [8]) if depth else [square]
            groups = list(square) if depth == 0 else [*halves[0].T, *halves[1].T]
            modes = [4.0 / layer.w_m.shape[0]] * len(groups) if depth == 0 else [4 / 8, 4 / D]
            modes.append(1.0)
            groups.append(np.float64(layer.b_m) ** 2 + np.exp(2 * np.float64(layer.b_log_std)))
            for group, mode in zip(groups, modes, strict=True):
                rate = (gn.SHAPE + 1.0) * mode
                v = (group.sum() + 2 * rate) / (len(group) + 2 * gn.SHAPE + 2)
                total += 0.5 * np.sum(group / v + np.log(v))
                total -= stats.invgamma.logpdf(v, gn.SHAPE, scale=rate)
            total -= np.sum(np.float64(layer.w_log_std)) + np.sum(np.float64(layer.b_log_std))
        return total

    other = spread(member.mean, np.random.default_rng(5), np.log(0.05))
    change = float(objective.adaptive_kl(other, 4.0) - objective.adaptive_kl(member.mean, 4.0))
    assert change == pytest.approx(price(other) - price(member.mean), rel=1e-4)


def test_noise_kl_is_the_sum_of_integrals(member: Member):
    total = 0.0
    for depth, layer in enumerate(member.noise):
        std = np.sqrt((9.0 if depth == 1 else 4.0) / layer.w_m.shape[0])
        for m, log_std, p_std in (
            (layer.w_m, layer.w_log_std, std),
            (layer.b_m, layer.b_log_std, 1.0),
        ):
            z = np.linspace(-9, 9, 2001)
            w = m[..., None] + np.exp(log_std)[..., None] * z
            ratio = stats.norm.logpdf(z) - log_std[..., None] - stats.norm.logpdf(w, 0.0, p_std)
            total += integrate.simpson(stats.norm.pdf(z) * ratio, x=z, axis=-1).sum()
    assert float(objective.noise_kl(member.noise, PRIORS)) == pytest.approx(total, rel=1e-4)


def test_finds_the_function_and_its_noise(wave, fitted):
    x, y, truth = wave
    out = fitted[0].predict(x)
    assert metrics.mean_log_likelihood(out, y) > truth.logpdf(y[:, 0]).mean() - 0.2
    scale = np.exp(0.5 * out.log_noise_mean.mean(axis=0))[:, 0]
    assert np.median(scale[x[:, 0] > 0.3]) > 2.0 * np.median(scale[x[:, 0] < -0.3])
    assert 0.84 < metrics.coverage(out, y, 0.9) < 0.97


def test_training_reports_itself(fitted):
    _, info = fitted
    trace = ensemble_method.trace(info.losses)
    assert len(trace["loss"]) == len(trace["data_loss"]) == 100
    assert trace["data_loss"][-1] < trace["data_loss"][0]
    assert 0 <= info.guards["dead_units"] <= 16


def test_drawn_functions_have_the_predicted_moments(wave, fitted):
    x = wave[0][:3]
    out, n = fitted[0].predict(x), 6000
    f = fitted[0].draw(np.random.default_rng(8), x, n)
    assert f.shape == (n, 3, 1)
    assert (np.abs(f.mean(axis=0) - out.mean) < 4.5 * f.std(axis=0) / np.sqrt(n)).all()
    np.testing.assert_allclose(f.var(axis=0), out.epistemic_var, rtol=0.15)
    for tail in (0.0, 0.0), (-0.5, 2.0):
        state = fitted[0]._replace(tail=np.array(tail)[:, None])
        y = state.draw(np.random.default_rng(9), x, n, include_noise=True)
        for level in (0.5, 0.9):
            below = np.mean(y < state.predict(x).quantile(level), axis=0)
            assert (np.abs(below - level) < 5.0 * np.sqrt(level * (1.0 - level) / n)).all()


def test_noise_that_nobody_knows_is_bounded(wave, fitted):
    x, n, members = wave[0][:3], 6000, fitted[0].networks.members
    wild = []
    for one in members:
        last = one.noise[-1]._replace(w_log_std=one.noise[-1].w_log_std + np.float32(6.0))
        wild.append(one._replace(noise=(*one.noise[:-1], last)))
    networks = fitted[0].networks._replace(members=tuple(wild))
    state, told = alone(networks), outputs(networks, x)
    assert (told.l_v > 100.0).all()
    out = state.predict(x)
    variance = np.exp(told.l_m + TILT_LIMIT) * told.dof / (told.dof - 2.0)
    np.testing.assert_allclose(out.noise_var, variance.mean(axis=0), rtol=1e-6)
    y = state.draw(np.random.default_rng(10), x, n, include_noise=True)
    for level in (0.5, 0.9):
        below = np.mean(y < out.quantile(level), axis=0)
        assert (np.abs(below - level) < 5.0 * np.sqrt(level * (1.0 - level) / n)).all()


def integers(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return np.clip(np.round(5.6 + 0.5 * x[:, 0] + 0.6 * rng.standard_normal(len(x))), 3, 8)


def mostly_zero(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return np.where(rng.random(len(x)) < 0.9, 0.0, x[:, 0] + rng.standard_normal(len(x)))


def clipped(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return np.minimum(x[:, 0] + 0.3 * rng.standard_normal(len(x)), 0.5)


def nothing(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return rng.standard_normal(len(x))


OTHERS = (pytest.param(kind, marks=pytest.mark.exhaustive) for kind in (integers, clipped, nothing))


@pytest.mark.parametrize("target", [mostly_zero, *OTHERS])
def test_awkward_targets_do_not_collapse(target):
    rng = np.random.default_rng(10)
    x = rng.standard_normal((2 * N, D))
    y = target(rng, x)
    y = ((y - y[:N].mean()) / y[:N].std())[:, None]
    state, info = fit(4, Rows(x[:N], y[:N]), SETTINGS)
    out = state.predict(x[N:])
    constant = np.mean(stats.norm.logpdf(y[N:], 0.0, 1.0))
    allowed = 0.05 if target is nothing else 0.0
    assert np.isfinite(info.losses).all()
    assert metrics.mean_log_likelihood(out, y[N:]) > constant - allowed
    assert np.isfinite(out.quantile(0.05)).all()


def test_noise_floor_follows_the_grid():
    y = np.column_stack([np.arange(100.0), np.arange(100) % 5 / 2.0, np.zeros(100)])
    floor = np.exp(0.5 * log_noise_floor(y))
    np.testing.assert_allclose(floor, [1e-3, 0.05, 1e-3], rtol=1e-5)


def test_sizes_follow_the_rows_and_can_be_overridden():
    assert settings_for(300).hidden_layer_sizes == (50,)
    assert settings_for(8000).hidden_layer_sizes == (50, 50)
    assert settings_for(40_000, n_members=1).n_members == 1
    assert settings_for(149).is_direct
    assert not settings_for(150).is_direct
    assert settings_for(200, 200).n_steps == settings_for(200).n_steps == 20_000
    assert settings_for(200, 201).n_steps == settings_for(9000, 9001).n_steps == 4000
    assert settings_for(20, 21, n_steps=9).n_steps == 9
    assert settings_for(20, 21).is_direct


def test_arrays_that_do_not_fit_are_refused(fitted):
    state = fitted[0].networks
    first = state.members[0]
    for change, message in (
        ({"raw_dof": first.raw_dof[:0]}, "raw_dof must be"),
        ({"mean": first.mean[1:]}, "hidden layer"),
        ({"noise": first.noise[1:]}, "hidden layer|fit together"),
        ({"log_widths": first.log_widths[:0]}, "fit together"),
    ):
        forged = state._replace(members=(first._replace(**change), *state.members[1:]))
        with pytest.raises(ValueError, match=message):
            codec.read(Networks, codec.write(forged, Networks))
    for change, message in (
        ({"log_floor": np.full_like(state.log_floor, np.nan)}, "must be finite"),
        ({"factors": state.factors[:, :, 1:]}, "factors must be"),
    ):
        with pytest.raises(ValueError, match=message):
            codec.read(Networks, codec.write(state._replace(**change), Networks))


def layer(mean, std) -> gn.GaussianLayer:
    mean, std = np.float32(mean), np.float32(std)
    bias = np.zeros(mean.shape[1], np.float32)
    return gn.GaussianLayer(mean, np.log(std), bias, bias - 1.0)


def best_prior(mean: np.ndarray, std: np.ndarray) -> stats.rv_continuous:
    """The prior of a group whose cost, that of its variance included, is least."""
    costs = stats.invgamma(gn.SHAPE, scale=(gn.SHAPE + 1.0) * PRIORS.mean / 4)

    def price(log_v: float) -> float:
        expected = -0.5 * (log_v + (mean**2 + std**2) / np.exp(log_v))
        return -np.sum(expected) - costs.logpdf(np.exp(log_v))

    log_v = optimize.minimize_scalar(price, bounds=(-5, 5), method="bounded").x
    return stats.norm(0.0, np.exp(0.5 * log_v))


def information(m: float, s: float, prior: stats.rv_continuous) -> float:
    q = stats.norm(m, s)
    return integrate.quad(
        lambda w: q.pdf(w) * (q.logpdf(w) - prior.logpdf(w)), m - 9 * s, m + 9 * s
    )[0]


def test_information_is_the_divergence_from_the_best_prior():
    rng = np.random.default_rng(0)
    mean, std = rng.standard_normal((4, 1)), rng.uniform(0.1, 1.5, (4, 1))
    layers = layer(rng.standard_normal((2, 4)), np.full((2, 4), 0.5)), layer(mean, std)
    prior = best_prior(mean, std)
    expected = [information(m, s, prior) for m, s in zip(mean[:, 0], std[:, 0], strict=True)]
    found = np.asarray(gn.weight_information(layers, PRIORS.mean)[1])
    assert found[:, 0] == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_units_whose_outgoing_weights_keep_their_prior_are_dead():
    mean, std = np.array([[3.0], [0.0], [-2.0], [0.0]]), np.full((4, 1), 0.1)
    for _ in range(50):  # the best prior depends on those who keep it
        std[[1, 3]] = best_prior(mean, std).std()
    layers = layer(np.ones((2, 4)), np.full((2, 4), 0.5)), layer(mean, std)
    assert gn.dead_units(layers, PRIORS.mean) == [False, True, False, True]
