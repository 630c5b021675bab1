"""Mini-batches for probabilistic backpropagation: many rows as one likelihood factor.

The future work of Hernández-Lobato & Adams (2015). Adding up the changes that the rows of a batch
ask for separately overshoots, because they all push the same way: on boston that diverged at 32
rows. The joint density of the batch knows how its outputs covary and needs no damping.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesprop.model.networks import mlp_propagate
from bayesprop.moments.pbp.factors import (
    Gamma,
    Q,
    Rows,
    count_false,
    expected_variance,
    is_gamma,
    matched_gamma,
    moved,
)
from bayesprop.moments.pbp.state import PBPInfo
from bayesprop.numerics import gaussian


class BatchLogZ(NamedTuple):
    """The joint predictive of a mini-batch, and its innovations in the order of the rows."""

    log_z: Float[Array, ""]
    resid: Float[Array, "b o"]
    epistemic_var: Float[Array, "b o"]


def _joint_log_z(
    m: tuple, v: tuple, jacobian: tuple, noise_var: Array, data: Rows, *, activation: str
) -> tuple[Array, BatchLogZ]:
    """Log density of a mini-batch: eq. 12 for several rows at once, whose outputs covary.

    The covariance of two rows is sum_k J_ik v_k J_jk, J the derivative of their means; for one row
    this is eq. 12, for a linear model it is exact. Innovations are the residuals that a row leaves
    once the rows before it are known, as a pass row by row would see them. Rows of weight 0 pad.
    """
    f = jax.vmap(lambda x: mlp_propagate(m, v, x, activation_name=activation))(data.x)
    counted = data.weight > 0.0
    noise = jax.vmap(lambda w: noise_var / w)(jnp.where(counted, data.weight, 1.0))
    var = jnp.where(counted[:, None], f.v + noise, 1.0)
    resid = jnp.where(counted[:, None], data.y - f.m, 0.0)
    off_diagonal = counted[:, None] & counted[None, :] & ~jnp.eye(len(counted), dtype=bool)
    shared = _shared_variance(jacobian, v)
    chol = jnp.linalg.cholesky(
        jax.vmap(lambda cov, var: jnp.where(off_diagonal, cov, jnp.diag(var)))(shared, var.T)
    )
    white = jax.vmap(partial(jax.scipy.linalg.solve_triangular, lower=True))(chol, resid.T).T
    std = jax.vmap(jnp.diag)(chol).T
    log_terms = -0.5 * (gaussian.LOG_2PI + white**2) - jnp.log(std)
    log_z = jnp.sum(jnp.where(counted[:, None], log_terms, 0.0))
    return log_z, BatchLogZ(log_z, std * white, std**2 - noise)


def _shared_variance(jacobian: tuple, v: tuple) -> Float[Array, "o b b"]:
    """Covariance of the outputs of two rows through the weights they share."""
    layers = zip(jacobian, v, strict=True)
    return sum(
        (jnp.einsum("ioab,ab,joab->oij", j, layer_v, j) for j, layer_v in layers),
        start=jnp.asarray(0.0),
    )


def _noise_change(noise: Gamma, batch: BatchLogZ, weight: Array) -> tuple[Gamma, Array]:
    """Sum of what the rows ask of q(gamma), and which rows ask something valid."""

    def asked(epistemic_var: Array, resid: Array, weight: Array) -> tuple[Gamma, Array]:
        matched = matched_gamma(noise, epistemic_var, resid)
        valid = is_gamma(matched) | (weight == 0.0)
        change = (
            jnp.where(valid, weight * (m - o), 0.0) for m, o in zip(matched, noise, strict=True)
        )
        return Gamma(*change), valid

    changes, valid = jax.vmap(asked)(batch.epistemic_var, batch.resid, weight)
    return jax.tree.map(lambda c: jnp.sum(c, axis=0), changes), valid


def absorb_batch(q: Q, data: Rows, *, activation: str) -> tuple[Q, PBPInfo]:
    """Absorb a mini-batch as one likelihood factor: eq. 6-7 from its joint log Z.

    The changes of q(gamma) that the innovations ask for are added up, and shortened where they
    would more than halve what the Gamma holds. A batch of one is `updates.absorb`.
    """
    m, v = q.moments
    noise_var = expected_variance(q.noise)

    def mean(m: tuple, x: Array) -> Array:
        return mlp_propagate(m, v, x, activation_name=activation).m

    jacobian = jax.vmap(jax.jacrev(mean), in_axes=(None, 0))(m, data.x)
    slopes, batch = jax.grad(_joint_log_z, argnums=(0, 1), has_aux=True)(
        m, v, jacobian, noise_var, data, activation=activation
    )
    weights, undone = moved(q, slopes)
    change, valid = _noise_change(q.noise, batch, data.weight)
    length = jnp.minimum(
        _longest_step(q.noise.shape - 1.0, change.shape), _longest_step(q.noise.rate, change.rate)
    )
    noise = jax.tree.map(lambda o, c: o + length * c, q.noise, change)
    counted = (data.weight > 0.0)[:, None]
    share = batch.epistemic_var / (batch.epistemic_var + noise_var[None, :])
    info = PBPInfo(
        batch.log_z,
        jnp.sum(jnp.where(counted, share, 0.0)) / share.shape[1],
        weights_undone=undone,
        noise_kept=count_false(valid),
        steps_damped=count_false(length >= 1.0),
    )
    return Q(weights, noise), info


def _longest_step(room: Array, change: Array) -> Array:
    """Longest step, at most 1, that uses up no more than half of the room."""
    falling = change < 0.0
    return jnp.where(falling, jnp.minimum(1.0, 0.5 * room / jnp.where(falling, -change, 1.0)), 1.0)
