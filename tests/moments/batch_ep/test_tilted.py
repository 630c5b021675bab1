"""Parts of batch EP: tilted distributions against quadrature, grids, conjugacy and draws."""

from __future__ import annotations

from functools import cache

import jax
import numpy as np
import pytest
from scipy import integrate, special, stats

from bayesprop.moments import batch_ep
from bayesprop.numerics.gaussian import Gaussian, Joint, Natural

A = Gaussian(np.array([0.4, -1.1]), np.array([1.5, 0.3]))
V = Joint(np.array([0.8, -0.5, 0.2]), np.array([[0.5, 0.1, 0], [0.1, 0.3, -0.1], [0, -0.1, 0.2]]))
NOISE = Gaussian(np.array(-1.5), np.array(0.8))
Y = 1.3

unit_moments = jax.jit(batch_ep.unit_moments)
output_weight_site = jax.jit(batch_ep.output_weight_site)
noise_moments = jax.jit(batch_ep.noise_moments)
scale_and_weight = jax.jit(batch_ep.scale_and_weight)
log_evidence = jax.jit(batch_ep.log_evidence)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@cache
def unit_moments_by_scipy(a, v):
    """E[erf(a)] and E[erf(a)²] by adaptive quadrature."""
    normal = stats.norm(a, np.sqrt(v))
    span = (a - 10 * np.sqrt(v), a + 10 * np.sqrt(v))

    def moment(power):
        return integrate.quad(lambda t: special.erf(t) ** power * normal.pdf(t), *span)[0]

    return moment(1), moment(2)


def output_by_scipy(a, of_certain=None, v=V):
    """Mean and variance of f, unit by unit; `of_certain`: (unit, value) that is known."""
    first, second = (
        list(part)
        for part in zip(*map(unit_moments_by_scipy, a.m.tolist(), a.v.tolist()), strict=True)
    )
    if of_certain is not None:
        k, value = of_certain
        first[k], second[k] = special.erf(value), special.erf(value) ** 2
    u = np.append(first, 1.0) / np.sqrt(3)
    uu = np.outer(u, u)
    uu[np.diag_indices(3)] = np.append(second, 1.0) / 3
    of_v = v.cov + np.outer(v.m, v.m)
    mean = u @ v.m
    return mean, np.sum(of_v * uu) - mean**2


def likelihood_by_scipy(mean, var, y=Y):
    def integrand(theta):
        log_p = stats.norm.logpdf(y, mean, np.sqrt(var + np.exp(theta)))
        return np.exp(log_p) * stats.norm.pdf(theta, NOISE.m, np.sqrt(NOISE.v))

    return integrate.quad(integrand, -12, 9, epsabs=1e-10)[0]


def moments(points, density):
    density = density / density.sum()
    mean = np.sum(points * density)
    return mean, np.sum((points - mean) ** 2 * density)


def test_the_output_and_its_evidence_are_those_of_quadrature():
    f = batch_ep.output(batch_ep.units(A), V)
    np.testing.assert_allclose((f.m, f.v), output_by_scipy(A), rtol=1e-7)
    nodes = batch_ep.gauss_hermite(NOISE, batch_ep.N_NOISE_NODES)
    expected = np.log(likelihood_by_scipy(*output_by_scipy(A)))
    np.testing.assert_allclose(log_evidence(Y, f, nodes), expected, atol=2e-4)


def test_tilted_units_are_those_of_a_fine_grid():
    found = unit_moments(Y, A, V, batch_ep.gauss_hermite(NOISE, batch_ep.N_NOISE_NODES))
    for k in range(2):
        grid = A.m[k] + np.sqrt(A.v[k]) * np.linspace(-6, 6, 25)
        given = [likelihood_by_scipy(*output_by_scipy(A, (k, a))) for a in grid]
        prior = stats.norm.pdf(grid, A.m[k], np.sqrt(A.v[k]))
        expected = moments(grid, prior * np.array(given))
        np.testing.assert_allclose((found.m[k], found.v[k]), expected, rtol=1e-3)


