"""Variational inference as Graves (2011) had it: squared gradients, and a prior that follows.

The baseline "VI" of Hernández-Lobato & Adams (2015, section 4), and what Bayes by Backprop made
unbiased. With a diagonal Gaussian q and per-row losses l_n(w) = -log p(y_n | x_n, w):

    dE[l]/dm = E[dl/dw],   dE[l]/dv = E[d²l/dw²] / 2  ~  sum_n E[(dl_n/dw)²] / 2

The first two are exact identities of Gaussians; the last step puts the empirical Fisher information
in place of the curvature, which is what biases the gradient of the variance. The prior N(mu, s²) is
one for the whole network and at its optimum for the present q,

    mu = mean(m),   s² = mean(v + (m - mu)²),

so that it needs no gradient of its own.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from bayesprop.networks.gradient_method import (
    Apply,
    GradientMethod,
    Info,
    Parameters,
    State,
    clipped,
)
from bayesprop.networks.likelihoods import NetworkLikelihood
from bayesprop.networks.priors import NormalPrior
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.loops import Batch
from bayesprop.sampling import mean_field
from bayesprop.sampling.mean_field import MeanField, mean, sample


class RowSlopes(NamedTuple):
    """Of the log-likelihoods of a batch at one draw of the weights, weighted by rows.

    total
        Sum of log p.
    of_weights, squared
        Sum of the gradients in w, and of their squares; pytrees like w.
    of_likelihood
        Gradient of the total in the parameters of the likelihood.
    """

    total: Float[Array, ""]
    of_weights: PyTree
    squared: PyTree
    of_likelihood: PyTree


def optimal_prior(q: MeanField) -> Gaussian:
    """Mean and variance of the one Gaussian prior that is nearest to q, over all weights."""
    count = sum(m.size for m in jax.tree.leaves(q.m))
    m = _sum(q.m) / count
    spread = jax.tree.map(lambda w, v: v + (w - m) ** 2, q.m, mean_field.variances(q))
    return Gaussian(m, _sum(spread) / count)


def row_slopes(
    apply: Apply, likelihood: NetworkLikelihood, weights: PyTree, noise: PyTree, batch: Batch
) -> RowSlopes:
    """Differentiate every row's log p by itself; memory is a gradient a row."""

    def log_p(weights: PyTree, noise: PyTree, x: Array, y: Array) -> Float[Array, ""]:
        return likelihood.log_prob(noise, apply(weights, x), y)

    by_row = jax.vmap(jax.value_and_grad(log_p, argnums=(0, 1)), in_axes=(None, None, 0, 0))
    values, (slopes, noise_slopes) = by_row(weights, noise, batch.x, batch.y)
    weighted = partial(jnp.tensordot, batch.weight, axes=1)
    return RowSlopes(
        jnp.sum(batch.weight * values),
        jax.tree.map(weighted, slopes),
        jax.tree.map(lambda slope: weighted(slope**2), slopes),
        jax.tree.map(weighted, noise_slopes),
    )


def graves_vi(
    apply: Apply,
    likelihood: NetworkLikelihood,
    optimizer: optax.GradientTransformation,
    *,
    init_std: float = 0.05,
) -> GradientMethod:
    """Build the method: one draw of the weights a step, the KL shared evenly among the batches.

    Deviation: the step is taken in rho, std = softplus(rho), and not in v, which could turn
    negative; the gradient in v is multiplied by dv/drho.

    init_std
        Standard deviation of every weight at the start.
    """
    optimizer = clipped(optimizer, likelihood)

    def gradient(
        params: Parameters, slopes: RowSlopes, prior: Gaussian, share: float | Array
    ) -> Parameters:
        def of_mean(m: Array, slope: Array) -> Array:
            return share * (m - prior.m) / prior.v - slope

        def of_rho(rho: Array, squared: Array) -> Array:
            std = jax.nn.softplus(rho)
            of_std = std * squared + share * (std / prior.v - 1.0 / std)
            return of_std * jax.nn.sigmoid(rho)

        q = MeanField(
            jax.tree.map(of_mean, params.weights.m, slopes.of_weights),
            jax.tree.map(of_rho, params.weights.rho, slopes.squared),
        )
        return Parameters(q, jax.tree.map(jnp.negative, slopes.of_likelihood))

    def update(key: PRNGKeyArray, state: State, batch: Batch) -> tuple[State, Info]:
        q = state.params.weights
        prior = optimal_prior(q)
        slopes = row_slopes(apply, likelihood, *sample(key, state), batch)
        share = 1.0 / batch.n_batches
        a_row = batch.n_batches / batch.n_total
        uphill = gradient(state.params, slopes, prior, share)
        kl = kl_to_prior(q, prior)
        info = Info(a_row * (share * kl - slopes.total), a_row * slopes.total, kl)
        return state.descend(optimizer, jax.tree.map(lambda slope: a_row * slope, uphill)), info

    init = mean_field.starts(likelihood, optimizer, init_std)
    return GradientMethod(apply, likelihood, init, update, sample, mean)


def kl_to_prior(q: MeanField, prior: Gaussian) -> Float[Array, ""]:
    """KL(q || N(mu, s²)) over all weights, nats."""
    centred = MeanField(jax.tree.map(lambda m: m - prior.m, q.m), q.rho)
    return mean_field.kl(NormalPrior(prior.v), centred)


def _sum(tree: PyTree) -> Float[Array, ""]:
    return jnp.sum(jnp.stack([jnp.sum(leaf) for leaf in jax.tree.leaves(tree)]))
