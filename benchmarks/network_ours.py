"""The library's own training of the same network: whole epochs in one compiled call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from bayesprop.model.gradient_method import GradientMethod
from bayesprop.model.network_likelihoods import Categorical
from bayesprop.model.networks import init_weights, plain_apply
from bayesprop.model.priors import NormalPrior, Prior, ScaleMixturePrior
from bayesprop.moments.closed_form_vi import Model, closed_form_vi
from bayesprop.numerics import loops
from bayesprop.numerics.loops import Rows
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

_LIKELIHOOD = Categorical(SIZES[-1])


def rows() -> Rows:
    """Put the rows on the device."""
    data = digits()
    return Rows(jnp.asarray(data.x), jnp.asarray(data.y, jnp.int32), jnp.ones(len(data.x)))


def start(method: GradientMethod) -> Any:
    """Give a first state."""
    key_weights, key_state = jax.random.split(jax.random.key(0))
    return method.init(key_state, init_weights(key_weights, SIZES))


def train_epoch(method: GradientMethod) -> Epoch:
    """Give a function that trains an epoch."""
    data, state = rows(), start(method)
    keys = iter(jax.random.split(jax.random.key(1), 10_000))

    def epoch() -> None:
        nonlocal state
        state, info = loops.epoch(method.update, state, next(keys), data, batch_size=BATCH_SIZE)
        jax.block_until_ready((state, info))

    return epoch


def plain() -> GradientMethod:
    """Build plain gradient descent."""
    return point_network(plain_apply, _LIKELIHOOD, optax.sgd(LEARNING_RATE))


def dropout() -> GradientMethod:
    """Build Monte Carlo dropout; its weight decay is part of the method."""
    return mc_dropout(
        plain_apply,
        _LIKELIHOOD,
        optax.sgd(LEARNING_RATE),
        rates=Rates(*RATES),
        length_scale=1.0,
    )


def back_prop(prior: Prior, *, local: bool = False) -> GradientMethod:
    """Build Bayes by Backprop, with the KL in closed form where the prior has it."""
    return bayes_by_backprop(
        plain_apply,
        _LIKELIHOOD,
        prior,
        optax.sgd(LEARNING_RATE),
        local_reparameterisation=local,
    )


def closed_form() -> GradientMethod:
    """Build closed-form variational inference, which brings its own optimiser, Adam."""
    return closed_form_vi(Model(_LIKELIHOOD), learning_rate=LEARNING_RATE)


METHODS: dict[str, Callable[[], GradientMethod]] = {
    "plain": plain,
    "mc-dropout": dropout,
    "bbb-mixture": lambda: back_prop(ScaleMixturePrior()),
    "bbb-gaussian": lambda: back_prop(NormalPrior()),
    "local": lambda: back_prop(NormalPrior(), local=True),
    "closed-form": closed_form,
}

EPOCHS: dict[str, Callable[[], Epoch]] = {
    name: lambda build=build: train_epoch(build()) for name, build in METHODS.items()
}