def test_a_sharp_factor_does_not_fall_between_the_nodes():
    """Noise of 0.03 under a unit of std 0.5: a factor of a twelfth of its width."""
    certain = Joint(np.array([1.5, 0.0, 0.0]), 1e-12 * np.eye(3))
    noise = batch_ep.gauss_hermite(Gaussian(2 * np.log(0.03), 1e-12), batch_ep.N_NOISE_NODES)
    a = Gaussian(np.array([0.2, 0.0]), np.array([0.25, 1.0]))
    found = unit_moments(0.5, a, certain, noise)
    grid = np.linspace(-4, 4, 200_001)
    log_p = stats.norm.logpdf(0.5, 1.5 * special.erf(grid) / np.sqrt(3), 0.03)
    expected = moments(grid, np.exp(log_p) * stats.norm.pdf(grid, 0.2, 0.5))
    np.testing.assert_allclose((found.m[0], found.v[0]), expected, rtol=2e-2)


def test_tilted_noise_is_that_of_quadrature():
    mean, var = output_by_scipy(A)
    grid = np.linspace(-10, 6, 4001)
    density = stats.norm.pdf(Y, mean, np.sqrt(var + np.exp(grid)))
    expected = moments(grid, density * stats.norm.pdf(grid, NOISE.m, np.sqrt(NOISE.v)))
    found = noise_moments(Y, Gaussian(mean, var), NOISE)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("y", [0.2, 3.0])
def test_output_weights_of_uncertain_units_follow_the_slopes_of_the_evidence(y):
    """By central differences of log Z; at 3.0 the site would take certainty away, and does not."""

    def log_z(m, cov):
        return np.log(likelihood_by_scipy(*output_by_scipy(A, v=Joint(m, cov)), y))

    def slope(by_m, by_cov):
        ahead = log_z(V.m + 1e-4 * by_m, V.cov + 1e-4 * by_cov)
        return (ahead - log_z(V.m - 1e-4 * by_m, V.cov - 1e-4 * by_cov)) / 2e-4

    none, each = np.zeros((3, 3)), np.eye(3)
    by_m = np.array([slope(one, none) for one in each])
    by_cov = np.array([[slope(none[0], np.outer(a, b)) for b in each] for a in each])
    mean = V.m + V.cov @ by_m
    cov = V.cov - V.cov @ (np.outer(by_m, by_m) - 2.0 * by_cov) @ V.cov
    values, vectors = np.linalg.eigh(np.linalg.inv(cov) - np.linalg.inv(V.cov))
    assert (values.min() > 0.0) == (y == 0.2)

    site = output_weight_site(y, batch_ep.units(A), V, batch_ep.gauss_hermite(NOISE, 40))
    expected = vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T
    np.testing.assert_allclose(site.precision, expected, atol=1e-6)
    of_v = np.linalg.inv(np.linalg.inv(V.cov) + site.precision)
    np.testing.assert_allclose(of_v @ (np.linalg.solve(V.cov, V.m) + site.shift), mean, atol=1e-6)


@pytest.mark.parametrize(("precision", "shift"), [(0.0, 0.0), (0.5, 0.4), (30.0, -40.0)])
def test_a_prior_with_an_unknown_scale_is_that_of_a_grid(precision, shift):
    scale = Gaussian(np.array(0.5), np.array(0.7))
    of_scale, of_w = scale_and_weight(Natural(precision, shift), scale)
    phi = np.linspace(-5, 6.5, 201)
    w = np.linspace(-60, 60, 6001) if precision < 1 else np.linspace(-8, 8, 1001)
    log_p = stats.norm.logpdf(phi, 0.5, np.sqrt(0.7))[:, None] + (
        stats.norm.logpdf(w[None], 0, np.exp(phi[:, None] / 2)) + shift * w - 0.5 * precision * w**2
    )
    density = np.exp(log_p - log_p.max())
    np.testing.assert_allclose(of_scale, moments(phi, density.sum(1)), rtol=2e-4, atol=1e-4)
    np.testing.assert_allclose(of_w, moments(w, density.sum(0)), rtol=2e-3, atol=1e-4)
