"""Bayes by Backprop: a diagonal Gaussian posterior by gradients through drawn weights.

Blundell, Cornebise, Kavukcuoglu & Wierstra (2015), for any network that is a function of a pytree
of weights. Deviations from the paper: its eq. 2 lacks the average over draws, taken here; and every
batch's cost is divided by the number of rows that it stands for, so that one step size suits data
of any length.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from bayesprop.networks.gradient_method import (
    Apply,
    GradientMethod,
    Info,
    Parameters,
    State,
    clipped,
)
from bayesprop.networks.likelihoods import NetworkLikelihood
from bayesprop.networks.mlp import plain_activation
from bayesprop.networks.priors import ClosedPrior, Prior, log_prior
from bayesprop.numerics import loops
from bayesprop.numerics.loops import Batch
from bayesprop.sampling import mean_field

KL = Literal["closed", "sampled"]
KLWeights = Literal["uniform", "geometric"]
INIT_STD = 0.0067


class FreeEnergy(NamedTuple):
    """Share of the KL less the log-likelihood; the latter alone; nats."""

    value: Float[Array, ""]
    log_likelihood: Float[Array, ""]


def kl_share(
    weights: KLWeights, place: Int[Array, ""], n_batches: int | Float[Array, ""]
) -> Float[Array, ""]:
    """Share of the KL that a batch pays; the shares of an epoch sum to one.

    "uniform": 1 / M (eq. 8). "geometric": 2^(M-i) / (2^M - 1) for batch i = 1..M (section 3.4),
    computed as 2^-i / (1 - 2^-M) because 2^391 is no float32.
    """
    if weights == "uniform":
        return jnp.full((), 1.0 / n_batches)
    return jnp.exp2(-(place + 1.0)) / (1.0 - 2.0**-n_batches)


def free_energy(
    prior: Prior,
    likelihood: NetworkLikelihood,
    params: Parameters,
    noise: PyTree,
    outputs: Float[Array, "b k"],
    batch: Batch,
    *,
    kl: KL,
    share: Float[Array, ""] | float,
) -> FreeEnergy:
    """Estimate share KL[q || p] - sum log p(y | outputs) by one draw (eq. 2, 8 and 9).

    noise
        e of the draw w = m + std e, a pytree like the weights; "closed" does not look at it.
    outputs
        Of the network at the rows of the batch: those of w, or others of the same distribution.
    kl
        "closed", or "sampled", log q(w) - log p(w), whose mean over e ~ N(0, 1) is the KL.
    """
    penalty = _kl(prior, params.weights, noise, kl)
    log_p = jax.vmap(partial(likelihood.log_prob, params.likelihood))(outputs, batch.y)
    total = jnp.sum(batch.weight * log_p)
    return FreeEnergy(share * penalty - total, total)


def bayes_by_backprop(
    apply: Apply,
    likelihood: NetworkLikelihood,
    prior: Prior,
    optimizer: optax.GradientTransformation,
    *,
    n_samples: int = 1,
    kl_weights: KLWeights = "uniform",
    init_std: float = INIT_STD,
    local_reparameterisation: bool = False,
) -> GradientMethod:
    """Build the method: descend the free energy in the mean and in rho of every weight.

    apply
        (weights, one input) -> outputs, for weights of any pytree of float32 arrays.
    prior
        Of single weights; its KL is taken in closed form where there is one (`ClosedPrior`), else
        at the drawn weights.
    n_samples
        Draws of the weights over which a step's gradient is averaged.
    kl_weights
        How the batches of an epoch share the KL: "uniform", or "geometric", the paper's, by which
        the first few batches pay nearly all of it (section 3.4).
    init_std
        Standard deviation of every weight at the start.
    local_reparameterisation
        Draw activations instead of weights (Kingma et al. 2015); `apply` must be `plain_apply`
        or a partial of it.

    The gradient does not need the value of the KL, which is costly: `update` computes it once an
    epoch. Raises ValueError for a combination that does not exist.
    """
    optimizer = clipped(optimizer, likelihood)
    kl: KL = "closed" if isinstance(prior, ClosedPrior) else "sampled"
    nonlinearity = plain_activation(apply) if local_reparameterisation else None
    if local_reparameterisation and nonlinearity is None:
        raise ValueError(
            "local_reparameterisation must be False for apply other than plain_apply or a partial "
            f"of it, because it needs to know the layers; got {apply!r}"
        )

    def objective(params: Parameters, key: PRNGKeyArray, batch: Batch, share: Array) -> FreeEnergy:
        q = params.weights
        noise = mean_field.draw_noise(key, q.m)
        if nonlinearity is None:
            outputs = jax.vmap(partial(apply, mean_field.weights_at(q, noise)))(batch.x)
        else:
            outputs = mean_field.sample_outputs(key, q, batch.x, nonlinearity)
        return free_energy(prior, likelihood, params, noise, outputs, batch, kl=kl, share=share)

    def gradient(
        params: Parameters, key: PRNGKeyArray, batch: Batch, share: Array
    ) -> tuple[Parameters, Float[Array, ""]]:
        def one(key: PRNGKeyArray) -> tuple[Parameters, Float[Array, ""]]:
            return jax.grad(objective, has_aux=True)(params, key, batch, share)

        if n_samples == 1:
            return one(key)
        keys = jax.random.split(key, n_samples)
        if jax.default_backend() != "cpu":  # an accelerator waits for launches, a CPU for memory
            return jax.tree.map(partial(jnp.mean, axis=0), jax.vmap(one)(keys))

        def add(total: PyTree, key: PRNGKeyArray) -> tuple[PyTree, None]:
            return jax.tree.map(jnp.add, total, one(key)), None

        total, _ = jax.lax.scan(add, one(keys[0]), keys[1:])
        return jax.tree.map(lambda part: part / n_samples, total)

    def update(key: PRNGKeyArray, state: State, batch: Batch) -> tuple[State, Info]:
        share = kl_share(kl_weights, batch.place, batch.n_batches)
        slopes, log_likelihood = gradient(state.params, key, batch, share)
        a_row = batch.n_batches / batch.n_total
        moved = state.descend(optimizer, jax.tree.map(lambda slope: a_row * slope, slopes))
        q = moved.params.weights
        kl_now = loops.once_an_epoch(
            batch, lambda: _kl(prior, q, mean_field.draw_noise(key, q.m), kl)
        )
        loss = a_row * (kl_now / batch.n_batches - log_likelihood)
        return moved, Info(loss, a_row * log_likelihood, kl_now)

    init = mean_field.starts(likelihood, optimizer, init_std)
    return GradientMethod(apply, likelihood, init, update, mean_field.sample, mean_field.mean)


def _kl(prior: Prior, q: mean_field.MeanField, noise: PyTree, kl: KL) -> Float[Array, ""]:
    if kl == "closed":
        return mean_field.kl(cast(ClosedPrior, prior), q)
    return mean_field.log_q(q, noise) - log_prior(prior, mean_field.weights_at(q, noise))
