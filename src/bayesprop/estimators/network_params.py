"""Hyper-parameters that trained networks share, and what their estimators make of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

import optax

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.params import (
    ACTIVATION,
    COUNT,
    NOISE,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    NetworkParams,
    as_sizes,
    check_fields,
    one_of,
)
from bayesprop.estimators.shell import BayesianClassifier, BayesianRegressor
from bayesprop.model.gradient_method import GradientMethod
from bayesprop.model.network_likelihoods import (
    Categorical,
    InputNoise,
    KnownNoise,
    LearnedNoise,
    NetworkLikelihood,
)
from bayesprop.model.task import Classes, Task
from bayesprop.model.trained_network import built
from bayesprop.sampling.deep_ensemble import EarlyStopping, MemberNetworks, point_ensemble


@hyper_parameters
class NetworkRegressor(BayesianRegressor):
    """A regressor whose network has a noise, learnt or known."""

    noise: Literal["learned", "input"] | float = field(default="learned", metadata=NOISE)


@hyper_parameters
class NetworkClassifier(BayesianClassifier):
    """A classifier whose inputs may be taken as they are."""

    standardise: bool = True


@hyper_parameters
class TrainedParams(NetworkParams):
    """What every network has that mini-batches train."""

    method_class: ClassVar[type]
    batch_size: int = field(default=32, metadata=COUNT)
    activation: str = field(default="relu", metadata=ACTIVATION)
    learning_rate: float = field(default=1e-2, metadata=POSITIVE)

    def network(
        self,
        task: Task,
        n_inputs: int,
        n_draws: int,
        method: Callable[..., GradientMethod],
        *args: Any,
        **settings: Any,
    ) -> Any:
        """Build the `method_class` of a gradient method, which `args` and `settings` go to."""
        likelihood = likelihood_of(task, self)
        return self.method_class(
            built(method, likelihood, self.activation, *args, **settings),
            layer_sizes(n_inputs, self.hidden_layer_sizes, likelihood),
            self.n_epochs,
            self.batch_size,
            n_draws,
        )


@hyper_parameters
class DescentParams(TrainedParams):
    """What those have that Adam or plain descent trains."""

    optimizer: Literal["adam", "sgd"] = field(default="adam", metadata=one_of("adam", "sgd"))
    momentum: float = field(default=0.9, metadata=SHARE)

    def make_optimizer(self) -> optax.GradientTransformation:
        """Build the optimiser."""
        return make_optimizer(self.optimizer, float(self.learning_rate), float(self.momentum))


@hyper_parameters
class MemberParams(DescentParams):
    """What networks have that are trained side by side, from different starts.

    Attributes
    ----------
    state_ : NetworkState
        Parameters and optimiser of the members, with a leading member axis; seed.
    """

    method_class: ClassVar[type] = MemberNetworks
    weight_decay: float = field(default=10.0, metadata=NOT_NEGATIVE)
    n_members: int = field(default=1, metadata=COUNT)
    early_stopping: bool = False
    validation_fraction: float = field(default=0.1, metadata=SHARE)
    patience: int = field(default=20, metadata=COUNT)

    def check_params(self) -> None:
        """Raise ValueError for hyper-parameters out of their range, alone or together."""
        check_fields(self)
        if self.early_stopping and self.validation_fraction == 0.0:
            raise ValueError("validation_fraction must be > 0 for early_stopping, got 0")
        if self.early_stopping and self.warm_start:
            raise ValueError(
                "warm_start must be False with early_stopping=True, because training has ended "
                "where it was best; got True"
            )

    def members(self, task: Task, n_inputs: int, **settings: Any) -> MemberNetworks:
        """Build the networks; `settings` go to `point_ensemble`."""
        n_members = int(self.n_members)
        networks = self.network(
            task,
            n_inputs,
            n_members,
            point_ensemble,
            self.make_optimizer(),
            weight_decay=float(self.weight_decay),
            n_members=n_members,
            activation_name=self.activation,
            **settings,
        )
        if not self.early_stopping:
            return networks
        return replace(networks, stopping=EarlyStopping(self.validation_fraction, self.patience))


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
