"""Networks of one value a weight, one or an ensemble; what all trained networks are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

import optax

from bayesprop.estimators.params import (
    Activation,
    Count,
    Noise,
    NotNegative,
    Positive,
    Share,
    hyper_parameters,
    layer_sizes,
)
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import NoisyRegressor, PassParams, PixelClassifier, RegressorBase
from bayesprop.model.task import Task
from bayesprop.networks.gradient_method import GradientMethod
from bayesprop.networks.likelihoods import likelihood_of
from bayesprop.networks.training import build
from bayesprop.sampling.deep_ensemble import MemberNetworks, point_ensemble
from bayesprop.sampling.mc_dropout import Rates


@hyper_parameters
class NetworkParams(PassParams):
    """Hyper-parameters of networks that take the steps of a named optimiser."""

    batch_size: Count = 32
    activation: Activation = "relu"
    learning_rate: Positive = 1e-2
    optimizer: Literal["adam", "sgd", "rmsprop"] = "adam"
    momentum: Share = 0.9


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
        layer_sizes(n_inputs, params.hidden_layer_sizes, likelihood.n_outputs),
        params.n_epochs,
        params.batch_size,
        n_draws,
    )


def optimizer_of(params: NetworkParams) -> optax.GradientTransformation:
    """Build the optimiser that an estimator names."""
    return make_optimizer(params.optimizer, float(params.learning_rate), float(params.momentum))


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
    held_out = {"validation_fraction": params.validation_fraction, "patience": params.patience}
    return replace(networks, **held_out)


def check_stopping(params: Any) -> None:
    """Raise ValueError where early stopping does not go with the rest."""
    if params.early_stopping and params.validation_fraction == 0.0:
        raise ValueError("validation_fraction must be > 0 for early_stopping, got 0")
    if params.early_stopping and params.warm_start:
        raise ValueError(
            "warm_start must be False with early_stopping=True, because training has ended "
            "where it was best; got True"
        )


@hyper_parameters
class _Point(NetworkParams):
    """Hyper-parameters of both estimators.

    Parameters
    ----------
    n_members : int
        Networks that are trained from different starts and averaged; 1 is a single network.
    dropout, input_dropout : float
        Probability that a hidden unit or an input is missing in training, anew for every row and
        unit (Hinton et al. 2012).
    dropconnect : float
        Probability that a weight is missing in training (Wan et al. 2013).
    dropconnect_masks : {"batch", "row"}
        Whether weights are missing anew for every batch; or for every row, as in the paper: slower,
        for a random number a weight and row.
    random_state : int, RandomState or None
        Seeds starts, orders, what is missing and held-out rows.

    Attributes
    ----------
    state_ : NetworkState
        Parameters and optimiser of the members, with a leading member axis; seed.
    """

    method_name = "network"
    method_class: ClassVar[type] = MemberNetworks
    weight_decay: NotNegative = 10.0
    n_members: Count = 1
    early_stopping: bool = False
    validation_fraction: Share = 0.1
    patience: Count = 20
    dropout: Share = 0.0
    input_dropout: Share = 0.0
    dropconnect: Share = 0.0
    dropconnect_masks: Literal["batch", "row"] = "batch"

    def check_params(self) -> None:
        super().check_params()
        check_stopping(self)
        if self.dropconnect_masks == "row" and self.dropconnect == 0.0:
            raise ValueError("dropconnect must be > 0 for dropconnect_masks='row', got 0")

    def build_method(self, task: Task, n_inputs: int) -> MemberNetworks:
        shares = (float(s) for s in (self.input_dropout, self.dropout, self.dropconnect))
        rates = Rates(*shares, connection_by_row=self.dropconnect_masks == "row")
        return members_of(self, task, n_inputs, rates=rates)


@hyper_parameters
class PointNetworkRegressor(_Point, NoisyRegressor):
    """A network with one value a weight, for regression.

    Maximum a posteriori by gradient steps, with the usual means against overfitting. It doubts the
    noise, never its own weights: the epistemic part of its doubt is zero unless `n_members` > 1.
    """


@hyper_parameters
class PointNetworkClassifier(_Point, PixelClassifier):
    """A network with one value a weight, for classification.

    Maximum a posteriori by gradient steps, with the usual means against overfitting. It doubts the
    class, never its own weights: the epistemic part of its doubt is zero unless `n_members` > 1.
    """


@hyper_parameters
class _Ensemble(NetworkParams):
    """Hyper-parameters of both estimators.

    Parameters
    ----------
    n_members : int
        Networks, trained together from different starts; the paper's M is 5.
    adversarial_step : float
        Half the loss is that of rows moved by this much, in standard deviations of every input,
        to where they fit worst. 0: none. The paper's epsilon: 1 % of an input's range, about 0.05.
    random_state : int, RandomState or None
        Seeds starts, orders and held-out rows.

    Attributes
    ----------
    state_ : NetworkState
        Parameters and optimiser of the members, with a leading member axis; seed.
    """

    method_name = "deep-ensemble"
    method_class: ClassVar[type] = MemberNetworks
    weight_decay: NotNegative = 10.0
    n_members: Count = 5
    early_stopping: bool = False
    validation_fraction: Share = 0.1
    patience: Count = 20
    adversarial_step: NotNegative = 0.0

    def check_params(self) -> None:
        super().check_params()
        check_stopping(self)

    def build_method(self, task: Task, n_inputs: int) -> MemberNetworks:
        return members_of(self, task, n_inputs, adversarial_step=float(self.adversarial_step))


@hyper_parameters
class DeepEnsembleRegressor(_Ensemble, RegressorBase):
    """Several networks from different starts, for regression (Lakshminarayanan et al. 2017).

    Every member predicts a mean and, by default, a noise variance that depends on the input; the
    prediction is their equal mixture, and their disagreement its epistemic part.
    """

    noise: Noise = "input"


@hyper_parameters
class DeepEnsembleClassifier(_Ensemble, PixelClassifier):
    """Several networks from different starts, for classification (Lakshminarayanan et al. 2017).

    The prediction is the average of the members' probabilities, and their disagreement its
    epistemic part.
    """


__getattr__ = lazily(globals())
