"""The closed-form objective by a quasi-Newton method, on all rows at once (Roth & Pernkopf 2016).

Without gradient noise a minimum can be recognised: the gradient vanishes there (section 1, ii).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bayesprop.moments.closed_form_vi import Model, Params, Terms, terms
from bayesprop.numerics.loops import Rows
from bayesprop.numerics.precision import in_float64

_MEMORY = 20


class Optimum(NamedTuple):
    """Where L-BFGS stopped.

    loss
        -ELBO a row at every step, nats.
    gradient_norm
        Largest absolute derivative of `loss` at the end.
    converged
        Whether that is at most the tolerance.
    """

    params: Params
    loss: list[float]
    last: Terms
    gradient_norm: float
    converged: bool


@partial(jax.jit, static_argnames="model")
def _loss(model: Model, params: Params, rows: Rows) -> tuple[tuple[Array, Terms], Params]:
    def loss(params: Params) -> tuple[Array, Terms]:
        found = terms(model, params, rows)
        gain = model.likelihood_weight * found.expected_log_lik
        return (found.kl - gain) / jnp.sum(rows.weight), found

    return jax.value_and_grad(loss, has_aux=True)(params)


@in_float64
def fit_lbfgs(
    model: Model, params: Params, rows: Rows, *, tol: float = 1e-4, max_steps: int = 1000
) -> Optimum:
    """Minimise -ELBO from the given parameters, in float64; the result is in their own precision.

    tol
        Of the largest absolute derivative of -ELBO a row.
    max_steps
        Steps of L-BFGS; a step takes one evaluation or a few.
    """
    from scipy.optimize import minimize

    leaves, structure = jax.tree.flatten(params)
    wide = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), (leaves, rows.x, rows.weight))
    leaves_64, x, weight = wide
    y = rows.y if jnp.issubdtype(rows.y.dtype, jnp.integer) else rows.y.astype(jnp.float64)
    rows = Rows(x, y, weight)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]

    def unflat(flat: np.ndarray) -> Params:
        parts = np.split(flat, ends)
        shaped = [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
        return structure.unflatten(shaped)

    def evaluated(flat: np.ndarray) -> tuple[float, np.ndarray]:
        (value, _), slope = _loss(model, unflat(flat), rows)
        return float(value), _flat(slope)

    trace: list[float] = []
    result = minimize(
        evaluated,
        _flat(structure.unflatten(leaves_64)),
        jac=True,
        method="L-BFGS-B",
        callback=lambda intermediate_result: trace.append(float(intermediate_result.fun)),
        options={"maxcor": _MEMORY, "maxiter": max_steps, "maxfun": 20 * max_steps,
                 "gtol": tol, "ftol": 0.0},
    )  # fmt: skip
    (_, last), slope = _loss(model, unflat(result.x), rows)
    gradient_norm = float(np.abs(_flat(slope)).max())
    found = [
        a.astype(leaf.dtype)
        for a, leaf in zip(jax.tree.leaves(unflat(result.x)), leaves, strict=True)
    ]
    last = jax.tree.map(float, last)
    return Optimum(structure.unflatten(found), trace, last, gradient_norm, gradient_norm <= tol)


def _flat(params: Params) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])
