"""Monte Carlo dropout: hyper-parameters and estimators."""

from __future__ import annotations

from typing import ClassVar

from bayesprop.estimators.params import Count, Positive, Share, hyper_parameters
from bayesprop.estimators.point_network import NetworkParams, network_of, optimizer_of
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import NoisyRegressor, PixelClassifier
from bayesprop.model.task import Task
from bayesprop.networks.training import TrainedNetwork
from bayesprop.sampling.mc_dropout import Rates, mc_dropout


@hyper_parameters
class _Params(NetworkParams):
    """Hyper-parameters of both estimators.

    Parameters
    ----------
    dropout, input_dropout : float
        Probability that a hidden unit or an input is missing, in training and in every draw; 1
        less the paper's p, by which it is there.
    length_scale : float
        Weights have the prior N(0, 1 / length_scale²), in standardised units: the larger, the
        smoother the function. With N rows and noise of precision tau this is a weight decay of
        (1 - dropout) length_scale² / (2 N tau) (the paper's eq. 7).
    n_draws : int
        Networks that are drawn for a prediction, the paper's T.
    noise : "learned", "input" or float
        One noise variance learnt for every output; one that depends on the input; or the variance
        itself, in y²: the inverse of the paper's model precision tau.
    random_state : int, RandomState or None
        Seeds start, order and what is missing.

    Attributes
    ----------
    state_ : NetworkState
        Parameters and optimiser; seed.
    """

    method_name = "mc-dropout"
    method_class: ClassVar[type] = TrainedNetwork
    dropout: Share = 0.05
    input_dropout: Share = 0.0
    length_scale: Positive = 3.0
    n_draws: Count = 100

    def build_method(self, task: Task, n_inputs: int) -> TrainedNetwork:
        return network_of(
            self,
            task,
            n_inputs,
            self.n_draws,
            mc_dropout,
            optimizer_of(self),
            rates=Rates(float(self.input_dropout), float(self.dropout)),
            length_scale=float(self.length_scale),
            activation_name=self.activation,
        )


@hyper_parameters
class MCDropoutRegressor(_Params, NoisyRegressor):
    """Dropout in training and in prediction, for regression (Gal & Ghahramani 2016).

    Networks with units missing at random are draws from an approximate posterior; a prediction is
    the mixture of what they predict, its variance the noise plus the variance of their means.
    """


@hyper_parameters
class MCDropoutClassifier(_Params, PixelClassifier):
    """Dropout in training and in prediction, for classification (Gal & Ghahramani 2016).

    Networks with units missing at random are draws from an approximate posterior; a prediction is
    the average of their probabilities.
    """


__getattr__ = lazily(globals())
