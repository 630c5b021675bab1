"""Likelihoods of a network's outputs: their expectations against quadrature in one and two dims."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from bayesprop.networks.likelihoods import Categorical, InputNoise, KnownNoise, LearnedNoise


def test_known_noise_against_quadrature():
    likelihood = KnownNoise(1, 0.3)
    log_prob = jax.jit(partial(likelihood.log_prob, ()))
    m, v, y = 0.4, 2.0, 1.5
    exact = integrate.quad(
        lambda f: (
            stats.norm(m, np.sqrt(v)).pdf(f) * float(log_prob(jnp.asarray([f]), jnp.asarray([y])))
        ),
        m - 12,
        m + 12,
    )[0]
    ours = likelihood.expected_log_prob((), *(jnp.asarray([a]) for a in (m, v, y)))
    assert float(ours) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("log_noise", [(-1.0, 0.3), (0.5, 1.5)])
def test_input_noise_against_two_dimensional_quadrature(log_noise):
    m_f, v_f, y = 0.2, 0.7, 1.1
    m_l, v_l = log_noise
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    f = m_f + np.sqrt(v_f) * nodes[:, None]
    log_noise_var = m_l + np.sqrt(v_l) * nodes[None, :]
    log_p = stats.norm(f, np.exp(0.5 * log_noise_var)).logpdf(y)
    exact = weights @ log_p @ weights / (2.0 * np.pi)
    ours = InputNoise(1).expected_log_prob(
        (), jnp.asarray([m_f, m_l]), jnp.asarray([v_f, v_l]), jnp.asarray([y])
    )
    assert float(ours) == pytest.approx(exact, rel=1e-5)


def test_learned_noise_is_known_noise_of_its_parameter():
    learned, params = LearnedNoise(2), jnp.log(jnp.array([0.5, 2.0]))
    f, y = jnp.array([0.1, -0.4]), jnp.array([1.0, 0.2])
    true = stats.norm(f, np.sqrt([0.5, 2.0])).logpdf(y).sum()
    assert float(learned.log_prob(params, f, y)) == pytest.approx(true, rel=1e-6)
    m, v = learned.observe(params, jnp.zeros((7, 2)))
    assert m.shape == v.shape == (7, 2)
    assert learned.init().shape == (2,)


def test_outputs_of_input_noise_are_means_then_log_variances():
    likelihood = InputNoise(2)
    assert likelihood.n_outputs == 4
    m, v = likelihood.observe((), jnp.array([1.0, 2.0, 0.0, np.log(3.0)]))
    np.testing.assert_allclose(m, [1.0, 2.0])
    np.testing.assert_allclose(v, [1.0, 3.0], rtol=1e-6)


@pytest.mark.parametrize("expectation", ["taylor", "exact"])
def test_classes_without_variance_have_their_log_probability(expectation):
    likelihood = Categorical(4, expectation)
    f = jnp.array([0.3, -1.0, 2.0, 0.0])
    expected_log_prob = jax.jit(partial(likelihood.expected_log_prob, ()))
    for y in range(4):
        expected = expected_log_prob(f, jnp.zeros(4), jnp.asarray(y))
        true = likelihood.log_prob((), f, jnp.asarray(y))
        assert float(true) == pytest.approx(float(np.log(jax.nn.softmax(f)[y])), rel=1e-5)
        assert float(expected) == pytest.approx(float(true), abs=3e-5)


def test_two_unsure_classes_against_quadrature():
    """Log softmax of two depends on their difference only."""
    m, v = np.array([1.0, -0.5]), np.array([6.0, 3.0])
    gap = stats.norm(m[0] - m[1], np.sqrt(v.sum()))
    exact = integrate.quad(lambda d: -np.logaddexp(0, -d) * gap.pdf(d), -30, 30, points=[0.0])[0]
    args = (jnp.asarray(m), jnp.asarray(v), jnp.asarray(0))

    def expected(expectation):
        likelihood = Categorical(2, expectation)
        return float(jax.jit(partial(likelihood.expected_log_prob, ()))(*args))

    assert expected("exact") == pytest.approx(exact, abs=1e-4)
    assert abs(expected("taylor") - exact) > 0.1


@pytest.mark.parametrize(
    ("likelihood", "params"),
    [
        (KnownNoise(2, 0.3), ()),
        (LearnedNoise(2), np.array([-1.0, 0.5], np.float32)),
        (InputNoise(1), ()),
        (Categorical(3), ()),
    ],
    ids=lambda one: type(one).__name__,
)
def test_information_is_the_expected_second_derivative(likelihood, params):
    """E[-d² log p / df²] over y ~ p(y | f), the derivative by autodiff, y by quadrature."""
    f = jnp.array([0.4, -0.7, 0.2])[: likelihood.n_outputs]
    second = jax.jit(jax.hessian(likelihood.log_prob, argnums=1))
    if isinstance(likelihood, Categorical):
        parts = [jax.nn.softmax(f)[k] * second(params, f, k) for k in range(3)]
        expected = -sum(parts)
    else:
        nodes, weights = np.polynomial.hermite_e.hermegauss(5)
        mean, var = likelihood.observe(params, f)
        parts = [second(params, f, mean + z * jnp.sqrt(var)) for z in nodes]
        expected = -sum(w * part for w, part in zip(weights / weights.sum(), parts, strict=True))
    np.testing.assert_allclose(likelihood.information(params, f), expected, atol=2e-5)


def test_noise_that_depends_on_the_input_stays_within_what_a_target_can_have():
    # On the row of protein that lies furthest out the exponential gave 20 000 standard deviations.
    far = jnp.array([[0.0, 30.0], [0.0, 2.0], [0.0, -300.0]])
    std = np.sqrt(InputNoise(1).observe((), far).v[:, 0])
    assert 30.0 < std[0] < 40.0
    np.testing.assert_allclose(std[1], np.exp(1.0), rtol=1e-6)
    assert 0.0 < std[2] < 1e-4
    # Where training has gone too far it must find back.
    slope = jax.grad(InputNoise(1).log_prob, argnums=1)((), far[0] / 2.0, jnp.zeros(1))
    assert float(slope[1]) < -0.4
