"""Markov chain Monte Carlo over a network's weights, as a scikit-learn regressor and classifier."""

from __future__ import annotations

from dataclasses import field
from math import inf
from typing import Any, ClassVar, Literal, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.network_params import layer_sizes, likelihood_of
from bayesprop.estimators.params import (
    ACTIVATION,
    BELOW_ONE,
    COUNT,
    NOISE,
    POSITIVE,
    SIZES,
    check_fields,
    check_int,
    numbers,
)
from bayesprop.estimators.shell import BayesianClassifier, BayesianRegressor, of_state
from bayesprop.model.posterior import SIX
from bayesprop.model.task import Task
from bayesprop.sampling import diagnostics
from bayesprop.sampling.chain_course import DYNAMICS, Dynamics, Plan, Sampler, StochasticPlan
from bayesprop.sampling.markov_chains import ChainState, MarkovChains, network_posterior

_PRIOR = numbers(
    "(shape > 0, rate > 0) of a Gamma prior",
    lambda shape, rate: 0.0 < shape < inf and 0.0 < rate < inf,
)
_PRECISION = numbers(
    "a number > 0 or (shape > 0, rate > 0) of a Gamma prior",
    lambda *prior: len(prior) <= 2 and all(0.0 < number < inf for number in prior),
)


def _floats(value: Any) -> Any:
    """Turn a checked precision into plain numbers, which key compilation."""
    return float(value) if np.ndim(value) == 0 else (float(value[0]), float(value[1]))


@hyper_parameters
class _Params:
    """What both have.

    Parameters
    ----------
    sampler : {"nuts", "hmc", "random-walk", "sgld", "sghmc"}
        The no-U-turn sampler (Hoffman & Gelman 2014), Hamiltonian Monte Carlo, random-walk
        Metropolis; or without rejection, on batches, stochastic gradient Langevin dynamics
        (Welling & Teh 2011) and Hamiltonian Monte Carlo (Chen et al. 2014).
    n_chains : int
        Chains from different starts, on as many cores; two or more, to see whether they agree.
    n_warmup : int
        Steps before the first draw, in which "nuts", "hmc" and "random-walk" adapt.
    n_draws : int
        Draws that are kept of every chain; a prediction averages over all of them.
    thin : int
        Steps for each draw.
    target_acceptance : float
        Of "nuts" and "hmc", 0 to 1: nearer to 1 is slower, with fewer divergences.
    n_leapfrog : int
        Steps of a trajectory of "hmc".
    batch_size : int
        Rows of a step of "sgld" and "sghmc".
    step_size : float
        Of "sgld" and "sghmc", as `sampling.chain_course.StochasticPlan` defines it.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers, which are divided by the root of their fan-in.
    weight_precision : (shape, rate) or float
        Prior precision of the weights: unknown with a Gamma prior, or given.
    noise_prior : (shape, rate)
        Gamma prior of the precision of "learned" noise, in standardised units.

    Attributes
    ----------
    state_ : ChainState
        Its `chains` has all draws, standardised units.
    diagnostics_ : Diagnostics or None
        R-hat and effective numbers of draws of the log density, of predictions at some training
        rows (log probabilities of classes), and of the precisions; None for a single chain.
    n_iter_ : int
        Steps of every chain.
    """

    method_class: ClassVar[type] = MarkovChains
    hidden_layer_sizes: tuple[int, ...] = field(default=(10,), kw_only=False, metadata=SIZES)
    sampler: Literal["nuts", "hmc", "random-walk", "sgld", "sghmc"] = "nuts"
    n_chains: int = field(default=4, metadata=COUNT)
    n_warmup: int = 500
    n_draws: int = field(default=250, metadata=COUNT)
    thin: int = field(default=1, metadata=COUNT)
    target_acceptance: float = field(default=0.8, metadata=BELOW_ONE)
    n_leapfrog: int = field(default=20, metadata=COUNT)
    batch_size: int = field(default=32, metadata=COUNT)
    step_size: float = field(default=1e-2, metadata=POSITIVE)
    activation: str = field(default="relu", metadata=ACTIVATION)
    weight_precision: tuple[float, float] | float = field(default=SIX, metadata=_PRECISION)
    random_state: Any = None

    diagnostics_ = of_state("diagnostics")

    def check_params(self) -> None:
        """Raise ValueError for hyper-parameters out of their range, alone or together."""
        check_fields(self)
        check_int("n_warmup", self.n_warmup, least=int(self.sampler in ("nuts", "hmc")))

    def build_method(self, task: Task, n_inputs: int) -> MarkovChains:
        """Return the method that the hyper-parameters describe."""
        likelihood = likelihood_of(task, self)
        priors = map(_floats, (self.weight_precision, getattr(self, "noise_prior", SIX)))
        return MarkovChains(
            network_posterior(self.activation, likelihood, *priors),
            layer_sizes(n_inputs, self.hidden_layer_sizes, likelihood),
            int(self.n_chains),
            self._plan(),
        )

    def _plan(self) -> Plan | StochasticPlan:
        steps = {"n_warmup": int(self.n_warmup), "n_draws": int(self.n_draws)}
        steps["thin"] = int(self.thin)
        if self.sampler in DYNAMICS:
            return StochasticPlan(
                cast(Dynamics, self.sampler),
                **steps,
                batch_size=int(self.batch_size),
                step_size=float(self.step_size),
            )
        return Plan(
            cast(Sampler, self.sampler),
            **steps,
            target_acceptance=float(self.target_acceptance),
            n_leapfrog=int(self.n_leapfrog),
        )

    def to_inference_data(self) -> Any:
        """Hand the draws, in standardised units, to ArviZ: trace plots, summaries, comparisons.

        ImportError where ArviZ is not installed.
        """
        check_is_fitted(self)
        state: ChainState = cast(Any, self).state_
        return diagnostics.to_inference_data(state.chains)


@hyper_parameters
class MCMCRegressor(_Params, BayesianRegressor):
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

    noise: Literal["learned", "input"] | float = field(default="learned", metadata=NOISE)
    noise_prior: tuple[float, float] = field(default=SIX, metadata=_PRIOR)


@hyper_parameters
class MCMCClassifier(_Params, BayesianClassifier):
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

    standardise: bool = True
