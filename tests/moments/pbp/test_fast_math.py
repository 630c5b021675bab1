"""The special functions of the compiled engine against mpmath, tails included."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from bayesprop.numerics import fast_math
from bayesprop.numerics.compiled import compiled


@compiled
def each_relu(m, v, out):
    for i in range(m.size):
        relu = fast_math.relu_moments(m[i], v[i])
        out[0, i], out[1, i], out[2, i] = relu.m, relu.v, relu.dm_dm
        out[3, i], out[4, i], out[5, i] = relu.dm_dv, relu.dv_dm, relu.dv_dv


@compiled
def each(x, out):
    for i in range(x.size):
        j = fast_math.tail_integrals(x[i])
        out[0, i], out[1, i], out[2, i] = j.j0, j.j1, j.j2
        out[3, i] = fast_math.normal_pdf(x[i])


@compiled
def powers(x, out):
    for i in range(x.size):
        out[i] = fast_math.exp2(x[i])


def relu(m, v):
    """Mean, variance and slopes of units."""
    m, v = np.atleast_1d(m, v)
    out = np.empty((6, m.size))
    each_relu(m, v, out)
    return out


@pytest.fixture(autouse=True)
def _enough_digits():
    with mp.workdps(60):
        yield


def relative(value, truth):
    return abs(float((mp.mpf(float(value)) - truth) / truth))


def test_tail_integrals_to_the_clamp():
    x = np.concatenate([np.linspace(0.0, 6.0, 25), np.linspace(6.5, 26.0, 20)])
    out = np.empty((4, x.size))
    each(x, out)
    for u, (j0, j1, j2, pdf) in zip(map(mp.mpf, x), out.T, strict=True):
        mills = mp.ncdf(-u) / mp.npdf(u)
        once = 1 - u * mills
        assert relative(j0, mills) < 1e-14
        assert relative(j1, once) < 1e-14
        assert relative(j2, mills - u * once) < 1e-14
        assert relative(pdf, mp.npdf(u)) < 2e-13


def test_powers_of_two():
    x = np.concatenate([np.linspace(-1000, 1000, 201), np.linspace(-1, 1, 100)])
    got = np.empty(x.size)
    powers(x, got)
    assert max(map(relative, got, [mp.mpf(2) ** mp.mpf(at) for at in x])) < 1e-15


def truth(m, v):
    """Mean and variance of max(a, 0), a ~ N(m, v), by the textbook, in 60 and more digits."""
    std = mp.sqrt(v)
    alpha = m / std
    cdf, pdf = mp.ncdf(alpha), mp.npdf(alpha)
    mean = m * cdf + std * pdf
    return mean, (m * m + v) * cdf + m * std * pdf - mean**2


@pytest.mark.parametrize("alpha", [-26.0, -17.3, -8.5, -3.0, -0.2, 0.0, 0.7, 4.0, 12.0, 26.0])
@pytest.mark.parametrize("v", [1e-8, 0.37, 2e5])
def test_relu_moments_and_slopes(alpha, v):
    m = alpha * np.sqrt(v)
    mean, var, *slopes = relu(m, v)[:, 0]
    with mp.workdps(400):  # the textbook form cancels at either end
        at = mp.mpf(m), mp.mpf(v)
        assert relative(mean, truth(*at)[0]) < 1e-12
        assert relative(var, truth(*at)[1]) < 1e-12
        kinds = [(0, (1, 0)), (0, (0, 1)), (1, (1, 0)), (1, (0, 1))]
        for slope, (moment, order) in zip(slopes, kinds, strict=True):
            expected = mp.diff(lambda a, b, k=moment: truth(a, b)[k], at, order)
            assert abs(float(slope - expected)) < 1e-12 * max(abs(float(expected)), 1e-140)


def test_beyond_the_clamp():
    """A unit further than 26 standard deviations from 0 is on or off, to 1e-147 of its std."""
    alpha = np.array([-1e100, -40.0, -26.5, 26.5, 40.0, 1e100])
    mean, var, cdf, dm_dv, dv_dm, dv_dv = relu(alpha * 0.5, np.full(6, 0.25))
    off, on = slice(0, 3), slice(3, 6)
    assert np.all((mean[off] >= 0.0) & (mean[off] < 1e-147))
    assert np.all((var[off] >= 0.0) & (var[off] < 1e-147))
    np.testing.assert_array_equal(mean[on], alpha[on] * 0.5)
    np.testing.assert_allclose(var[on], 0.25, rtol=1e-15)
    np.testing.assert_allclose(np.stack([cdf, dv_dv])[:, on], 1.0, rtol=1e-15)
    assert np.all(np.abs(np.stack([cdf, dv_dv])[:, off]) < 1e-146)
    assert np.all(np.abs(dm_dv) < 1e-146)
    assert np.all(np.abs(dv_dm) < 1e-45)


def test_no_variance_at_all():
    mean, var, *slopes = relu(np.array([-2.0, 0.0, 3.0]), np.zeros(3))
    np.testing.assert_array_equal(mean, [0.0, 0.0, 3.0])
    np.testing.assert_array_equal(var, 0.0)
    assert not np.isnan(slopes).any()
