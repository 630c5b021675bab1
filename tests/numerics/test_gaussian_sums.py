"""Sums of Gaussians, compiled, against scipy: its normals, its roots and its integrals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from bayesprop.distributions import mixture
from bayesprop.distributions.mixture import Components
from bayesprop.numerics import kernel_sums

N, N_PARTS = 4, 11  # not a multiple of the lanes


def parts(seed: int = 0) -> Components:
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.ones(N_PARTS), N)
    share[0, 3] = 0.0
    share[0] /= share[0].sum()
    return Components(share, rng.normal(0.0, 3.0, (N, N_PARTS)), rng.gamma(1.0, 1.0, (N, N_PARTS)))


def below(p: Components, i: int, y: float) -> float:
    return float(np.sum(p.share[i] * stats.norm.cdf(y, p.m[i], p.std[i])))


def root(p: Components, i: int, level: float) -> float:
    return optimize.brentq(lambda y: below(p, i, y) - level, -80.0, 80.0, xtol=1e-13)


@pytest.mark.parametrize("where", [-40.0, -6.0, 0.0, 1.5, 9.0, 400.0])
def test_distribution_is_the_sum_of_normals(where: float):
    p = parts()
    y = where + np.array([[0.0], [0.1]]) * np.ones(N)
    got = mixture.distribution(p, y)
    exact = [[below(p, i, y[q, i]) for i in range(N)] for q in range(2)]
    np.testing.assert_allclose(got, exact, rtol=1e-11, atol=1e-140)


def test_distribution_ends_at_0_and_1_and_hands_on_nan():
    p, at = parts(), np.full((4, N), [[-np.inf], [np.inf], [np.nan], [0.0]])
    got = mixture.distribution(p, at)[:3]
    np.testing.assert_allclose(got, np.full((3, N), [[0.0], [1.0], [np.nan]]), atol=1e-15)
    p.m[1, 2] = p.std[2, 3] = np.nan
    is_nan = np.isnan(mixture.distribution(p, at)[3])
    assert is_nan.tolist() == [False, True, True, False]


def test_quantiles_are_roots_of_the_distribution():
    p, levels = parts(1), np.array([1e-6, 0.05, 0.5, 0.9, 1.0 - 1e-6])
    exact = [[root(p, i, level) for i in range(N)] for level in levels]
    np.testing.assert_allclose(mixture.quantiles(p, levels), exact, rtol=1e-6, atol=1e-7)


def test_quantiles_of_one_gaussian_and_of_none_that_is_a_number():
    one = Components(np.ones((1, 1)), np.array([[2.0]]), np.array([[3.0]]))
    assert mixture.quantiles(one, np.array([0.9]))[0, 0] == stats.norm.ppf(0.9, 2.0, 3.0)
    wrong = one._replace(m=np.array([[np.nan]]))
    assert np.isnan(mixture.quantiles(wrong, np.array([0.9]))).all()


@pytest.mark.parametrize("shape", [1.05, 3.0, 40.0])
@pytest.mark.parametrize("l_v", [1e-12, 0.02, 0.4, 4.0])
def test_scale_shares_are_the_density_of_a_log_gamma_less_a_normal(shape: float, l_v: float):
    from bayesprop.distributions import mixture

    nodes = mixture.scale_nodes(np.array([[l_v]]), np.array([[2.0 * shape]]))
    log_gamma = stats.loggamma(shape, loc=-np.log(shape))
    at = nodes.at.ravel()

    def density(s: float) -> float:
        if l_v < 1e-6:
            return log_gamma.pdf(s)
        z = s + np.sqrt(l_v) * np.linspace(-9.0, 9.0, 4001)
        return integrate.simpson(log_gamma.pdf(z) * stats.norm.pdf(z, s, np.sqrt(l_v)), x=z)

    exact = np.array([density(s) for s in at]) * mixture.WIDTH
    np.testing.assert_allclose(nodes.share.ravel(), exact / exact.sum(), atol=3e-4)


def test_no_other_program_is_compiled_for_rows_that_may_not_be_written_to():
    p, y = parts(), np.zeros((1, N))
    mixture.distribution(p, y)
    y.flags.writeable = False
    mixture.distribution(p, y)
    assert len(kernel_sums.distribution.signatures) == 1
