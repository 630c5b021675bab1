"""What training maximises at a row: a bound of the expected log density of Student-t noise.

Jensen's inequality on -log(1 + e): with e = exp(-l_m + l_v / 2) E[(y - f)²],

    E[log t(y | f, exp(l), dof)] >= log G((dof + 1) / 2) - log G(dof / 2)
                                    - [log(pi dof) + l_m + (dof + 1) log(1 + e / dof)] / 2

for l ~ N(l_m, l_v). dof -> infinity gives the Gaussian expectation, which is exact. Here as it is
read after training; `kernel_member.py` has it with its slopes, sixteen rows at a time.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy import special

TILT_LIMIT = 2.0
"""Most that is taken for l_v / 2: exp of a log variance that nobody knows yet."""

Values = Float[np.ndarray, "..."]


def _precision(l_m: Values, l_v: Values) -> Values:
    return np.exp(np.minimum(0.5 * l_v, TILT_LIMIT) - l_m)


def student_t_bound(square: Values, l_m: Values, l_v: Values, dof: Values) -> Values:
    """Lower bound, nats; square is E[(y - f)²]."""
    with np.errstate(over="ignore", invalid="ignore"):  # a fit that failed says so elsewhere
        e = _precision(l_m, l_v) * square
    constant = special.gammaln(0.5 * (dof + 1.0)) - special.gammaln(0.5 * dof)
    constant = constant - 0.5 * np.log(np.pi * dof)
    return constant - 0.5 * l_m - 0.5 * (dof + 1.0) * np.log1p(e / dof)


def row_precision(square: Values, l_m: Values, l_v: Values, dof: Values) -> Values:
    """Minus twice the slope of the bound in `square`."""
    scale = _precision(l_m, l_v)
    return scale * (dof + 1.0) / (dof + scale * square)
