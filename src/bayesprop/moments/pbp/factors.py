"""Factors of probabilistic backpropagation: cavities, the undo rule, mini-batches.

Hernández-Lobato & Adams (2015), section 3.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayesprop.moments.pbp.state import PBPInfo, PBPState
from bayesprop.networks.mlp import mlp_propagate
from bayesprop.numerics import gaussian
from bayesprop.numerics.gaussian import Gaussian, Natural
from bayesprop.numerics.rows import Rows

_SMALLEST_VAR = 1e-100


class Gamma(NamedTuple):
    """Shapes and rates; the mean precision is shape / rate."""

    shape: Float[Array, "..."]
    rate: Float[Array, "..."]


def expected_variance(q: Gamma) -> Float[Array, "..."]:
    """E[1 / precision]; infinite in truth, negative here, for a shape at or below 1."""
    return q.rate / (q.shape - 1.0)


def matched_gamma(q: Gamma, v: Float[Array, "..."], resid: Float[Array, "..."]) -> Gamma:
    """Absorb N(resid | 0, v + 1/precision) into a Gamma by its first two moments.

    Hernández-Lobato & Adams (2015), eq. 9-10, with Z, Z1, Z2 approximated by eq. 11-12: Gaussians
    of variance v + rate / (shape - 1), v + rate / shape and v + rate / (shape + 1). Written in
    differences, because the textbook form subtracts numbers that agree to all digits once the
    shape is large.
    """
    shape, rate = q
    v_0 = v + rate / (shape - 1.0)
    v_1 = v + rate / shape
    v_2 = v + rate / (shape + 1.0)
    gap_01 = rate / (shape * (shape - 1.0))
    gap_12 = rate / (shape * (shape + 1.0))
    resid_sq = resid * resid
    log_ratio_1 = -0.5 * (jnp.log1p(-gap_01 / v_0) + resid_sq * gap_01 / (v_0 * v_1))
    log_ratio_2 = -0.5 * (jnp.log1p(-gap_12 / v_1) + resid_sq * gap_12 / (v_1 * v_2))
    new_shape = 1.0 / jnp.expm1(log_ratio_2 - log_ratio_1 + jnp.log1p(1.0 / shape))
    return Gamma(new_shape, new_shape * rate / (shape * jnp.exp(log_ratio_1)))


class Q(NamedTuple):
    """The posterior of the weights, layer by layer, and of the noise's precision."""

    weights: tuple[Gaussian, ...]
    noise: Gamma

    @property
    def moments(self) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Means and variances of the weights."""
        return tuple(w.m for w in self.weights), tuple(w.v for w in self.weights)


class Factor(NamedTuple):
    """Q, or a part of it, in natural parameters: factors multiply by adding these."""

    weights: tuple[Natural, ...]
    noise: Gamma


def q_of(state: PBPState) -> Q:
    """Return the posterior of a state."""
    weights = tuple(Gaussian(*layer) for layer in zip(state.m, state.v, strict=True))
    return Q(weights, Gamma(state.noise_shape, state.noise_rate))


def with_q(state: PBPState, q: Q) -> PBPState:
    """Replace the posterior of a state."""
    m, v = q.moments
    return state._replace(m=m, v=v, noise_shape=q.noise.shape, noise_rate=q.noise.rate)


def average_factor(state: PBPState) -> Factor:
    """Return the average likelihood factor of stochastic EP."""
    weights = zip(state.lik_prec, state.lik_prec_mean, strict=True)
    noise = Gamma(state.lik_noise_shape, state.lik_noise_rate)
    return Factor(tuple(Natural(*layer) for layer in weights), noise)


def with_average_factor(state: PBPState, factor: Factor) -> PBPState:
    """Replace the average likelihood factor."""
    return state._replace(
        lik_prec=tuple(w.precision for w in factor.weights),
        lik_prec_mean=tuple(w.shift for w in factor.weights),
        lik_noise_shape=factor.noise.shape,
        lik_noise_rate=factor.noise.rate,
    )


def factor_of(q: Q) -> Factor:
    """Return 1/v and m/v, and the noise's Gamma as it is."""
    return Factor(tuple(gaussian.to_natural(w) for w in q.weights), q.noise)


def minus(a: Any, b: Any) -> Any:
    """Subtract leaf by leaf: in natural parameters, divide two distributions."""
    return jax.tree.map(jnp.subtract, a, b)


def count_false(flags: Any) -> Int[Array, ""]:
    """Count the flags that are down, over all layers."""
    return sum((jnp.sum(~flag) for flag in jax.tree.leaves(flags)), start=jnp.asarray(0))


def is_gamma(q: Gamma) -> Array:
    """Whether a mean and a finite expected variance exist."""
    finite = jnp.isfinite(q.shape) & jnp.isfinite(q.rate)
    return finite & (q.shape > 1.0) & (q.rate > 0.0)


def where(flag: Array, new: Any, old: Any) -> Any:
    """Choose leaf by leaf."""
    return jax.tree.map(lambda n, o: jnp.where(flag, n, o), new, old)


def moved(q: Q, slopes: tuple[tuple, tuple]) -> tuple[tuple[Gaussian, ...], Int[Array, ""]]:
    """Move the weights by eq. 6 and 7, from the slopes of log Z by their means and variances.

    A weight keeps its mean and variance where the new variance is not positive (section 3.5);
    returned with the number of those.
    """
    steps = zip(q.weights, *slopes, strict=True)
    new = tuple(gaussian.match_moments(w, by_m, by_v) for w, by_m, by_v in steps)
    valid = tuple((w.v > _SMALLEST_VAR) & jnp.isfinite(w.v) & jnp.isfinite(w.m) for w in new)
    kept = tuple(where(*layer) for layer in zip(valid, new, q.weights, strict=True))
    return kept, count_false(valid)


def cavity_of(state: PBPState, n_removed: Array) -> tuple[Q, Array]:
    """Q without so many average likelihood factors; where that is improper, q itself.

    Stochastic EP (Li, Hernández-Lobato & Turner 2015, algorithm 1). Returned with the number of
    weights whose cavity is improper.
    """
    q = q_of(state)
    rest = jax.tree.map(
        lambda whole, factor: whole - n_removed * factor, factor_of(q), average_factor(state)
    )
    proper = tuple(w.precision > 0.0 for w in rest.weights)
    cavity = tuple(gaussian.from_natural(w) for w in rest.weights)
    weights = tuple(where(*layer) for layer in zip(proper, cavity, q.weights, strict=True))
    return Q(weights, where(is_gamma(rest.noise), rest.noise, q.noise)), count_false(proper)


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
    """Absorb a mini-batch as one likelihood factor: eq. 6-7 from its joint log Z (future work).

    Adding up the changes that the rows ask for separately overshoots, because they all push the
    same way: on boston that diverged at 32 rows. The joint density needs no damping.
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
