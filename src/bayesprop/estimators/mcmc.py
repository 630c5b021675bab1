"""Markov chain Monte Carlo over a network's weights: hyper-parameters and estimators."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, ClassVar, cast

import numpy as np

from bayesprop.estimators.params import (
    Activation,
    BelowOne,
    Count,
    Positive,
    Sizes,
    check_int,
    hyper_parameters,
    layer_sizes,
    numbers,
)
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import (
    EstimatorBase,
    NoisyRegressor,
    PixelClassifier,
    Seed,
    of_fitted,
)
from bayesprop.model.task import Task
from bayesprop.networks.likelihoods import likelihood_of
from bayesprop.networks.posterior import SIX
from bayesprop.sampling import diagnostics
from bayesprop.sampling.markov_chains import ChainState, MarkovChains, network_posterior
from bayesprop.sampling.mcmc import Plan, Sampler

_GammaPrior = Annotated[
    tuple[float, float],
    numbers("(shape > 0, rate > 0) of a Gamma prior", lambda shape, rate: min(shape, rate) > 0.0),
]


def _floats(value: Any) -> float | tuple[float, float]:
    """Turn a checked precision into plain numbers, which key compilation."""
    return float(value) if np.ndim(value) == 0 else (float(value[0]), float(value[1]))


@hyper_parameters
class _Params(EstimatorBase):
    """Hyper-parameters of both estimators.

    Parameters
    ----------
    sampler : {"nuts", "hmc", "random-walk"}
        The no-U-turn sampler (Hoffman & Gelman 2014), Hamiltonian Monte Carlo, or random-walk
        Metropolis.
    n_chains : int
        Chains from different starts, on as many cores; two or more, to see whether they agree.
    n_warmup : int
        Steps before the first draw, in which "nuts", "hmc" and "random-walk" adapt.
    n_draws : int
        Draws that are kept of every chain; a prediction averages over all of them.
    thin : int
        Steps for each draw.
    target_acceptance : float
        Of "nuts" and "hmc", Hoffman & Gelman's delta, 0 to 1: nearer to 1 is slower, with fewer
        divergences.
    n_leapfrog : int
        Most steps of a trajectory of "hmc", Neal's L, each of a random length up to it (Neal 2011,
        5.3.2).
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers, which are divided by the root of their fan-in.
    weight_precision : (shape, rate) or float
        Prior precision of the weights: unknown with a Gamma prior, or given.
    noise_prior : (shape, rate)
        Gamma prior of the precision of "learned" noise, in standardised units.
    random_state : int, RandomState or None
        Seeds starts and chains.

    Attributes
    ----------
    state_ : ChainState
        Its `chains` has all draws, standardised units.
    diagnostics_ : Diagnostics or None
        R-hat and effective numbers of draws of the log density, of predictions at some training
        rows (log probabilities of classes), and of the precisions; None for a single chain.
    fit_report_ : FitReport
        Divergences, advice.
    n_iter_ : int
        Steps of every chain.
    """

    method_name = "mcmc"
    method_class: ClassVar[type] = MarkovChains
    hidden_layer_sizes: Sizes = field(default=(10,), kw_only=False)
    sampler: Sampler = "nuts"
    n_chains: Count = 4
    n_warmup: int = 500
    n_draws: Count = 250
    thin: Count = 1
    target_acceptance: BelowOne = 0.8
    n_leapfrog: Count = 20
    activation: Activation = "relu"
    weight_precision: Positive | _GammaPrior = SIX
    random_state: Seed = None

    def check_params(self) -> None:
        super().check_params()
        check_int("n_warmup", self.n_warmup, least=int(self.sampler in ("nuts", "hmc")))

    def build_method(self, task: Task, n_inputs: int) -> MarkovChains:
        likelihood = likelihood_of(task, self)
        priors = map(_floats, (self.weight_precision, getattr(self, "noise_prior", SIX)))
        return MarkovChains(
            network_posterior(self.activation, likelihood, *priors),
            layer_sizes(n_inputs, self.hidden_layer_sizes, likelihood.n_outputs),
            int(self.n_chains),
            Plan(
                self.sampler,
                int(self.n_warmup),
                int(self.n_draws),
                int(self.thin),
                float(self.target_acceptance),
                int(self.n_leapfrog),
            ),
        )


class _Chains:
    """Diagnostics and chains of both estimators."""

    diagnostics_ = of_fitted("learned.state.diagnostics")

    def to_inference_data(
        self, X: Any = None, y: Any = None, *, n_samples: int = 1000, random_state: int = 0
    ) -> Any:
        """Hand the draws of the weights, in standardised units, to ArviZ: traces, summaries.

        At rows X also new observations, and y, in the groups that other methods have: of one chain
        of n_samples. ValueError for y without X; ImportError where ArviZ is not installed.
        """
        from sklearn.utils.validation import check_is_fitted

        from bayesprop.estimators.inference_data import at_rows, inference_data

        check_is_fitted(self)
        if X is None and y is not None:
            raise ValueError("X must be the rows of y, got None: pass both, or neither")
        groups = {} if X is None else at_rows(self, X, y, n_samples, random_state)
        state: ChainState = cast(Any, self).state_
        return inference_data(groups | diagnostics.arviz_groups(state.chains))


@hyper_parameters
class MCMCRegressor(_Chains, _Params, NoisyRegressor):
    """Draws of a network's weights from their exact posterior, for regression.

    The model of probabilistic backpropagation with nothing approximated but the number of draws:
    what every other method is measured against. For small networks and tables.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop.estimators.mcmc import MCMCRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MCMCRegressor((), n_draws=500, random_state=0)
    >>> model.fit(X[:100, 2:4], y[:100]).predict(X[400:, 2:4]).shape
    (42,)
    """

    noise_prior: _GammaPrior = SIX


@hyper_parameters
class MCMCClassifier(_Chains, _Params, PixelClassifier):
    """Draws of a network's weights from their exact posterior, for classification.

    A prediction averages the probabilities of all draws. For small networks and tables.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesprop.estimators.mcmc import MCMCClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MCMCClassifier((), n_draws=1000, random_state=0)
    >>> model.fit(X[::2], y[::2]).predict_proba(X[1::2]).shape
    (75, 3)
    """


__getattr__ = lazily(globals())
