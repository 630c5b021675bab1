"""Closed-form variational inference: hyper-parameters and estimators."""

from __future__ import annotations

import math
from dataclasses import field
from typing import ClassVar, Literal

from bayesprop.estimators.params import (
    Activation,
    Count,
    NotNegative,
    Positive,
    hyper_parameters,
    layer_sizes,
)
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import NoisyRegressor, PassParams, PixelClassifier
from bayesprop.model.task import Task
from bayesprop.moments.closed_form_vi import ClosedFormNetwork, Model, closed_form_vi
from bayesprop.networks.likelihoods import likelihood_of


@hyper_parameters
class _Params(PassParams):
    """Hyper-parameters of both estimators.

    Parameters
    ----------
    n_epochs : int
        Passes over the rows; steps at most with "lbfgs".
    learning_rate : float
        Step size of Adam; the paper's is 0.001.
    prior : {"normal", "laplace"}
        Of every weight, around zero.
    prior_scale : float, "fan_in" or "empirical"
        Standard deviation of the normal, scale of the Laplace prior (the paper's gamma); "fan_in":
        sqrt(2 / inputs of the layer); "empirical": what maximises the objective, layer by layer.
    likelihood_weight : float
        Copies of every row that the posterior believes it saw, lambda of section 3.3. 1 is
        variational Bayes, and underfits small tables; more understates the doubt of the weights.
    optimizer : {"adam", "rmsprop", "lbfgs"}
        Adam or RMSprop on batches, or L-BFGS on all rows at once in float64, which stops at a
        minimum. For up to some thousand rows.
    init_std : float
        Standard deviation of every weight at the start; the paper's variance is softplus(-10).
    kl_warm_up : float
        Epochs over which the weight of the prior rises from 0 to 1; 0: none.
    prediction : {"expected", "mean", "draws"}
        Expectations in closed form; the network of the mean weights, which has no doubt of them;
        or the average over `n_draws` networks.
    n_draws : int
        Networks of prediction="draws".
    expectation : {"exact", "taylor"}
        How the expected log softmax is taken: a quadrature, right at any variance, or the paper's
        second-order expansion, which is faster and wrong where logits are very unsure.
    random_state : int, RandomState or None
        Seeds the initial means and the order of rows.

    Attributes
    ----------
    state_ : NetworkState
        Posterior, in standardised units, and optimiser; seed.
    fit_report_ : FitReport
        Course of training, hidden units through which nothing passes, advice.
    n_iter_ : int
        Epochs (steps of "lbfgs") since the last reset.
    """

    method_name = "closed-form-vi"
    method_class: ClassVar[type] = ClosedFormNetwork
    n_epochs: Count = field(default=200, kw_only=False)
    batch_size: Count = 32
    learning_rate: Positive = 1e-2
    activation: Activation = "relu"
    prior: Literal["normal", "laplace"] = "normal"
    prior_scale: Positive | Literal["fan_in", "empirical"] = "fan_in"
    likelihood_weight: Positive = 1.0
    optimizer: Literal["adam", "rmsprop", "lbfgs"] = "adam"
    init_std: Positive = 0.006737947
    kl_warm_up: NotNegative = 100.0
    prediction: Literal["expected", "mean", "draws"] = "expected"
    n_draws: Count = 100

    def check_params(self) -> None:
        super().check_params()
        if self.kl_warm_up and self.optimizer == "lbfgs":
            raise ValueError(
                "kl_warm_up must be 0 with optimizer='lbfgs', which has no epochs, got "
                f"{self.kl_warm_up!r}: set it to 0"
            )

    def build_method(self, task: Task, n_inputs: int) -> ClosedFormNetwork:
        likelihood, scale = likelihood_of(task, self), self.prior_scale
        model = Model(
            likelihood,
            activation=self.activation,
            prior=self.prior,
            prior_scale=scale if isinstance(scale, str) else float(scale),
            likelihood_weight=float(self.likelihood_weight),
        )
        batches_by = "adam" if self.optimizer == "lbfgs" else self.optimizer
        return ClosedFormNetwork(
            closed_form_vi(
                model,
                learning_rate=float(self.learning_rate),
                optimizer=batches_by,
                warm_up_epochs=float(self.kl_warm_up),
                log_var=2.0 * math.log(self.init_std),
            ),
            layer_sizes(n_inputs, self.hidden_layer_sizes, likelihood.n_outputs),
            self.n_epochs,
            self.batch_size,
            self.n_draws,
            model,
            self.optimizer,
            self.prediction,
        )


@hyper_parameters
class ClosedFormVIRegressor(_Params, NoisyRegressor):
    """Network with Gaussian weights for regression, fitted and used without drawing any.

    Means and variances pass through the network once; the objective is in closed form. Roth &
    Pernkopf (2016). `BayesianRegressor` builds on it, and needs no tuning.

    Examples
    --------
    >>> model = ClosedFormVIRegressor(n_epochs=50, kl_warm_up=25, random_state=0)
    """


@hyper_parameters
class ClosedFormVIClassifier(_Params, PixelClassifier):
    """Network with Gaussian weights for classification, fitted and used without drawing any.

    Means and variances pass through the network once; the objective and the predicted
    probabilities are expectations over the Gaussian logits. Roth & Pernkopf (2016).

    Examples
    --------
    >>> model = ClosedFormVIClassifier(n_epochs=20, kl_warm_up=10, random_state=0)
    """

    n_epochs: Count = field(default=100, kw_only=False)
    likelihood_weight: Positive = 10.0
    kl_warm_up: NotNegative = 0.0
    expectation: Literal["exact", "taylor"] = "exact"


__getattr__ = lazily(globals())
