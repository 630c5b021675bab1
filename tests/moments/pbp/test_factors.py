"""Gamma updates of both engines with sixty digits, and in the limits that are known."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from bayesprop.moments.pbp import engine
from bayesprop.moments.pbp.state import Gamma
from bayesprop.moments.pbp.updates import (
    expected_variance,
    gamma_log_partition,
    gaussian_log_partition,
    matched_gamma,
)
from bayesprop.numerics import gaussian
from bayesprop.numerics.compiled import compiled


@compiled
def compiled_gamma(shape, rate, v, square):
    return engine.absorb_gamma(shape, rate, v, square)


def textbook_gamma(shape, rate, v, resid):
    """Eq. 9 and 10 as printed, with Z of eq. 11."""
    shape, rate, v, resid = map(mp.mpf, (shape, rate, v, resid))
    z = [mp.npdf(resid, 0, mp.sqrt(v + rate / (shape - 1 + k))) for k in range(3)]
    new_shape = 1 / (z[0] * z[2] / z[1] ** 2 * (shape + 1) / shape - 1)
    return new_shape, 1 / (z[2] / z[1] * (shape + 1) / rate - z[1] / z[0] * shape / rate)


@pytest.mark.parametrize("shape", [1.3, 6.0, 300.0, 1e6, 1e9])
@pytest.mark.parametrize("v", [0.0, 1e-4, 1.0, 1e3])
@pytest.mark.parametrize("distance", [0.0, 0.3, 1.0, 4.0])
def test_gamma_update_keeps_its_digits(shape, v, distance):
    rate = 0.4 * shape
    resid = distance * np.sqrt(v + rate / (shape - 1.0))
    with mp.workdps(60):
        exact = textbook_gamma(shape, rate, v, resid)
        for value, true in zip(compiled_gamma(shape, rate, v, resid**2), exact, strict=True):
            assert abs((mp.mpf(value) - true) / true) < 1e-12
        with jax.enable_x64(True):
            got = matched_gamma(Gamma(jnp.float64(shape), jnp.float64(rate)), v, resid)
        # The increments are often of order one: compare them, not the sums they vanish in.
        for value, true, old in zip(got, exact, (shape, rate), strict=True):
            error = mp.mpf(float(value)) - true
            assert abs(error) < 1e-13 * shape + 1e-11 * max(1.0, abs(true - old))


@pytest.mark.parametrize(("shape", "tolerance"), [(6.0, 0.06), (600.0, 6e-4)])
def test_gaussian_for_student_t_errs_less_with_more_data(shape: float, tolerance: float):
    # Supplement section 3: the approximation in eq. 12 improves with the degrees of freedom.
    t = stats.t(2 * shape, 0.0, np.sqrt(0.7))
    f = stats.norm(0.5, np.sqrt(0.4))
    exact = np.log(integrate.quad(lambda x: t.pdf(1.2 - x) * f.pdf(x), -8, 8)[0])
    with jax.enable_x64(True):
        noise_var = expected_variance(Gamma(jnp.float64(shape), jnp.float64(0.7 * shape)))
        got = gaussian.log_pdf(jnp.float64(1.2), 0.5, 0.4 + noise_var)
    assert float(got) == pytest.approx(exact, abs=tolerance)


def test_log_partitions_are_log_integrals():
    got = float(gaussian_log_partition(jnp.float32(0.4), jnp.float32(0.9)))
    area = integrate.quad(lambda w: np.exp(w * 0.4 / 0.9 - 0.5 * w * w / 0.9), -12, 12)[0]
    assert got == pytest.approx(np.log(area), rel=1e-5)
    got = float(gamma_log_partition(Gamma(jnp.float32(3.2), jnp.float32(1.7))))
    area = integrate.quad(lambda g: g**2.2 * np.exp(-1.7 * g), 0, 60)[0]
    assert got == pytest.approx(np.log(area), rel=1e-5)
