"""What the estimators of trained networks make of their hyper-parameters."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import optax

from bayesprop.estimators.params import as_sizes
from bayesprop.model.network_likelihoods import (
    Categorical,
    GaussianNoise,
    InputNoise,
    KnownNoise,
    LearnedNoise,
    NetworkLikelihood,
)
from bayesprop.model.task import Classes, Task
from bayesprop.model.trained_network import built
from bayesprop.sampling.deep_ensemble import EarlyStopping, MemberNetworks, point_ensemble


def likelihood_of(task: Task, params: Any) -> NetworkLikelihood:
    """Build the likelihood of standardised targets, or of codes of classes.

    params
        Whose `noise` is, for numbers, "learned" (one variance a target), "input" (it depends on
        the input), or a variance in y²; and of classes, where there is one, `expectation`.
    """
    if isinstance(task, Classes):
        return Categorical(task.n_classes, getattr(params, "expectation", "taylor"))
    return gaussian_likelihood(params.noise, task.scaler.scale)


def gaussian_likelihood(noise: Any, y_scale: np.ndarray) -> GaussianNoise:
    """Build the likelihood of targets of which one standardised unit is `y_scale` (o,) in y."""
    n_targets = len(y_scale)
    if noise == "learned":
        return LearnedNoise(n_targets)
    if noise == "input":
        return InputNoise(n_targets)
    variances = {float(noise) / float(scale) ** 2 for scale in y_scale}
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


def check_stopping(params: Any) -> None:
    """Raise ValueError where early stopping does not go with the rest."""
    if params.early_stopping and params.validation_fraction == 0.0:
        raise ValueError("validation_fraction must be > 0 for early_stopping, got 0")
    if params.early_stopping and params.warm_start:
        raise ValueError(
            "warm_start must be False with early_stopping=True, because training has ended "
            "where it was best; got True"
        )


def member_networks(
    params: Any, n_inputs: int, likelihood: NetworkLikelihood, **how: Any
) -> MemberNetworks:
    """Build networks that are trained together; `how` goes to `point_ensemble`."""
    rate, momentum = float(params.learning_rate), float(params.momentum)
    optimizer, n_members = make_optimizer(params.optimizer, rate, momentum), int(params.n_members)
    ensemble = built(
        point_ensemble,
        likelihood,
        params.activation,
        optimizer,
        weight_decay=float(params.weight_decay),
        n_members=n_members,
        activation_name=params.activation,
        **how,
    )
    stopping = EarlyStopping(params.validation_fraction, params.patience)
    return MemberNetworks(
        ensemble,
        layer_sizes(n_inputs, params.hidden_layer_sizes, likelihood),
        params.n_epochs,
        params.batch_size,
        n_members,
        stopping if params.early_stopping else None,
    )
