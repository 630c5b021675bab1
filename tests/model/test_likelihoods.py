"""Every closed form of a likelihood equals its base class's quadrature, or says how it errs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from bayesprop.model.likelihoods import GammaPrecisionNoise, Likelihood, Probit
from bayesprop.numerics.gamma import Gamma


@pytest.mark.parametrize("v", [0.05, 4.0])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_override_equals_quadrature(v: float, y: float):
    with jax.enable_x64(True):
        args = (jnp.float64(0.4), jnp.float64(v), jnp.float64(y))
        closed, by_quadrature = Probit().log_z(*args), Likelihood.log_z(Probit(), *args)
    assert float(closed) == pytest.approx(float(by_quadrature), rel=1e-9)


def test_student_t_density_is_that_of_scipy():
    shape, rate = 4.3, 2.1
    with jax.enable_x64(True):
        likelihood = GammaPrecisionNoise(Gamma(jnp.float64(shape), jnp.float64(rate)))
        got = likelihood.log_prob(jnp.float64(0.2), jnp.float64(1.9))
    expected = stats.t(2 * shape, 0.2, np.sqrt(rate / shape)).logpdf(1.9)
    assert float(got) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("shape", "tolerance"), [(6.0, 0.06), (600.0, 6e-4)])
def test_gaussian_for_student_t_errs_less_with_more_data(shape: float, tolerance: float):
    # Supplement section 3: the approximation in eq. 12 improves with the degrees of freedom.
    t = stats.t(2 * shape, 0.0, np.sqrt(0.7))
    f = stats.norm(0.5, np.sqrt(0.4))
    exact = np.log(integrate.quad(lambda x: t.pdf(1.2 - x) * f.pdf(x), -8, 8)[0])
    with jax.enable_x64(True):
        likelihood = GammaPrecisionNoise(Gamma(jnp.float64(shape), jnp.float64(0.7 * shape)))
        got = likelihood.log_z(jnp.float64(0.5), jnp.float64(0.4), jnp.float64(1.2))
    assert float(got) == pytest.approx(exact, abs=tolerance)
