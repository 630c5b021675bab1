"""Graves' variational inference: hyper-parameters and estimators."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Literal

from bayesprop.estimators.params import (
    Count,
    LayerStds,
    Positive,
    hyper_parameters,
    prior_variances,
)
from bayesprop.estimators.point_network import NetworkParams, network_of, optimizer_of
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import NoisyRegressor, PixelClassifier
from bayesprop.model.task import Task
from bayesprop.networks.pruning import PrunableNetwork
from bayesprop.sampling.graves_vi import graves_vi


@hyper_parameters
class _Params(NetworkParams):
    """Hyper-parameters of both estimators.

    Parameters
    ----------
    batch_size : int
        Rows of a step; all of them if there are fewer. Memory is a gradient a row.
    prior_std : {"network", "layer"}, float or sequence of float
        "network": the prior's mu and sigma of the paper follow the weights, in closed form;
        "layer": those of every layer its own. Numbers: mu is 0, and sigma, in standardised units,
        one for all layers, or one for each, the outputs' the last.

    Attributes
    ----------
    state_ : NetworkState
        Posterior, noise and optimiser; seed.
    """

    method_name = "graves-vi"
    method_class: ClassVar[type] = PrunableNetwork
    n_epochs: Count = field(default=200, kw_only=False)
    init_std: Positive = 0.05
    prior_std: Literal["network", "layer"] | Positive | LayerStds = "network"
    n_draws: Count = 100

    def build_method(self, task: Task, n_inputs: int) -> PrunableNetwork:
        prior = self.prior_std
        if not isinstance(prior, str):
            prior = prior_variances(prior, self.hidden_layer_sizes)
        how: dict[str, Any] = {"init_std": float(self.init_std), "prior_var": prior}
        return network_of(self, task, n_inputs, self.n_draws, graves_vi, optimizer_of(self), **how)


@hyper_parameters
class GravesVIRegressor(_Params, NoisyRegressor):
    """Variational inference with squared gradients, for regression (Graves 2011).

    The baseline of the papers on PBP and Bayes by Backprop: one draw of the weights a step, a
    biased gradient of the variances, and a prior whose mean and variance follow the weights. For
    results of your own prefer `BayesByBackpropRegressor`.

    Examples
    --------
    >>> model = GravesVIRegressor(n_epochs=50, random_state=0)
    """


@hyper_parameters
class GravesVIClassifier(_Params, PixelClassifier):
    """Variational inference with squared gradients, to classify (Graves 2011).

    The baseline of the papers on PBP and Bayes by Backprop; for results of your own prefer
    `BayesByBackpropClassifier`.

    Examples
    --------
    >>> model = GravesVIClassifier(n_epochs=50, random_state=0)
    """


__getattr__ = lazily(globals())
