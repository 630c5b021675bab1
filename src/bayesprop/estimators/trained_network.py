"""Hyper-parameters and building of the networks that gradient steps train, for both tasks.

A method's own part is a dataclass over `TrainedFitting` or `SteppedFitting`; its regressor is that
part mixed into `TrainedRegressor`, its classifier into `TrainedClassifier`. The constructor lists
the fields of the method's part first, then those of the task.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Literal

import optax

from bayesprop.estimators.network import (
    Built,
    NetworkClassifier,
    NetworkFitting,
    NetworkRegressor,
)
from bayesprop.estimators.noise import check_noise, gaussian_likelihood
from bayesprop.estimators.optimizers import check_optimizer, make_optimizer
from bayesprop.model.gradient_method import GradientMethod
from bayesprop.model.layers import activation as activation_named
from bayesprop.model.network_likelihoods import Categorical, GaussianNoise, NetworkLikelihood
from bayesprop.model.networks import plain_apply


@lru_cache(maxsize=64)
def built(
    method: Callable[..., GradientMethod],
    likelihood: NetworkLikelihood,
    activation: str,
    *args: Any,
    **settings: Any,
) -> Built:
    """Build each configuration once, so that JAX compiles it once.

    method
        Called with network, likelihood, args and settings, which decide what is compiled.
    """
    apply = partial(plain_apply, activation_name=activation)
    return Built(method(apply, likelihood, *args, **settings), apply, likelihood)


@dataclass(eq=False, repr=False, kw_only=True)
class TrainedFitting(NetworkFitting):
    """Size, course of training and nonlinearity; a subclass says how to build its method."""

    hidden_layer_sizes: tuple[int, ...] = field(default=(50,), kw_only=False)
    n_epochs: int = field(default=100, kw_only=False)
    batch_size: int = 32
    activation: str = "relu"
    learning_rate: float = 1e-2
    optimizer: Any = "adam"

    @abstractmethod
    def _likelihood(self) -> NetworkLikelihood:
        """Return the likelihood of standardised targets."""

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        activation_named(self.activation)


@dataclass(eq=False, repr=False, kw_only=True)
class SteppedFitting(TrainedFitting):
    """Trained by Adam, or by stochastic gradient descent with momentum."""

    optimizer: Literal["adam", "sgd"] = "adam"
    momentum: float = 0.9

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        check_optimizer(self.optimizer, self.learning_rate, self.momentum)

    def _steps(self) -> optax.GradientTransformation:
        return make_optimizer(self.optimizer, float(self.learning_rate), float(self.momentum))


@dataclass(eq=False, repr=False, kw_only=True)
class TrainedRegressor(NetworkRegressor):
    """Base of the regressors; mix in the method's part."""

    noise: Literal["learned", "input"] | float = "learned"
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        check_noise(self.noise)

    def _likelihood(self) -> GaussianNoise:
        return gaussian_likelihood(self.noise, self.y_scaler_.scale)


@dataclass(eq=False, repr=False, kw_only=True)
class TrainedClassifier(NetworkClassifier):
    """Base of the classifiers; mix in the method's part."""

    standardise: bool = True
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    def _likelihood(self) -> Categorical:
        return Categorical(len(self.classes_))
