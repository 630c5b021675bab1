"""The hyper-parameters that many estimators of trained networks have, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, Literal

import optax

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.params import ACTIVATION, COUNT, POSITIVE, SHARE, as_sizes
from bayesprop.estimators.shell import PassParams
from bayesprop.model.task import Classes, Task
from bayesprop.networks.gradient_method import GradientMethod
from bayesprop.networks.likelihoods import (
    Categorical,
    InputNoise,
    KnownNoise,
    LearnedNoise,
    NetworkLikelihood,
)
from bayesprop.networks.training import build
from bayesprop.sampling.deep_ensemble import EarlyStopping, MemberNetworks, point_ensemble


@hyper_parameters
class NetworkParams(PassParams):
    """Hyper-parameters of networks that take the steps of a named optimiser."""

    batch_size: int = field(default=32, metadata=COUNT)
    activation: str = field(default="relu", metadata=ACTIVATION)
    learning_rate: float = field(default=1e-2, metadata=POSITIVE)
    optimizer: Literal["adam", "sgd", "rmsprop"] = "adam"
    momentum: float = field(default=0.9, metadata=SHARE)


def network_of(
    params: Any,
    task: Task,
    n_inputs: int,
    n_draws: int,
    method: Callable[..., GradientMethod],
    *args: Any,
    **settings: Any,
) -> Any:
    """Build the `method_class` of an estimator; `args` and `settings` go to the gradient method."""
    likelihood = likelihood_of(task, params)
    return params.method_class(
        build(method, likelihood, params.activation, *args, **settings),
        layer_sizes(n_inputs, params.hidden_layer_sizes, likelihood),
        params.n_epochs,
        params.batch_size,
        n_draws,
    )


def members_of(params: Any, task: Task, n_inputs: int, **settings: Any) -> MemberNetworks:
    """Build networks that are trained together; `settings` go to `point_ensemble`."""
    n_members = int(params.n_members)
    networks = network_of(
        params,
        task,
        n_inputs,
        n_members,
        point_ensemble,
        optimizer_of(params),
        weight_decay=float(params.weight_decay),
        n_members=n_members,
        activation_name=params.activation,
        **settings,
    )
    if not params.early_stopping:
        return networks
    return replace(networks, stopping=EarlyStopping(params.validation_fraction, params.patience))


def check_stopping(params: Any) -> None:
    """Raise ValueError where early stopping does not go with the rest."""
    if params.early_stopping and params.validation_fraction == 0.0:
        raise ValueError("validation_fraction must be > 0 for early_stopping, got 0")
    if params.early_stopping and params.warm_start:
        raise ValueError(
            "warm_start must be False with early_stopping=True, because training has ended "
            "where it was best; got True"
        )


def optimizer_of(params: Any) -> optax.GradientTransformation:
    """Build the optimiser that an estimator names."""
    return make_optimizer(params.optimizer, float(params.learning_rate), float(params.momentum))


def likelihood_of(task: Task, params: Any) -> NetworkLikelihood:
    """Build the likelihood of standardised targets, or of codes of classes.

    params
        Whose `noise` is, for numbers, "learned" (one variance a target), "input" (it depends on
        the input), or a variance in y²; and of classes, where there is one, `expectation`.
    """
    if isinstance(task, Classes):
        return Categorical(task.n_classes, getattr(params, "expectation", "taylor"))
    noise, n_targets = params.noise, task.n_outputs
    if noise == "learned":
        return LearnedNoise(n_targets)
    if noise == "input":
        return InputNoise(n_targets)
    variances = {float(noise) / float(scale) ** 2 for scale in task.scaler.scale}
    if len(variances) > 1:
        raise ValueError(
            "noise must be 'learned' or 'input' for several outputs of different scales, got "
            f"the variance {noise!r}"
        )
    return KnownNoise(n_targets, variances.pop())


def layer_sizes(
    n_inputs: int, hidden_layer_sizes: Any, likelihood: NetworkLikelihood
) -> tuple[int, ...]:
    """Units of every layer, from the inputs to the outputs that the likelihood asks for."""
    return (n_inputs, *as_sizes(hidden_layer_sizes), likelihood.n_outputs)


@lru_cache(maxsize=64)
def make_optimizer(
    name: str, learning_rate: float, momentum: float = 0.0
) -> optax.GradientTransformation:
    """Build an optimiser of optax by name; momentum is heavy-ball, of "sgd" alone.

    The very same for the same arguments: its identity keys JAX's compilation.
    """
    if name == "sgd":
        return optax.sgd(learning_rate, momentum=momentum or None)
    return getattr(optax, name)(learning_rate)
