"""Expectations of the softmax against Monte Carlo, two-dimensional quadrature and identities."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from bayesprop.numerics import softmax_expectations as softmax

MOMENTS, ENTROPY = jax.jit(softmax.moments), jax.jit(softmax.expected_entropy)


def f32(*arrays):
    return tuple(jnp.asarray(a, jnp.float32) for a in arrays)


def sampled(m, v, n, seed):
    """Mean and standard error of log-sum-exp, probabilities, p (1 - p) and entropy of draws."""
    draws = np.random.default_rng(seed).standard_normal((n, len(m))) * np.sqrt(v) + m
    lse = special.logsumexp(draws, axis=1)
    p = np.exp(draws - lse[:, None])
    entropy = lse - np.sum(p * draws, axis=1)
    columns = np.column_stack([lse, p, p * (1.0 - p), entropy])
    return columns.mean(axis=0), columns.std(axis=0) / np.sqrt(n)


@pytest.mark.parametrize("n_classes", [2, 10, 100])
@pytest.mark.parametrize("variance", [0.1, 1.0, 5.0, 20.0, 100.0])
def test_against_draws(n_classes, variance):
    rng = np.random.default_rng([n_classes, int(10 * variance)])
    m = 2.0 * rng.standard_normal(n_classes)
    v = variance * np.exp(0.5 * rng.standard_normal(n_classes))
    m, v = (np.asarray(a, np.float64) for a in f32(m, v))
    n = 100_000 if n_classes < 100 else 10_000
    true, se = sampled(m, v, n, seed=n_classes)
    found = MOMENTS(*f32(m, v))
    entropy = ENTROPY(*f32(m, v), found)
    ours = np.concatenate([[found.log_sum_exp], found.proba, found.slope, [entropy]])
    # 203 comparisons at most: 5 standard errors, and the quadrature's own error.
    assert (np.abs(ours - true) < 5.0 * se + 2e-4).all()


@pytest.mark.parametrize(
    ("m", "v"),
    [((0.3, -0.2), (0.5, 2.0)), ((1.0, 0.0), (40.0, 1e-3)), ((0.0, 2.0), (1.3, 1.2))],
)
def test_two_classes_against_one_gaussian(m, v):
    """Only a_1 - a_2 matters: log-sum-exp = a_2 + softplus(difference), and the sigmoid."""
    gap = stats.norm(m[0] - m[1], np.sqrt(v[0] + v[1]))

    def mean_of(f):
        reach = gap.mean() + gap.std() * np.array([-9.0, 9.0])
        args = {"points": sorted({gap.mean(), 0.0}), "limit": 200, "epsabs": 1e-11}
        return integrate.quad(lambda d: f(d) * gap.pdf(d), *reach, **args)[0]

    found = MOMENTS(*f32(m, v))
    log_sum_exp = m[1] + mean_of(lambda d: np.logaddexp(0.0, d))
    assert float(found.log_sum_exp) == pytest.approx(log_sum_exp, abs=5e-5)
    assert float(found.proba[0]) == pytest.approx(mean_of(special.expit), abs=1e-4)
    slope = mean_of(lambda d: special.expit(d) * special.expit(-d))
    np.testing.assert_allclose(found.slope, slope, atol=5e-4)


def test_probabilities_sum_to_one_and_nothing_overflows():
    """Without any normalisation: the density of the maximum, integrated."""
    rng, moments = np.random.default_rng(0), jax.jit(jax.vmap(softmax.moments))
    for m_scale, v_scale in ((0.0, 1e-8), (1e3, 1.0), (1e3, 1e4), (30.0, 400.0), (1e6, 1e6)):
        m = m_scale * rng.standard_normal((20, 7))
        v = v_scale * rng.gamma(0.5, size=(20, 7))
        found = moments(*f32(m, v))
        assert all(np.isfinite(part).all() for part in found)
        if v_scale <= 400.0:
            np.testing.assert_allclose(found.proba.sum(axis=1), 1.0, atol=2e-3)


def test_derivatives_are_those_of_the_function():
    """Central differences in float64 of the quadrature itself."""
    rng = np.random.default_rng(1)
    m, v = rng.standard_normal(5), rng.gamma(1.0, size=5) * np.array([0.1, 1.0, 4.0, 30.0, 1.0])
    with jax.enable_x64(True):
        value_and_slopes = jax.jit(jax.value_and_grad(softmax.log_sum_exp, argnums=(0, 1)))
        slopes = value_and_slopes(jnp.asarray(m), jnp.asarray(v))[1]

        def moved(by, h):
            at = m + h * (by == 0), v + h * (by == 1)
            return float(value_and_slopes(*map(jnp.asarray, at))[0])

        for by, steps in enumerate((np.full(5, 1e-3), 1e-3 * v)):
            off = np.diag(steps)
            gaps = np.array([moved(by, h) - moved(by, -h) for h in off])
            np.testing.assert_allclose(slopes[by], gaps / (2 * steps), rtol=1e-6, atol=1e-4)


def test_taylor_holds_for_small_variances_only():
    """A second-order expansion: half the variance, a quarter of the error."""
    m = np.random.default_rng(0).standard_normal(10)
    taylor, exact = jax.jit(softmax.taylor), jax.jit(softmax.exact)
    errors = []
    with jax.enable_x64(True):
        for variance in (0.4, 0.2):
            args = (jnp.asarray(m), jnp.full(10, variance), jnp.asarray(3))
            errors.append(float(taylor(*args) - exact(*args)))
    assert abs(errors[0]) < 0.02
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.4)
    far = *f32(m, np.full(10, 100.0)), jnp.asarray(3)
    assert float(taylor(*far)) < float(exact(*far)) - 10.0
