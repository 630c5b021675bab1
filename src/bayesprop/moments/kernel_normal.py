"""The standard normal tail and the ReLU of a Gaussian, for the compiled engine.

Everything works on one float64 or on lanes of them. Relative errors against exact arithmetic are
below 1e-13 over the whole range, tails included.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from bayesprop.moments.kernel_lanes import (
    absolute,
    inlined,
    polynomial,
    rsqrt_guess,
    scaled_by_power,
    select,
)

LARGEST_ALPHA = 26.0
"""|mean| / std of a ReLU input is clamped here; phi(26) is 1e-147, and further out its products
become subnormal numbers, which cost a hundred cycles each."""

_SMALLEST_VAR = 1e-280
_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the lowest bits
_LOG2_E = 1.0 / math.log(2.0)
_PHI_0 = 1.0 / math.sqrt(2.0 * math.pi)

# 2^f on [-1/2, 1/2]: interpolation at the Chebyshev nodes, relative error 4e-18.
_exp2_fraction = polynomial(
    (
        1.0,
        0.69314718055994530925,
        0.24022650695910159567,
        0.055504108664821627039,
        0.0096181291075872566681,
        0.0013333558146406470697,
        0.00015403530463724354209,
        0.000015252733841556772589,
        1.3215432535912376166e-6,
        1.0178057087733941105e-7,
        7.0741942972885210056e-9,
        4.455817908336064493e-10,
    )
)

# (u + 6)^3 J2(u) in t, which runs over [-1, 1] as 1 / (u + 6) does over [1/32, 1/6]; Chebyshev
# nodes, relative error 3e-15. J2 is entire; the ratios of J's, which would need no division by
# 1 + u^2, have poles and converge four times more slowly.
_scaled_second_integral = polynomial(
    (
        22.325265337880032604,
        48.770323278430542319,
        62.189600139068440598,
        57.603053733129536684,
        41.460836948075418106,
        23.639159853991452479,
        10.557528227783255212,
        3.5042791959659689951,
        0.72493843324994618348,
        0.0069268349888006560574,
        -0.053180981684100075532,
        -0.015158270075190533682,
        0.00077814430530599447444,
        0.0014456210833031371077,
        0.00018034225932728077904,
        -0.00010389349601180265,
        -0.00002855937493763725621,
        6.8190585684540723955e-6,
        3.015094395699358395e-6,
        -3.5285592593366424239e-7,
        -2.0673011895927724704e-7,
    )
)
_MIDDLE, _HALF_WIDTH = 0.098958333333333333333, 0.067708333333333333333


class TailIntegrals(NamedTuple):
    """J_n(u) = E[(x - u)^n; x > u] / phi(u) for a standard normal x; j0 is the Mills ratio."""

    j0: Any
    j1: Any
    j2: Any


class ReluMoments(NamedTuple):
    """Mean and variance of max(a, 0), a ~ N(m_a, v_a), and their four derivatives."""

    m: Any
    v: Any
    dm_dm: Any
    dm_dv: Any
    dv_dm: Any
    dv_dv: Any


@inlined
def exp2(x):  # noqa: ANN001, ANN201
    """2^x for |x| < 1022."""
    shifted = x + _ROUND
    return scaled_by_power(_exp2_fraction(x - (shifted - _ROUND)), shifted)


@inlined
def rsqrt(x):  # noqa: ANN001, ANN201
    """1 / sqrt(x) by Newton's iteration: a third of the cost of a square root and a division."""
    half = 0.5 * x
    y = rsqrt_guess(x)
    y = y * (1.5 - half * y * y)
    y = y * (1.5 - half * y * y)
    y = y * (1.5 - half * y * y)
    return y * (1.5 - half * y * y)


@inlined
def tail_integrals(u):  # noqa: ANN001, ANN201
    """J0, J1, J2 for 0 <= u <= 26, all to full relative accuracy.

    From J2 alone, since J0 = J2 + u J1 and 1 = J1 + u J0: no difference of nearly equal terms,
    where J1 = 1 - u J0 and J2 = J0 - u J1 would lose u^4 / 2 units in the last place.
    """
    shifted, square = u + 6.0, 1.0 + u * u
    both = 1.0 / (shifted * square)
    r = both * square
    j2 = _scaled_second_integral((r - _MIDDLE) * (1.0 / _HALF_WIDTH)) * (r * r * r)
    j1 = (1.0 - u * j2) * (both * shifted)
    return TailIntegrals(j2 + u * j1, j1, j2)


@inlined
def normal_pdf(u):  # noqa: ANN001, ANN201
    """phi(u) for |u| <= 26."""
    return _PHI_0 * exp2((-0.5 * _LOG2_E) * (u * u))


@inlined
def relu_moments(m_a, v_a):  # noqa: ANN001, ANN201
    """Moments of supplement eq. 1-2 with their derivatives, through the tail on the far side of 0.

    With u = |alpha| and x = relu(x) - relu(-x), the moments of the likely side follow from those of
    the unlikely one by sums in which nothing cancels.
    """
    v_a = select(v_a > _SMALLEST_VAR, v_a, _SMALLEST_VAR)
    inverse_std = rsqrt(v_a)
    std = v_a * inverse_std
    alpha = m_a * inverse_std
    u = absolute(alpha)
    u = select(u < LARGEST_ALPHA, u, LARGEST_ALPHA)
    tail = tail_integrals(u)
    pdf = normal_pdf(u)

    on = alpha > 0.0
    far = pdf * tail.j0
    far_m = pdf * tail.j1
    far_v = pdf * tail.j2 - far_m * far_m
    near = 1.0 - far
    cdf = select(on, near, far)
    m = std * far_m + select(on, m_a, 0.0)
    v = v_a * (far_v + select(on, near - far, 0.0))
    return ReluMoments(
        m,
        v,
        cdf,
        0.5 * inverse_std * pdf,
        2.0 * m * select(on, far, near),
        cdf - m * inverse_std * pdf,
    )
