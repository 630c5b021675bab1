"""Moments of nonlinearities against mpmath, quadrature and finite differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, special, stats

from bayesprop.networks.mlp import ACTIVATIONS
from bayesprop.numerics import activation_moments

mp.mp.dps = 50


def relu_moments_exact(a: float, std: float) -> tuple[float, float]:
    phi, lower = mp.npdf(a), mp.ncdf(a)
    mean = std * (a * lower + phi)
    second = mp.mpf(std) ** 2 * ((1 + mp.mpf(a) ** 2) * lower + a * phi)
    return float(mean), float(second - mean**2)


@pytest.mark.parametrize("std", [1e-3, 0.7, 40.0])
def test_relu_has_no_cancellation(std: float):
    a = np.array([-37, -26, -12, -8, -5.01, -4.99, -3, -1, 0, 0.5, 2, 6, 20, 38])
    mean, var = np.transpose([relu_moments_exact(one, std) for one in a])
    with jax.enable_x64(True):
        got = activation_moments.relu(jnp.asarray(a * std), jnp.full(len(a), std**2))
    np.testing.assert_allclose(got.m, mean, rtol=1e-12)
    np.testing.assert_allclose(got.v, var, rtol=2e-12, atol=1e-300)


@pytest.mark.parametrize("std", [0.01, 1.0, 30.0])
def test_the_relu_of_float32_is_exact_relative_to_the_variance(std: float):
    a = np.linspace(-12.0, 12.0, 49)
    m, v = np.float32(a * std), np.full(49, std**2, np.float32)
    mean, var = np.transpose([relu_moments_exact(one, std) for one in a])
    got = activation_moments.relu(jnp.asarray(m), jnp.asarray(v))
    assert got.m.dtype == jnp.float32
    np.testing.assert_allclose(got.m, mean, rtol=1e-6, atol=1e-6 * std)
    np.testing.assert_allclose(got.v, var, rtol=2e-5, atol=4e-6 * std**2)


def test_the_slopes_of_both_relus_agree():
    a = np.linspace(-9.0, 9.0, 37)
    m, v = 1.3 * a, np.full_like(a, 1.69)
    rule = jax.jit(jax.vmap(jax.jacfwd(lambda p: jnp.stack(activation_moments.relu(*p)))))
    quick = rule(jnp.asarray(np.stack([m, v], axis=1), jnp.float32))
    with jax.enable_x64(True):
        exact = rule(jnp.asarray(np.stack([m, v], axis=1)))
    np.testing.assert_allclose(quick, exact, rtol=1e-5, atol=4e-6)


def test_relu_underflows_to_zero_and_not_to_nan():
    with jax.enable_x64(True):
        got = activation_moments.relu(jnp.float64(-40.0), jnp.float64(1.0))
        slopes = jax.jacobian(lambda at: activation_moments.relu(*at))(jnp.array([-40.0, 1.0]))
    assert float(got.m) == float(got.v) == 0.0
    assert np.isfinite(np.stack(slopes)).all()


MEANS, VARIANCES = np.array([0.4, -2.0, 3.0, 0.0]), np.array([1.7, 0.3, 0.01, 25.0])
FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "erf": special.erf,
    "identity": lambda x: x,
    "sign": np.sign,
}


def moment(f, k, m, v):
    """E[f(a)^k], a ~ N(m, v), by adaptive quadrature with a knot at the kink."""
    low, high = m - 12 * np.sqrt(v), m + 12 * np.sqrt(v)
    kinks = [0.0] if low < 0.0 < high else None
    density = stats.norm(m, np.sqrt(v)).pdf
    bounds = {"points": kinks, "epsabs": 1e-13, "limit": 200}
    return integrate.quad(lambda x: f(x) ** k * density(x), low, high, **bounds)[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_propagate_is_the_expectation_of_apply(name: str):
    f, pairs = FUNCTIONS[name], list(zip(MEANS, VARIANCES, strict=True))
    rule = ACTIVATIONS[name].propagate if name in ACTIVATIONS else activation_moments.sign
    with jax.enable_x64(True):
        got = jax.jit(rule)(jnp.asarray(MEANS), jnp.asarray(VARIANCES))
        if name in ACTIVATIONS:
            x = np.linspace(-2.0, 2.0, 9)
            np.testing.assert_allclose(ACTIVATIONS[name].apply(jnp.asarray(x)), f(x), rtol=1e-6)
    mean, square = (np.array([moment(f, k, *pair) for pair in pairs]) for k in (1, 2))
    np.testing.assert_allclose(got.m, mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(got.v, square - mean**2, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "erf"])
def test_derivatives_are_finite_differences(name: str):
    m, v, step = np.array([-7.0, -1.0, 0.2, 4.0]), np.full(4, 1.3), 1e-5
    rule = jax.jit(ACTIVATIONS[name].propagate)
    with jax.enable_x64(True):
        slopes = jax.jit(jax.vmap(jax.jacfwd(rule, argnums=(0, 1))))(m, v)
        for k, (dm, dv) in enumerate(((step, 0.0), (0.0, step))):
            ahead, back = rule(m + dm, v + dv), rule(m - dm, v - dv)
            for part in (0, 1):
                expected = (np.asarray(ahead[part]) - np.asarray(back[part])) / (2 * step)
                np.testing.assert_allclose(slopes[part][k], expected, rtol=1e-5, atol=1e-11)
