"""Mixtures over completions, against averages, integrals and draws."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.gaussian_copula import COMPLETIONS, GaussianCopula
from bayesprop.distributions.imputed import completed, one_of_each, over_gaps
from bayesprop.distributions.mixture import MixturePredictive, as_mixture
from bayesprop.distributions.pooled import pooled
from bayesprop.distributions.predictive import GaussianPredictive, StudentTPredictive

RNG = np.random.default_rng(0)
N, C = 3, 8
M, E, V = RNG.normal(size=N * C), RNG.uniform(0.01, 0.1, N * C), RNG.uniform(0.02, 0.3, N * C)
EACH = {
    "gaussian": GaussianPredictive(M, E, V),
    "student": StudentTPredictive(M, E, V, RNG.uniform(4.0, 30.0, N * C)),
    "mixture": MixturePredictive.of(
        M + 0.2 * RNG.normal(size=(6, N * C)), RNG.uniform(0.02, 0.3, (6, N * C))
    ),
    "noise mixture": MixturePredictive.of_networks(
        f_mean=M + 0.2 * RNG.normal(size=(5, N * C)),
        f_var=RNG.uniform(0.01, 0.1, (5, N * C)),
        log_noise_mean=RNG.normal(size=(5, N * C)) - 3.0,
        log_noise_var=RNG.uniform(0.05, 0.3, (5, N * C)),
        dof=RNG.uniform(5.0, 30.0, (5, N * C)),
    ),
}
Y = np.array([-0.4, 0.3, 1.2])
every = pytest.mark.parametrize("name", EACH)


@every
def test_it_is_the_average_over_completions(name):
    each, y = EACH[name], np.repeat(Y, C)
    mixed = as_mixture(each).over_completions(C, n_members=6)
    np.testing.assert_allclose(mixed.cdf(Y), each.cdf(y).reshape(N, C).mean(axis=1))
    density = np.exp(each.log_prob(y)).reshape(N, C).mean(axis=1)
    np.testing.assert_allclose(np.exp(mixed.log_prob(Y)), density)
    np.testing.assert_allclose(mixed.cdfs(np.stack([Y, Y + 1.0]))[1], mixed.cdf(Y + 1.0))


@every
def test_a_row_is_predicted_alike_wherever_it_stands_and_no_rows_are_no_prediction(name):
    mixed = completed(EACH[name], C)
    for k in range(N):
        alone = completed(EACH[name][k * C : (k + 1) * C], C)
        np.testing.assert_allclose(alone.quantile(0.2), mixed[k : k + 1].quantile(0.2))
        np.testing.assert_allclose(alone.log_prob(Y[[k]]), mixed.log_prob(Y)[[k]])
    for none in (mixed[:0], mixed[:0][:0], completed(EACH[name][:0], C)):
        assert len(none) == len(none.crps(Y[:0])) == len(none.interval(0.9)) == 0
        assert len(none.is_finite) == none.sample(np.random.default_rng(0), 3).shape[1] == 0


@every
def test_variances_add_up(name):
    each = EACH[name]
    mixed = completed(each, C)
    means = each.mean.reshape(N, C)
    np.testing.assert_allclose(mixed.mean, means.mean(axis=1))
    np.testing.assert_allclose(mixed.epistemic_var, each.epistemic_var.reshape(N, C).mean(axis=1))
    second = (each.mean**2 + each.var).reshape(N, C).mean(axis=1)
    np.testing.assert_allclose(mixed.var, second - mixed.mean**2)
    np.testing.assert_allclose(mixed.gap_share, means.var(axis=1) / mixed.var)
    np.testing.assert_allclose(mixed.rescaled(1.0, 2.0).gap_share, mixed.gap_share)
    both = pooled([each[:2], mixed], [np.array([1, 3]), np.array([0, 2, 4])])
    np.testing.assert_allclose(both.gap_share[[0, 2, 4]], mixed.gap_share)
    np.testing.assert_allclose(both.gap_share[[1, 3]], 0.0)


def test_equal_completions_are_predicted_once_and_count_as_often_as_they_are_drawn():
    X = np.column_stack([RNG.integers(0, 2, 300), RNG.normal(size=300), np.arange(300.0)])
    gaps = X[:8].copy()
    gaps[[1, 4], 0] = gaps[[4, 6], 1] = np.nan
    inputs, asked = GaussianCopula.fit(X), []

    def f(rows):
        asked.extend(map(tuple, rows))
        return rows[:, :1] * 2.0 + rows[:, 1:2] ** 2

    mixed = over_gaps(f, gaps, inputs)
    assert len(asked) == len(set(asked)) <= 5 + 2 + 2 * COMPLETIONS
    np.testing.assert_allclose(mixed, [f(rows).mean(axis=0) for rows in inputs.completions(gaps)])


def test_every_completion_keeps_some_members_in_turns():
    means = np.arange(6.0)[:, None] * np.ones(12)
    some = completed(MixturePredictive.of(means, np.ones((6, 12))), 6).means
    np.testing.assert_array_equal(
        np.sort(some, axis=0), np.repeat(np.arange(6.0), 2)[:, None] + [0.0, 0.0]
    )
    np.testing.assert_array_equal(some[:2, 0], [0.0, 3.0])


def test_what_a_gap_says_of_a_class_is_no_doubt_about_the_weights():
    p = RNG.dirichlet(np.ones(3), N * C)
    inside = 0.7 * -np.sum(p * np.log(p), axis=1)
    each = ClassPredictive(p, inside, np.array(["a", "b", "c"]))
    mixed = completed(each, C)
    np.testing.assert_allclose(mixed.proba, p.reshape(N, C, 3).mean(axis=1))
    np.testing.assert_allclose(
        mixed.mutual_information, each.mutual_information.reshape(N, C).mean(axis=1)
    )
    removed = mixed.entropy - each.entropy.reshape(N, C).mean(axis=1)
    np.testing.assert_allclose(mixed.gap_share, removed / mixed.entropy)
    both = ClassPredictive.joined([each[:1], mixed])
    np.testing.assert_allclose(both.gap_share, [0.0, *mixed.gap_share])
    np.testing.assert_allclose(both[1:].gap_share, mixed.gap_share)


def test_one_of_each_row():
    drawn = np.arange(24.0).reshape(1, 24, 1)
    kept = one_of_each(drawn, C, np.array([[0.0, 0.5, 0.999]]))
    np.testing.assert_array_equal(kept[0, :, 0], [0.0, 12.0, 23.0])
