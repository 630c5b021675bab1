"""Bayes by Backprop: hyper-parameters and estimators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal

import optax
from jaxtyping import PRNGKeyArray, PyTree

from bayesprop.estimators.params import (
    Activation,
    Count,
    LayerStds,
    Positive,
    Rule,
    hyper_parameters,
    numbers,
    prior_variances,
)
from bayesprop.estimators.point_network import make_optimizer, network_of
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import NoisyRegressor, PassParams, PixelClassifier
from bayesprop.model.task import Task
from bayesprop.networks.gradient_method import GradientMethod
from bayesprop.networks.priors import NormalPrior, ScaleMixturePrior
from bayesprop.networks.pruning import PrunableNetwork
from bayesprop.sampling.bayes_by_backprop import bayes_by_backprop
from bayesprop.sampling.mean_field import mean

_Transformation = Annotated[
    optax.GradientTransformation,
    Rule("optax's", lambda value: isinstance(value, optax.GradientTransformation)),
]
_Mixture = Annotated[
    Sequence[float],
    numbers(
        "(share, wide_std, narrow_std) with 0 < share < 1 and 0 < narrow_std < wide_std",
        lambda share, wide, narrow: 0.0 < share < 1.0 and 0.0 < narrow < wide,
    ),
]


def _by_mean(*args: Any, **settings: Any) -> GradientMethod:
    """Bayes by Backprop whose every draw is the network of the posterior means."""

    def sample(key: PRNGKeyArray, state: PyTree) -> PyTree:
        del key
        return mean(state)

    return bayes_by_backprop(*args, **settings)._replace(sample=sample)


@hyper_parameters
class _Params(PassParams):
    """Hyper-parameters of both estimators.

    Parameters
    ----------
    learning_rate : float
        Step size of a named optimiser.
    optimizer : {"adam", "sgd", "adamw", "rmsprop", "adagrad"} or optax.GradientTransformation
        The latter has its own step size, and a model fitted with it cannot be saved.
    prior : {"normal", "mixture"}
        N(0, prior_std²) with its KL in closed form, or the paper's scale mixture with a sampled KL.
    prior_std : float or sequence of float
        Of the normal prior, in standardised units; or one for every layer, the outputs' the last.
    prior_mixture : (float, float, float)
        (share, wide_std, narrow_std): share N(0, wide_std²) + (1 - share) N(0, narrow_std²); the
        paper's pi, sigma_1 and sigma_2 (eq. 7).
    kl_weights : {"uniform", "geometric"}
        How the batches of an epoch share the KL, the paper's pi_i. Geometric shares, the paper's,
        put nearly all of it on the first few, which with an adaptive optimiser weakens the prior.
    n_samples : int
        Draws of the weights over which every step's gradient is averaged.
    local_reparameterisation : bool
        Draw activations instead of weights: less noise in the gradients (Kingma et al. 2015).
    prediction : {"draws", "mean"}
        By n_draws drawn networks, or by the one network of the posterior means.

    Attributes
    ----------
    state_ : NetworkState
        Posterior, noise and optimiser; seed.
    """

    method_name = "bayes-by-backprop"
    method_class: ClassVar[type] = PrunableNetwork
    n_epochs: Count = field(default=400, kw_only=False)
    batch_size: Count = 32
    activation: Activation = "relu"
    learning_rate: Positive = 3e-3
    optimizer: Literal["sgd", "adam", "adamw", "rmsprop", "adagrad"] | _Transformation = "adam"
    prior: Literal["normal", "mixture"] = "normal"
    prior_std: Positive | LayerStds = 0.3
    prior_mixture: _Mixture = (0.5, 1.0, 0.0024787522)
    kl_weights: Literal["uniform", "geometric"] = "uniform"
    n_samples: Count = 1
    init_std: Positive = 0.05
    local_reparameterisation: bool = False
    prediction: Literal["draws", "mean"] = "draws"
    n_draws: Count = 100

    def build_method(self, task: Task, n_inputs: int) -> PrunableNetwork:
        prior = NormalPrior(prior_variances(self.prior_std, self.hidden_layer_sizes))
        if self.prior == "mixture":
            prior = ScaleMixturePrior(*map(float, self.prior_mixture))
        optimizer = self.optimizer
        if isinstance(optimizer, str):
            optimizer = make_optimizer(optimizer, float(self.learning_rate))
        is_mean = self.prediction == "mean"
        return network_of(
            self,
            task,
            n_inputs,
            1 if is_mean else self.n_draws,
            _by_mean if is_mean else bayes_by_backprop,
            prior,
            optimizer,
            n_samples=int(self.n_samples),
            kl_weights=self.kl_weights,
            init_std=float(self.init_std),
            local_reparameterisation=bool(self.local_reparameterisation),
        )


@hyper_parameters
class BayesByBackpropRegressor(_Params, NoisyRegressor):
    """A Gaussian over every weight by unbiased gradients, for regression (Blundell et al. 2015).

    A prediction is the mixture of what networks drawn from the posterior predict.
    """


@hyper_parameters
class BayesByBackpropClassifier(_Params, PixelClassifier):
    """A Gaussian over every weight by unbiased gradients, to classify (Blundell et al. 2015).

    A prediction is the average of the probabilities of networks drawn from the posterior.

    Examples
    --------
    >>> model = BayesByBackpropClassifier(n_epochs=60, random_state=0)
    """


__getattr__ = lazily(globals())
