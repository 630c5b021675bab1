"""The standard normal tail, for lanes of float64.

Everything works on one float64 or on lanes of them. Relative errors against exact arithmetic are
below 1e-13 over the whole range, tails included.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from bayesprop.simd.lanes import (
    inlined,
    polynomial,
    scaled_by_power,
    select,
)

LARGEST_ALPHA = 26.0
"""Standard deviations beyond which nothing is told apart: phi(26) is 1e-147, and further out its
products become subnormal numbers, which cost a hundred cycles each."""

_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the lowest bits
_LOG2_E = 1.0 / math.log(2.0)
_LEAST_EXPONENT = -1000.0
_PHI_0 = 1.0 / math.sqrt(2.0 * math.pi)

# 2^f on [-1/2, 1/2]: interpolation at the Chebyshev nodes, relative error 3e-16.
_EXP2_FRACTION = (
    1.0,
    0.69314718055994998,
    0.24022650695910098,
    0.055504108664447719,
    0.0096181291076068885,
    0.0013333558230164974,
    0.0001540353044173605,
    1.5252657260200837e-5,
    1.321544258792169e-6,
    1.0208690299958306e-7,
    7.0725859492692237e-9,
)
_exp2_fraction = polynomial(_EXP2_FRACTION)
_pdf_fraction = polynomial([_PHI_0 * c for c in _EXP2_FRACTION])

# J2 on [0, 26] as a quotient, minimax by weighted least squares, relative error 1.2e-15. All terms
# are positive, so rounding adds next to nothing.
_j2_numerator = polynomial(
    (
        1.25331413731550173,
        1.26734866054747844,
        0.666360322142463464,
        0.22822472605119706,
        0.0548325342627256431,
        0.0094028669196104734,
        0.00112458071033242006,
        0.000086463135725652788,
        3.3449448567153813e-6,
    )
)
_j2_denominator = polynomial(
    (
        1.0,
        2.60696705101098417,
        3.19179613400869684,
        2.42886220306695903,
        1.28037081587854851,
        0.492764538661829176,
        0.14193261281576262,
        0.0307749258935075568,
        0.00496082383487694949,
        0.000572325169039360597,
        0.0000432315681333950639,
        1.67247242673481163e-6,
    )
)


class TailIntegrals(NamedTuple):
    """J_n(u) = E[(x - u)^n; x > u] / phi(u) for a standard normal x; j0 is the Mills ratio."""

    j0: Any
    j1: Any
    j2: Any


@inlined
def exp2(x):
    """2^x for |x| < 1022."""
    shifted = x + _ROUND
    return scaled_by_power(_exp2_fraction(x - (shifted - _ROUND)), shifted)


@inlined
def exp(x):
    """e^x for x < 700, no less than 1e-301."""
    x = x * _LOG2_E
    return exp2(select(x < _LEAST_EXPONENT, _LEAST_EXPONENT, x))


@inlined
def normal_pdf(u):
    """phi(u) for |u| <= 26."""
    x = (-0.5 * _LOG2_E) * (u * u)
    shifted = x + _ROUND
    return scaled_by_power(_pdf_fraction(x - (shifted - _ROUND)), shifted)


@inlined
def tail_integrals(u):
    """J0, J1, J2 for 0 <= u <= 26, all to full relative accuracy.

    From J2 alone, since J0 = J2 + u J1 and 1 = J1 + u J0: no difference of nearly equal terms,
    where J1 = 1 - u J0 and J2 = J0 - u J1 would lose u^4 / 2 units in the last place.
    """
    denominator, square = _j2_denominator(u), 1.0 + u * u
    inverse = 1.0 / (denominator * square)
    j2 = _j2_numerator(u) * (square * inverse)
    j1 = (1.0 - u * j2) * (denominator * inverse)
    return TailIntegrals(j2 + u * j1, j1, j2)
