"""Formulas of float32 numbers against scipy, quadrature and finite differences in float64."""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy import integrate, stats

from bayesprop.numerics import float32_math as of

EPS = np.finfo(np.float32).eps
STEP = 1e-4


def each(function, n_out):
    """Evaluate a compiled formula for float32 numbers, one after the other."""

    @njit
    def loop(a, b, c, out):
        for i in range(len(a)):
            out[:, i] = function(a[i], b[i], c[i])

    def of_arrays(*arrays):
        arrays = [np.asarray(one, np.float32) for one in arrays]
        arrays += [arrays[0]] * (3 - len(arrays))
        out = np.empty((n_out, len(arrays[0])), np.float32)
        loop(*arrays, out)
        return out

    return of_arrays


def soft_relu(m, v, softness):
    """Mean and second moment of g(a), a ~ N(m, v), by quadrature."""
    r = np.sqrt(softness)

    def g(a):
        if r == 0.0:
            return max(a, 0.0)
        return a * stats.norm.cdf(a / r) + r * stats.norm.pdf(a / r)

    std = np.sqrt(v)

    def mean_of(power):
        def integrand(a):
            return g(a) ** power * stats.norm.pdf(a, m, std)

        points = [p for p in (0.0, m) if abs(p - m) < 9 * std]
        return integrate.quad(integrand, m - 9 * std, m + 9 * std, points=points, limit=200)[0]

    mean = mean_of(1)
    return mean, mean_of(2) - mean**2


def test_exponentials_and_logarithms_are_those_of_numpy():
    x = np.random.default_rng(0).uniform(-80.0, 80.0, 4000).astype(np.float32)
    exp = each(njit(lambda a, b, c: (of.exp(a),)), 1)(x)[0]
    np.testing.assert_allclose(exp, np.exp(x.astype(np.float64)), rtol=8 * EPS)
    positive = np.exp(x.astype(np.float64)).astype(np.float32)
    log = each(njit(lambda a, b, c: (of.log(a), of.log1p(a))), 2)(positive)
    wide = positive.astype(np.float64)
    np.testing.assert_allclose(log[0], np.log(wide), rtol=8 * EPS, atol=2 * EPS)
    np.testing.assert_allclose(log[1], np.log1p(wide), rtol=8 * EPS)
    both = each(njit(lambda a, b, c: (of.log_add_exp(a, b),)), 1)(x, x[::-1])[0]
    wanted = np.logaddexp(x.astype(np.float64), x[::-1].astype(np.float64))
    np.testing.assert_allclose(both, wanted, rtol=8 * EPS, atol=8 * EPS)


def test_moments_of_rectifiers_are_those_of_quadrature():
    rng = np.random.default_rng(1)
    m, v = rng.normal(0.0, 2.0, 40), np.exp(rng.normal(0.0, 1.0, 40))
    found = each(njit(lambda a, b, c: of.relu_moments(a, b)), 6)(m, v)
    m, v = (np.float32(one).astype(np.float64) for one in (m, v))
    wanted = np.array([soft_relu(*both, 0.0) for both in zip(m, v, strict=True)]).T
    np.testing.assert_allclose(found[:2], wanted, rtol=1e-4, atol=2e-6)
    slopes_agree(found[2:], closed, (m, v))


def closed(m, v):
    """Mean and variance of max(0, a), a ~ N(m, v), in closed form (float64)."""
    std = np.sqrt(v)
    a = m / std
    mean = m * stats.norm.cdf(a) + std * stats.norm.pdf(a)
    return mean, (m * m + v) * stats.norm.cdf(a) + m * std * stats.norm.pdf(a) - mean**2


def slopes_agree(slopes, moments, at):
    """Compare slopes of the mean, then of the variance, by each argument with differences."""
    wanted = []
    for part in range(2):
        for k in range(len(at)):
            up, down = ([x + sign * STEP * (j == k) for j, x in enumerate(at)] for sign in (1, -1))
            wanted.append((moments(*up)[part] - moments(*down)[part]) / (2 * STEP))
    np.testing.assert_allclose(slopes, wanted, rtol=1e-3, atol=2e-5)


def test_soft_rectifiers_have_their_mean_and_nearly_their_variance():
    rng = np.random.default_rng(2)
    m, v, s = rng.normal(0.0, 1.5, 30), np.exp(rng.normal(0, 0.7, 30)), rng.uniform(0.05, 1.0, 30)
    found = each(of.soft_relu_moments, 7)(m, v, s)
    wanted = np.array([soft_relu(*one) for one in zip(m, v, s, strict=True)]).T
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4, atol=2e-6)
    excess = (found[1] - wanted[1]) / v
    assert excess.min() > -1e-5
    assert excess.max() < 0.0035
