"""Targets of the nearest rows against sums by hand, finite differences, and known fields."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats
from test_residual_process import rows

from bayesprop import codec
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import neighbours
from bayesprop.tabular_default.experts import NumberState
from bayesprop.tabular_default.fit import fit
from bayesprop.tabular_default.neighbours import DensityLikelihood, KernelDensity
from bayesprop.tabular_default.settings import EnsembleSettings

LENGTHS, OF_TWINS, COUNT, SPREAD = np.array([0.5, 1.5, 4.0]), 5.0, 2.0, 0.3
LOGARITHMS = np.log([*LENGTHS, OF_TWINS, COUNT, SPREAD])
SETTINGS = EnsembleSettings(n_members=3, hidden_layer_sizes=(8,), n_steps=300)
N = 1500


def density_of(known: Rows, least_std: float = 0.0, are_silent: bool = False) -> KernelDensity:
    return KernelDensity(known.x, known.weights, LOGARITHMS, known.y, least_std, are_silent)


def counts_by_hand(
    x: np.ndarray, weight: np.ndarray, at: np.ndarray, of_twins: float = OF_TWINS
) -> np.ndarray:
    r = np.sqrt(3.0) * np.linalg.norm((x - at) / LENGTHS, axis=1)
    return np.where(r > 0.0, COUNT, of_twins) * weight * (1.0 + r) * np.exp(-r)


def test_gaussians_stand_around_the_nearest_targets():
    known, x = rows(200), rows(7, seed=1).x
    std = np.linspace(0.05, 2.0, 7)
    y, var, share = density_of(known, least_std=0.1).gaussians(x, std)
    for i, at in enumerate(x):
        near = np.argsort(np.linalg.norm((known.x - at) / LENGTHS, axis=1))[:32]
        count = counts_by_hand(known.x[near], known.weight[near], at)
        order, expected = np.argsort(y[:, i]), np.argsort(known.y[near])
        np.testing.assert_allclose(y[order, i], known.y[near][expected])
        np.testing.assert_allclose(
            share[order, i], (count / (1.0 + count.sum()))[expected], rtol=1e-4
        )
    width = np.maximum((neighbours.LEAST_SPREAD + SPREAD) * std, 0.1)
    np.testing.assert_allclose(var, np.broadcast_to(width**2, var.shape))


@pytest.mark.parametrize("are_silent", [False, True])
def test_twins_say_nothing_where_they_did_not_when_it_learnt(are_silent: bool):
    known = rows(200)
    share = density_of(known, are_silent=are_silent).gaussians(known.x[:5], np.ones(5))[2]
    assert ((share == 0.0).any(axis=0) == are_silent).all()
    for i, at in enumerate(known.x[:5]):
        near = np.argsort(np.linalg.norm((known.x - at) / LENGTHS, axis=1))[:32]
        of_twins = 0.0 if are_silent else OF_TWINS
        count = counts_by_hand(known.x[near], known.weight[near], at, of_twins).sum()
        np.testing.assert_allclose(share[:, i].sum(), count / (1.0 + count), rtol=1e-4)


@pytest.mark.parametrize("are_silent", [False, True])
@pytest.mark.parametrize("least_std", [0.0, 0.5])
def test_likelihood_and_gradient(least_std: float, are_silent: bool):
    known, own, near = rows(45), np.arange(5), np.arange(5, 45).reshape(5, 8)
    known.x[near[:3, 2]] = known.x[:3]
    rng = np.random.default_rng(3)
    log_p, std = rng.standard_normal(5) - 1.0, rng.uniform(0.5, 2.0, 5)
    given = {"log_p": log_p, "std": std, "least_std": least_std, "are_twins_silent": are_silent}
    likelihood = DensityLikelihood(known, **given)
    arguments = own, near, known.weights[near]
    value, gradient = likelihood.loss(LOGARITHMS, *arguments)
    for i in own:
        of_twins = COUNT if are_silent else OF_TWINS
        count = counts_by_hand(known.x[near[i]], known.weights[near[i]], known.x[i], of_twins)
        width = max((neighbours.LEAST_SPREAD + SPREAD) * std[i], least_std)
        p = np.exp(log_p[i]) + count @ stats.norm.pdf(known.y[i], known.y[near[i]], width)
        np.testing.assert_allclose(value[i], -np.log(p / (1.0 + count.sum())), rtol=1e-5)
    slopes = optimize.approx_fprime(
        LOGARITHMS, lambda at: likelihood.loss(at, *arguments)[0].sum(), 1e-6
    )
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4)
    gains = likelihood.predict(LOGARITHMS, *arguments)[:, 0]
    np.testing.assert_allclose(gains, -value - log_p)


def heights(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two heights that change from field to field of a plane, which no bell describes."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.7, 1.7, (n, 3)).astype(np.float32)
    place = np.floor(2.0 * x[:, :2]).astype(int) @ [3, 5] % 4
    high = np.where(rng.random(n) < 0.5, 1.0, -1.0) * (0.5 + 0.5 * place)
    return x, (high + 0.05 * rng.standard_normal(n)).astype(np.float32)


def fit_density(
    x: np.ndarray, y: np.ndarray, seed: int = 0, group: np.ndarray | None = None
) -> KernelDensity | None:
    """What is fitted beside a normal of the right variance that knows nothing of places."""
    std, rows = np.full(len(y), y.std()), Rows(x, y, np.ones(len(y), np.float32), group)
    log_p = stats.norm.logpdf(y, 0.0, std)
    return KernelDensity.fit(np.random.default_rng(seed), rows, np.arange(len(y)), log_p, std)


def test_heights_are_learnt_from_rows_nearby():
    (x, y), (new, y_new) = heights(3000, 1), heights(1000, 2)
    found = fit_density(x, y)
    assert found is not None
    std = np.full(1000, y.std())
    near, var, share = found.gaussians(new, std)
    rest = 1.0 - share.sum(axis=0)
    before = stats.norm.pdf(y_new, 0.0, std)
    there = np.sum(share * stats.norm.pdf(y_new, near, np.sqrt(var)), axis=0)
    gain = np.log(rest * before + there) - np.log(before)
    assert gain.mean() - 4.0 * gain.std() / np.sqrt(1000) > 0.3
    assert found.log_lengths[2] > found.log_lengths[:2].max() + 1.0


@pytest.mark.exhaustive
def test_nothing_is_kept_of_bells_around_one_mean():
    kept = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, d = ((150, 5), (300, 10), (1000, 5))[seed % 3]
        x, y = (np.float32(rng.standard_normal(shape)) for shape in ((n, d), n))
        kept += fit_density(x, y, seed) is not None
    assert kept <= 1


@pytest.mark.parametrize(("unit", "expected"), [(1.0, 1.0), (0.25, 0.25)])
def test_what_targets_are_rounded_to_is_not_learnt(unit: float, expected: float):
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((500, 2)), np.round(rng.normal(0.0, 2.0, 500) / unit) * unit
    assert neighbours.rounding(y) == expected
    found = fit_density(np.float32(x), np.float32(y))
    assert found is None or found.least_std == 0.5 * expected


@pytest.fixture(scope="module")
def fitted() -> NumberState:
    x, y = heights(N, 5)
    other = np.float32(x[:, 2] + 0.1 * np.random.default_rng(6).standard_normal(N))
    return fit(1, Rows(x, np.column_stack([y / y.std(), other])), SETTINGS)[0]


@pytest.mark.exhaustive
def test_a_fit_keeps_them_where_they_help(fitted: NumberState):
    assert fitted.density[0] is not None
    assert fitted.density[1] is None
    x, y = heights(1000, 7)
    y /= heights(N, 5)[1].std()
    gain = fitted.predict(x)[:].target(0).log_prob(y)
    gain -= fitted.without_density(x).target(0).log_prob(y)
    assert gain.mean() > 4.0 * gain.std() / np.sqrt(1000)
    np.testing.assert_array_equal(
        fitted.predict(x).target(1).mean, fitted.without_density(x).target(1).mean
    )


@pytest.mark.exhaustive
def test_draws_have_the_moments_of_the_prediction(fitted: NumberState):
    x, n, known = heights(6, 8)[0], 8000, fitted.density[0]
    assert known is not None
    logarithms = np.r_[known.log_lengths, -2.0, known.logarithms[-1]]  # about half of the mixture
    half = replace(known, logarithms=logarithms)
    fitted = fitted._replace(density=(half, None))
    out = fitted.predict(x)
    f = fitted.draw(np.random.default_rng(4), x, n)
    assert (np.abs(f.mean(axis=0) - out.mean) < 4.5 * f.std(axis=0) / np.sqrt(n)).all()
    square = np.square(f - out.mean)[:, :, 0]
    error = square.mean(axis=0) - out.epistemic_var[:, 0]
    assert (np.abs(error) < 4.5 * square.std(axis=0) / np.sqrt(n)).all()
    y = fitted.draw(np.random.default_rng(5), x, n, include_noise=True)
    for level in (0.2, 0.8):
        below = np.mean(y < out.quantile(level), axis=0)
        np.testing.assert_allclose(below, level, atol=0.03)


def test_they_are_saved_and_checked():
    x, y = heights(N, 5)
    few = replace(SETTINGS, n_steps=20)
    fitted, known = fit(1, Rows(x[:100], x[:100, :2]), few)[0], fit_density(x, y)
    assert known is not None
    fitted = fitted._replace(density=(known, None))
    x, n = heights(50, 9)[0], len(known.y)
    again = codec.read(NumberState, codec.write(fitted, NumberState))
    np.testing.assert_array_equal(again.predict(x).mean, fitted.predict(x).mean)
    size = sum(array.nbytes for array in codec.write(known).arrays.values())
    assert len(pickle.dumps(known)) < 1.2 * size
    refused = {
        "logarithms must be below 60": {"logarithms": np.full(5, 99.0)},
        "logarithms must be of every length": {"logarithms": np.zeros(4)},
        "weight must be > 0": {"weight": np.zeros(n, np.float32)},
        "least_std must be at least 0": {"least_std": -1.0},
        "must be 33 to": {"x": known.x[:9], "y": known.y[:9], "weight": known.weight[:9]},
    }
    for message, parts in refused.items():
        forged = codec.write(replace(known, **parts), KernelDensity)
        with pytest.raises(ValueError, match=message):
            codec.read(KernelDensity, forged)


@pytest.mark.exhaustive
def test_groups_are_left_out_whole():
    x, y = heights(N, 5)
    state, info = fit(0, Rows(x, y[:, None] / y.std(), group=np.arange(N) // 5), SETTINGS)
    assert info.guards["neighbour_rows"] > 0
    new, y_new = heights(500, 10)
    gain = state.predict(new).log_prob(y_new[:, None] / y.std())
    gain -= state.without_density(new).log_prob(y_new[:, None] / y.std())
    assert gain.mean() > 0.0


def test_a_group_may_hold_most_rows():
    fit_density(*heights(160, 11), group=np.maximum(np.arange(160) - 100, 0))


@pytest.mark.parametrize("gain", [-1.0, 1.0])
def test_other_folds_are_asked_only_where_the_first_may_gain(gain: float, monkeypatch):
    known, asked = rows(100), []
    likelihood = DensityLikelihood(known, log_p=np.zeros(100), std=np.ones(100), least_std=0.0)
    monkeypatch.setattr(DensityLikelihood, "fit", lambda *_: LOGARITHMS)
    predict = DensityLikelihood.predict_rows
    monkeypatch.setattr(
        DensityLikelihood, "predict_rows", lambda *a: asked.append(a[2]) or predict(*a)
    )
    fold, noise = neighbours.deal_folds(known, 100, 5), np.random.default_rng(0)
    found = likelihood.held_out(
        noise, 100, fold, lambda own, _: gain + noise.standard_normal(len(own))
    )
    assert (found is not None) is (gain > 0.0)
    assert len(asked) == (5 if gain > 0.0 else 1)
    if found is not None:
        np.testing.assert_array_equal(found[1], predict(likelihood, LOGARITHMS, np.arange(100)))
