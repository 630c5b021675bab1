"""Laplace's approximation around a trained network: hyper-parameters and estimators."""

from __future__ import annotations

from typing import ClassVar, Literal

from bayesprop.estimators.params import Count, Positive, hyper_parameters, layer_sizes
from bayesprop.estimators.point_network import NetworkParams, optimizer_of
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import NoisyRegressor, PixelClassifier
from bayesprop.model.task import Task
from bayesprop.networks.likelihoods import likelihood_of
from bayesprop.networks.training import build
from bayesprop.sampling.curvature import Diagonal, Full, Kron, Structure
from bayesprop.sampling.laplace import LaplaceModel, LaplaceNetwork, Prior, laplace_draws

STRUCTURES: dict[str, Structure] = {one.name: one for one in (Full(), Kron(), Diagonal())}
PRIORS: dict[str, Prior] = {"by-layer": "by-leaf", "one": "one"}


@hyper_parameters
class _Params(NetworkParams):
    """Hyper-parameters of both estimators.

    Parameters
    ----------
    n_epochs : int
        Passes over the rows, in all.
    structure : {"full", "kron", "diagonal"}
        Of the curvature, which is the generalised Gauss-Newton matrix: every weight with every
        other; a Kronecker product a layer; every weight by itself.
    prior_prec : "by-layer", "one" or float
        Precision of the Gaussian prior of the weights, in standardised units, MacKay's alpha:
        the one of greatest evidence for every layer, or for all of them; or given.
    n_rounds : int
        How often precisions and noise are chosen by the evidence: after equal shares of the
        epochs, the last time at the end; no more often than there are epochs.
    prediction : {"linearised", "draws"}
        By the network linearised in its weights, whose outputs are Gaussian; or by the average
        over `n_draws` networks.
    n_draws : int
        Networks of prediction="draws".
    max_gigabytes : float
        A structure that needs more memory is refused before the fit, with what would need less.
    noise : "learned", "input" or float
        One noise variance for every output, found by training and evidence; one that depends on
        the input; or the variance itself, in y².
    integral : {"quadrature", "probit"}
        How prediction="linearised" averages over the Gaussian logits: by fixed points, exact to
        1e-9 with two classes; or by the probit's closed form, with more classes the mean-field
        softmax.

    Attributes
    ----------
    state_ : NetworkState
        Its `network` has the mode, prior precisions, and a root of the weights' covariance.
    fit_report_ : FitReport
        Course of training and of the log evidence, advice.
    """

    method_name = "laplace"
    method_class: ClassVar[type] = LaplaceNetwork
    structure: Literal["full", "kron", "diagonal"] = "kron"
    prior_prec: Positive | Literal["by-layer", "one"] = "by-layer"
    n_rounds: Count = 4
    prediction: Literal["linearised", "draws"] = "linearised"
    n_draws: Count = 100
    max_gigabytes: Positive = 8.0

    def build_method(self, task: Task, n_inputs: int) -> LaplaceNetwork:
        likelihood = likelihood_of(task, self)
        known = None if isinstance(self.prior_prec, str) else float(self.prior_prec)
        structure = STRUCTURES[self.structure]
        network = build(
            laplace_draws,
            likelihood,
            self.activation,
            optimizer_of(self),
            structure,
            prior_prec=known or 1.0,
        )
        return LaplaceNetwork(
            network,
            layer_sizes(n_inputs, self.hidden_layer_sizes, likelihood.n_outputs),
            self.n_epochs,
            self.batch_size,
            self.n_draws,
            LaplaceModel(network.apply, likelihood, structure),
            prior="known" if known else PRIORS[str(self.prior_prec)],
            n_rounds=self.n_rounds,
            is_linearised=self.prediction == "linearised",
            max_gigabytes=float(self.max_gigabytes),
            log_unit=task.log_unit,
            integral=getattr(self, "integral", "quadrature"),
        )


@hyper_parameters
class LaplaceRegressor(_Params, NoisyRegressor):
    """A network trained as usual, and a Gaussian around its weights afterwards, for regression.

    MacKay (1992), Immer et al. (2021): the covariance is the inverse curvature at the mode;
    precisions and noise maximise the evidence; predictions are in closed form, Gaussian, or with
    noise="input" a mixture over the log variance of the noise.
    """


@hyper_parameters
class LaplaceClassifier(_Params, PixelClassifier):
    """A network trained as usual, and a Gaussian around its weights afterwards, to classify.

    MacKay (1992), Immer et al. (2021): the covariance is the inverse curvature at the mode;
    the prior's precisions maximise the evidence; predictions average over Gaussian logits.
    """

    integral: Literal["quadrature", "probit"] = "quadrature"


__getattr__ = lazily(globals())
