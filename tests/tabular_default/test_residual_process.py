"""The nearest rows against multivariate normals, finite differences, scikit-learn, known fields."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.spatial import distance
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from test_joint_covariance import alone

from bayesprop import codec
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import neighbours
from bayesprop.tabular_default import residual_process as near
from bayesprop.tabular_default.experts import NumberState
from bayesprop.tabular_default.fit import fit
from bayesprop.tabular_default.networks import outputs
from bayesprop.tabular_default.residual_process import ResidualLikelihood, ResidualProcess
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.stack import Components

HYPER = np.log([0.5, 1.5, 4.0, 0.8, 0.1])
"""Logarithms of lengths, variance and noise."""


def covariance(x: np.ndarray, hyper: np.ndarray = HYPER) -> np.ndarray:
    """Covariance by scikit-learn."""
    return (ConstantKernel(np.exp(hyper[-2])) * Matern(np.exp(hyper[:-2]), nu=1.5))(x)


def rows(n: int, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    parts = rng.standard_normal((n, 3)), rng.standard_normal(n), rng.uniform(0.5, 2.0, n)
    return Rows(*(np.float32(part) for part in parts))


def process_of(known: Rows, hyper: np.ndarray = HYPER) -> ResidualProcess:
    return ResidualProcess(known.x, known.weights, hyper, known.y, 0.0)


def distances(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    return np.linalg.norm((x - at) / np.exp(HYPER[:-2]), axis=1)


def test_the_likelihood_is_a_conditional_normals_and_its_gradient_a_finite_difference():
    known, each = rows(40), np.arange(40).reshape(5, 8)
    likelihood, others, own = ResidualLikelihood(known), each[:, :7], each[:, 7]

    def loss(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return likelihood.loss(at, own, others, known.weights[others])

    for i, number in enumerate(each):
        total, expected = covariance(known.x[number]) + np.diag(0.1 / known.weights[number]), 0.0
        for k, sign in ((8, -1.0), (7, 1.0)):
            normal = stats.multivariate_normal(np.zeros(k), total[:k, :k])
            expected += sign * normal.logpdf(known.y[number[:k]])
        np.testing.assert_allclose(loss(HYPER)[0][i], expected, rtol=1e-5)
    slopes = optimize.approx_fprime(HYPER, lambda at: loss(at)[0].sum(), 1e-6)
    np.testing.assert_allclose(loss(HYPER)[1], slopes, rtol=1e-4, atol=1e-4)


def test_of_a_row_its_nearest_are_asked_and_no_others():
    known, x = rows(300), np.random.default_rng(1).standard_normal((9, 3))
    m, v = process_of(known).moments(x)
    for i, at in enumerate(np.float32(x)):
        nearest = np.argsort(distances(known.x, at))[: neighbours.N_NEAREST]
        kernel = ConstantKernel(0.8, "fixed") * Matern(np.exp(HYPER[:-2]), "fixed", nu=1.5)
        exact = GaussianProcessRegressor(kernel, alpha=0.1 / known.weight[nearest], optimizer=None)
        exact.fit(known.x[nearest], known.y[nearest])
        mean, std = exact.predict(at[None], return_std=True)
        np.testing.assert_allclose((m[i], v[i]), (mean[0], std[0] ** 2), rtol=1e-4, atol=1e-6)


def test_the_nearest_of_many_are_those_that_a_full_order_begins_with():
    rng = np.random.default_rng(13)
    x, at = rng.standard_normal((3000, 25)), rng.standard_normal((130, 25))
    x[:1000] += 3.0  # the first are no help
    order = np.sort(np.argsort(distance.cdist(at, x), axis=1)[:, :32], axis=1)
    np.testing.assert_array_equal(np.sort(neighbours.nearest(x, at, 32), axis=1), order)
    copies = np.zeros((3000, 25))
    beyond = np.where(np.arange(130)[:, None] == 7, np.nan, at)
    for rows_of_it in (neighbours.nearest(copies, at, 32), neighbours.nearest(x, beyond, 32)):
        assert all(len(set(own)) == 32 for own in rows_of_it)


def test_rows_at_no_distance_that_count_without_end_break_nothing():
    x, weight = np.zeros((40, 3), np.float32), np.full(40, 1e14, np.float32)
    process = process_of(Rows(x, np.ones(40, np.float32), weight), np.r_[HYPER[:-1], -50.0])
    m, v = process.moments(np.zeros((2, 3)))
    np.testing.assert_allclose(m, 1.0, rtol=1e-3)
    assert (v >= 0.0).all()
    assert (v < 1e-6).all()


@pytest.mark.parametrize("has_groups", [False, True])
def test_a_row_says_nothing_of_itself_nor_of_its_group(has_groups: bool):
    known, own = rows(200), np.array([3, 40])
    twins = np.concatenate([np.arange(200), [3, 3]])  # at no distance, but other rows
    known = known.at(twins)._replace(group=np.arange(202) // 4 if has_groups else None)
    m, v = ResidualLikelihood(known).predict_rows(HYPER, own).T[:2]
    for i, row in enumerate(own):
        rest = np.arange(202) != row if known.group is None else known.group != known.group[row]
        order = np.argsort(distances(known.x, known.x[row]), kind="stable")
        asked = order[rest[order]][: neighbours.N_NEAREST]
        total = covariance(known.x[asked]) + np.diag(0.1 / known.weight[asked])
        to = covariance(known.x[[row, *asked]])[0, 1:]
        pulls = np.linalg.solve(total, to)
        np.testing.assert_allclose(m[i], pulls @ known.y[asked], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(v[i], 0.8 - pulls @ to, rtol=1e-4, atol=1e-6)


def fit_to_all(seed: int, likelihood: ResidualLikelihood) -> np.ndarray:
    return likelihood.fit(np.random.default_rng(seed), np.ones(len(likelihood.rows.x), bool))


@pytest.mark.exhaustive
def test_lengths_and_variances_of_a_field_are_learnt():
    rng, n = np.random.default_rng(2), 1500
    x = rng.uniform(-1.7, 1.7, (n, 2))
    truth = np.log([0.3, 1.0, 0.9, 0.1])
    total = covariance(x, truth) + 0.1 * np.eye(n)
    g = np.linalg.cholesky(total) @ rng.standard_normal(n)
    known = Rows(*(np.float32(part) for part in (x, g, np.ones(n))))
    likelihood = ResidualLikelihood.of(known)
    fitted = np.array([fit_to_all(seed, likelihood) for seed in range(3)])
    # Of one field of 1500 rows; between seeds they differ by some hundredths.
    lengths, expected = (part - part.mean() for part in (fitted[:, :2].mean(axis=0), truth[:2]))
    np.testing.assert_allclose(lengths, expected, atol=0.3)
    np.testing.assert_allclose(np.exp(fitted[:, -1]), 0.1, rtol=0.3)
    order = rng.permutation(n)[:300]
    each = [likelihood.predict_rows(one, order).T[:2] for one in (truth, fitted[0])]
    errors = [np.mean((m - g[order]) ** 2) for m, _ in each]
    assert errors[1] < 1.05 * errors[0]


def test_noise_is_not_taken_for_a_field():
    rng = np.random.default_rng(3)
    known = rows(800)._replace(y=np.float32(rng.standard_normal(800)))
    likelihood = ResidualLikelihood.of(known)
    m = likelihood.predict_rows(fit_to_all(0, likelihood), np.arange(800))[:, 0]
    assert np.mean((known.y - m) ** 2) < 1.05 * np.mean(known.y**2)


@pytest.mark.exhaustive
def test_lengths_do_not_flatter_themselves_at_rows_that_did_not_choose_them():
    gains = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x, g = rng.standard_normal((150, 8)), rng.standard_normal(150)
        known = Rows(*(np.float32(part) for part in (x, g, np.ones(150))))
        likelihood = ResidualLikelihood.of(known)
        own = likelihood.predict_rows(fit_to_all(seed, likelihood), np.arange(150))
        held_out = likelihood.held_out(rng, 150, neighbours.deal_folds(known, 150, 2))
        assert held_out is not None
        log_p = [
            stats.norm(m, np.sqrt(v + noise)).logpdf(g).mean()
            for m, v, noise in (own.T, held_out[1].T)
        ]
        gains.append(np.array(log_p) - stats.norm(0.0, g.std()).logpdf(g).mean())
    flattered, honest = np.mean(gains, axis=0)
    error = np.std(gains, axis=0)[1] / np.sqrt(6)
    assert honest < 3.0 * error
    assert flattered > honest + 3.0 * error


def test_draws_have_the_moments_of_the_process_and_are_functions():
    known, n = rows(200), 6000
    process = process_of(known)
    x = np.random.default_rng(4).standard_normal((6, 3))
    x[5] = x[4] + 1e-3
    m, v = process.moments(x)
    drawn = process.draw(np.random.default_rng(5), x, n)
    assert drawn.shape == (n, 6)
    assert (np.abs(drawn.mean(axis=0) - m) < 4.5 * np.sqrt(v / n)).all()
    # 512 frequencies stand for the prior: its variance has a relative error of 1 / 16 a place.
    np.testing.assert_allclose(drawn.var(axis=0), v, rtol=0.25)
    apart = np.mean((drawn[:, 4] - drawn[:, 5] - (m[4] - m[5])) ** 2)
    assert apart < 0.01 * v[4]


def members(n: int) -> Components:
    rng = np.random.default_rng(6)
    m, v = rng.standard_normal((3, n)), rng.uniform(0.01, 0.1, (3, n))
    l_m = rng.uniform(-2.0, 0.0, (3, n))
    return Components.of(m, v, l_m, 0.3, dof=8.0, share=1 / 3, floor=-30.0)


def test_what_members_say_is_moved_and_stretched():
    before, n = members(20), 20
    rng = np.random.default_rng(7)
    local = near.Local(rng.standard_normal(n), rng.uniform(0.0, 1.0, n), np.full(n, 0.3), 99.0)
    plain, after = before.predictive(0.0), near.changed(before, local).predictive(0.0)
    scale = plain.var**0.25
    np.testing.assert_allclose(after.mean, plain.mean + scale * local.m, rtol=1e-10)
    np.testing.assert_allclose(after.var, scale**2 * (local.v + 0.3), rtol=1e-10)
    ratio = np.sqrt(after.var / plain.var)
    for level in (0.01, 0.5, 0.9):  # the broad share stays where it is
        moved = after.mean + ratio * (plain.quantile(level) - plain.mean)
        np.testing.assert_allclose(after.cdf(moved), level, atol=2e-3)
    share = local.v / (local.v + 0.3)
    noise = ratio**2 * plain.noise_var
    np.testing.assert_allclose(after.noise_var, (1.0 - share) * noise, rtol=1e-10)
    np.testing.assert_allclose(after.epistemic_var, after.var - after.noise_var, rtol=1e-10)


def test_where_networks_doubt_more_than_at_any_row_their_doubt_is_what_counts():
    before = members(4)
    before.v[:, 2:] = 100.0
    n, plain = 4, before.predictive(0.0)
    local = near.Local(np.zeros(n), np.full(n, 0.8), np.full(n, 0.2), 0.5)
    after = near.changed(before, local).predictive(0.0)
    known = plain.noise_var + np.minimum(plain.epistemic_var, 0.5)
    np.testing.assert_allclose(after.var, plain.var / np.sqrt(known), rtol=1e-10)
    assert (after.var[2:] > 50.0).all()


SETTINGS = EnsembleSettings(
    hidden_layer_sizes=(8,), noise_layer_sizes=(5,), n_members=2, n_steps=800, batch_size=50
)


N = 3000  # more than a process on targets knows


def field(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A slope, and streets that no network of eight units has seen; of the second, noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.7, 1.7, (n, 3))
    centres = np.random.default_rng(8).uniform(-1.7, 1.7, (150, 2))
    heights = np.random.default_rng(9).standard_normal(150)
    nearest = np.argmin(((x[:, None, :2] - centres) ** 2).sum(axis=2), axis=1)
    y = np.stack([x[:, 2] + heights[nearest], np.zeros(n)], axis=1)
    return np.float32(x), np.float32(y + 0.2 * rng.standard_normal(y.shape))


@pytest.fixture(scope="module")
def fitted() -> NumberState:
    return fit(0, Rows(*field(N, 1)), SETTINGS)[0]


@pytest.mark.exhaustive
def test_streets_are_known_by_their_neighbours(fitted):
    assert fitted.networks.residuals[0] is not None
    assert fitted.networks.residuals[1] is None
    x, y = field(1000, 2)
    after, before = fitted.predict(x), outputs(fitted.networks, x).predictive()
    error, past = (np.mean((each.mean - y) ** 2, axis=0) for each in (after, before))
    assert error[0] < 0.5 * past[0]
    np.testing.assert_allclose(error[1], past[1], rtol=0.02)
    low, high = np.moveaxis(after.interval(0.9), -1, 0)
    inside = np.mean((y >= low) & (y <= high), axis=0)
    assert (np.abs(inside - 0.9) < 4.0 * np.sqrt(0.09 / 1000)).all()
    far = fitted.predict(np.float32([[9.0, 9.0, 0.0]]))
    assert far.epistemic_var[0, 0] > 4.0 * np.median(after.epistemic_var[:, 0])


@pytest.mark.exhaustive
def test_draws_have_the_moments_of_the_prediction(fitted):
    state, x, n = alone(fitted.networks), field(6, 3)[0], 8000
    out = state.predict(x)
    f = state.draw(np.random.default_rng(4), x, n)
    assert (np.abs(f.mean(axis=0) - out.mean) < 4.5 * f.std(axis=0) / np.sqrt(n)).all()
    np.testing.assert_allclose(f.var(axis=0), out.epistemic_var, rtol=0.15)
    y = state.draw(np.random.default_rng(5), x, n, include_noise=True)
    np.testing.assert_allclose(y.var(axis=0), out.std**2, rtol=0.1)
    for level in (0.2, 0.8):  # of another shape: a Gaussian beside what is stretched
        below = np.mean(y < out.quantile(level), axis=0)
        np.testing.assert_allclose(below, level, atol=0.03)


@pytest.mark.exhaustive
def test_what_neighbours_know_is_saved_and_checked(fitted):
    x, process = field(50, 3)[0], fitted.networks.residuals[0]
    again = codec.read(NumberState, codec.write(fitted, NumberState))
    np.testing.assert_array_equal(again.predict(x).mean, fitted.predict(x).mean)
    process.moments(x)
    size = sum(array.nbytes for array in codec.write(process).arrays.values())
    assert len(pickle.dumps(process)) < 1.2 * size


def test_nobody_is_asked_where_few_rows_or_nothing_speak_for_it():
    x, y = field(neighbours.LEAST_ROWS - 1, 1)
    assert fit(0, Rows(x, y), SETTINGS)[0].networks.residuals == (None, None)
