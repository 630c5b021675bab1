"""Hyper-parameters of Markov chain Monte Carlo."""

from __future__ import annotations

from dataclasses import field
from math import inf
from typing import Any, ClassVar, Literal

import numpy as np

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.network_params import layer_sizes, likelihood_of
from bayesprop.estimators.params import (
    ACTIVATION,
    BELOW_ONE,
    COUNT,
    NOISE,
    SIZES,
    HyperParameters,
    OfClasses,
    OfNumbers,
    check_int,
    numbers,
)
from bayesprop.model.task import Task
from bayesprop.networks.posterior import SIX
from bayesprop.sampling.chain_course import Plan, Sampler
from bayesprop.sampling.markov_chains import MarkovChains, network_posterior

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
class _Params(HyperParameters):
    """What both have.

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
        Of "nuts" and "hmc", 0 to 1: nearer to 1 is slower, with fewer divergences.
    n_leapfrog : int
        Steps of a trajectory of "hmc".
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

    method_class: ClassVar[type] = MarkovChains
    hidden_layer_sizes: tuple[int, ...] = field(default=(10,), kw_only=False, metadata=SIZES)
    sampler: Sampler = "nuts"
    n_chains: int = field(default=4, metadata=COUNT)
    n_warmup: int = 500
    n_draws: int = field(default=250, metadata=COUNT)
    thin: int = field(default=1, metadata=COUNT)
    target_acceptance: float = field(default=0.8, metadata=BELOW_ONE)
    n_leapfrog: int = field(default=20, metadata=COUNT)
    activation: str = field(default="relu", metadata=ACTIVATION)
    weight_precision: tuple[float, float] | float = field(default=SIX, metadata=_PRECISION)
    random_state: Any = None

    def check_params(self) -> None:
        super().check_params()
        check_int("n_warmup", self.n_warmup, least=int(self.sampler in ("nuts", "hmc")))

    def build_method(self, task: Task, n_inputs: int) -> MarkovChains:
        likelihood = likelihood_of(task, self)
        priors = map(_floats, (self.weight_precision, getattr(self, "noise_prior", SIX)))
        return MarkovChains(
            network_posterior(self.activation, likelihood, *priors),
            layer_sizes(n_inputs, self.hidden_layer_sizes, likelihood),
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


@hyper_parameters
class MCMCRegressorParams(_Params, OfNumbers):
    """Those of `MCMCRegressor`."""

    noise: Literal["learned", "input"] | float = field(default="learned", metadata=NOISE)
    noise_prior: tuple[float, float] = field(default=SIX, metadata=_PRIOR)


@hyper_parameters
class MCMCClassifierParams(_Params, OfClasses):
    """Those of `MCMCClassifier`."""

    standardise: bool = True
