"""The library's own training of the same network: whole epochs in one compiled call."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from bayesprop.moments.closed_form_vi import Model, closed_form_vi
from bayesprop.networks.gradient_method import GradientMethod
from bayesprop.networks.likelihoods import Categorical
from bayesprop.networks.mlp import init_weights, plain_apply
from bayesprop.networks.priors import NormalPrior, Prior, ScaleMixturePrior
from bayesprop.numerics import loops
from bayesprop.numerics.rows import Rows
from bayesprop.sampling.bayes_by_backprop import bayes_by_backprop
from bayesprop.sampling.mc_dropout import Rates, mc_dropout
from bayesprop.sampling.point_network import point_network
from benchmarks.network_problem import (
    BATCH_SIZE,
    LEARNING_RATE,
    RATES,
    SIZES,
    Epoch,
    digits,
)

_LIKELIHOOD, _SGD = Categorical(SIZES[-1]), optax.sgd(LEARNING_RATE)


def train_epoch(method: GradientMethod) -> Epoch:
    """Give a function that trains an epoch."""
    x, y = digits()
    data = Rows(jnp.asarray(x), jnp.asarray(y, jnp.int32), jnp.ones(len(x)))
    key_weights, key_state = jax.random.split(jax.random.key(0))
    state = method.init(key_state, init_weights(key_weights, SIZES))
    keys = iter(jax.random.split(jax.random.key(1), 10_000))

    def epoch() -> None:
        nonlocal state
        state, info = loops.epoch(method.update, state, next(keys), data, batch_size=BATCH_SIZE)
        jax.block_until_ready((state, info))

    return epoch


def back_prop(prior: Prior, *, local: bool = False) -> GradientMethod:
    """Build Bayes by Backprop, with the KL in closed form where the prior has it."""
    return bayes_by_backprop(plain_apply, _LIKELIHOOD, prior, _SGD, local_reparameterisation=local)


METHODS: dict[str, Callable[[], GradientMethod]] = {
    "plain": lambda: point_network(plain_apply, _LIKELIHOOD, _SGD),
    "mc-dropout": lambda: mc_dropout(
        plain_apply, _LIKELIHOOD, _SGD, rates=Rates(*RATES), length_scale=1.0
    ),
    "bbb-mixture": lambda: back_prop(ScaleMixturePrior()),
    "bbb-gaussian": lambda: back_prop(NormalPrior()),
    "local": lambda: back_prop(NormalPrior(), local=True),
    # It brings its own optimiser, Adam.
    "closed-form": lambda: closed_form_vi(Model(_LIKELIHOOD), learning_rate=LEARNING_RATE),
}

EPOCHS: dict[str, Callable[[], Epoch]] = {
    name: lambda build=build: train_epoch(build()) for name, build in METHODS.items()
}
