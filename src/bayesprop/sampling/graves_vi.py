"""Variational inference as Graves (2011) had it: squared gradients, and a prior that follows.

The baseline "VI" of Hernández-Lobato & Adams (2015, section 4), and what Bayes by Backprop made
unbiased. With a diagonal Gaussian q and per-row losses l_n(w) = -log p(y_n | x_n, w):

    dE[l]/dm = E[dl/dw],   dE[l]/dv = E[d²l/dw²] / 2  ~  sum_n E[(dl_n/dw)²] / 2

The first two are exact identities of Gaussians; the last step puts the empirical Fisher information
in place of the curvature, which is what biases the gradient of the variance. The prior N(mu, s²),
one for the network or one a layer, is at its optimum for the present q (the paper's section 4.2),

    mu = mean(m),   s² = mean(v + (m - mu)²),

so that it needs no gradient of its own; or N(0, s²) of given variances.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

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


def optimal_prior(q: MeanField, *, by_layer: bool = False) -> Gaussian:
    """Mean and variance of the Gaussian prior nearest to q, pytrees of a number a layer.

    by_layer
        Whether every layer has a prior of its own; else all are the one nearest to all weights.
    """
    m, structure = jax.tree.flatten(q.m)
    layers = list(map(Gaussian, m, jax.tree.leaves(mean_field.variances(q))))
    groups = [[layer] for layer in layers] if by_layer else [layers]
    priors = list(map(_nearest, groups)) * (len(layers) // len(groups))
    return Gaussian(*(structure.unflatten(part) for part in zip(*priors, strict=True)))


def _nearest(layers: Sequence[Gaussian]) -> Gaussian:
    """Mean and variance of the Gaussian nearest to the weights of some layers."""
    count = sum(w.m.size for w in layers)
    m = sum((jnp.sum(w.m) for w in layers), start=jnp.asarray(0.0)) / count
    spread = sum((jnp.sum(w.v + (w.m - m) ** 2) for w in layers), start=jnp.asarray(0.0))
    return Gaussian(m, spread / count)


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
    prior_var: Literal["network", "layer"] | float | tuple[float, ...] = "network",
) -> GradientMethod:
    """Build the method: one draw of the weights a step, the KL shared evenly among the batches.

    Deviation: the step is taken in rho, std = softplus(rho), and not in v, which could turn
    negative; the gradient in v is multiplied by dv/drho.

    init_std
        Standard deviation of every weight at the start.
    prior_var
        "network" or "layer": whose weights the one prior, or each, is nearest to. Numbers: the
        variance of a prior around 0, or one a layer.
    """
    optimizer = clipped(optimizer, likelihood)

    def prior_of(q: MeanField) -> Gaussian:
        if isinstance(prior_var, str):
            return optimal_prior(q, by_layer=prior_var == "layer")
        layers, structure = jax.tree.flatten(q.m)
        fixed = [NormalPrior(prior_var).of_layer(k).weight_var for k in range(len(layers))]
        return Gaussian(structure.unflatten([0.0] * len(layers)), structure.unflatten(fixed))

    def gradient(
        params: Parameters, slopes: RowSlopes, prior: Gaussian, share: float | Array
    ) -> Parameters:
        def of_mean(m: Array, slope: Array, prior_m: Array, prior_v: Array) -> Array:
            return share * (m - prior_m) / prior_v - slope

        def of_rho(rho: Array, squared: Array, prior_v: Array) -> Array:
            std = jax.nn.softplus(rho)
            of_std = std * squared + share * (std / prior_v - 1.0 / std)
            return of_std * jax.nn.sigmoid(rho)

        q = MeanField(
            jax.tree.map(of_mean, params.weights.m, slopes.of_weights, *prior),
            jax.tree.map(of_rho, params.weights.rho, slopes.squared, prior.v),
        )
        return Parameters(q, jax.tree.map(jnp.negative, slopes.of_likelihood))

    def update(key: PRNGKeyArray, state: State, batch: Batch) -> tuple[State, Info]:
        q = state.params.weights
        prior = prior_of(q)
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
    """KL(q || N(mu, s²)), mu and s² a number a layer, over all weights, nats."""
    centred = MeanField(jax.tree.map(jnp.subtract, q.m, prior.m), q.rho)
    return mean_field.kl(NormalPrior(tuple(jax.tree.leaves(prior.v))), centred)
