"""Markov chain Monte Carlo over a network's weights, as a scikit-learn regressor and classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np

from bayesprop.estimators.chain_fitting import ChainFitting, check_precision, numbers
from bayesprop.estimators.drawn import DrawsClassifier, DrawsRegressor
from bayesprop.estimators.inputs import padded
from bayesprop.estimators.noise import check_noise, gaussian_likelihood
from bayesprop.model import draws
from bayesprop.model.gradient_method import Draw
from bayesprop.model.network_likelihoods import Categorical, GaussianNoise
from bayesprop.model.posterior import SIX, GammaPrior


@dataclass(eq=False, repr=False, kw_only=True)
class MCMCRegressor(ChainFitting, DrawsRegressor):
    """Draws of a network's weights from their exact posterior, for regression.

    The model of probabilistic backpropagation with nothing approximated but the number of draws:
    what every other method is measured against. For small networks and tables.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
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
        Of "sgld" and "sghmc", as `sampling.sgmcmc.StochasticPlan` defines it.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers, which are divided by the root of their fan-in.
    weight_precision : (shape, rate) or float
        Prior precision of the weights: unknown with a Gamma prior, or given.
    noise : "learned", "input" or float
        One noise variance for every output; one that depends on the input; or the variance itself,
        in y².
    noise_prior : (shape, rate)
        Gamma prior of the precision of "learned" noise, in standardised units.
    random_state : int, RandomState or None
        Seeds starts and chains.

    Attributes
    ----------
    state_ : Chains
        All draws, standardised units.
    diagnostics_ : Diagnostics or None
        R-hat and effective numbers of draws of the log density, of predictions at some training
        rows and of the precisions; None for a single chain.
    fit_report_ : FitReport
        Divergences, advice.
    x_scaler_, y_scaler_ : Standardiser
        How inputs and targets were standardised.
    n_iter_ : int
        Steps of every chain.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop.estimators.mcmc import MCMCRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MCMCRegressor((), n_draws=500, random_state=0)
    >>> model.fit(X[:100, 2:4], y[:100]).predict(X[400:, 2:4]).shape
    (42,)
    """

    noise: Literal["learned", "input"] | float = "learned"
    noise_prior: tuple[float, float] = SIX
    random_state: Any = None

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        check_noise(self.noise)
        check_precision("noise_prior", self.noise_prior, known=False)

    def _noise_prior(self) -> GammaPrior:
        return numbers(self.noise_prior)

    def _likelihood(self) -> GaussianNoise:
        return gaussian_likelihood(self.noise, self.y_scaler_.scale)

    def _observations(self, x: np.ndarray, key: Any, n_draws: int) -> draws.Observed:
        """Predict by all draws, or by n_draws of them at random."""
        model, drawn = self._model(), self.state_.pooled()
        if n_draws != self._n_draws():
            chosen = jax.random.randint(key, (n_draws,), 0, self._n_draws())
            drawn = jax.tree.map(lambda leaf: leaf[np.asarray(chosen)], drawn)
        found = draws.observations_of(
            model.apply,
            cast(GaussianNoise, model.likelihood),
            Draw(drawn.weights, drawn.likelihood),
            jnp.asarray(padded(x), jnp.float32),
        )
        return draws.Observed(*(part[:, : len(x)] for part in found))

    def _sample_standardised(
        self, rng: Any, x: np.ndarray, n_samples: int
    ) -> tuple[np.ndarray, np.ndarray]:
        m, noise_var = super()._sample_standardised(rng, x, n_samples)
        order = rng.permutation(n_samples)  # as many as there are draws come in the chains' order
        return m[order], noise_var[order]


@dataclass(eq=False, repr=False, kw_only=True)
class MCMCClassifier(ChainFitting, DrawsClassifier):
    """Draws of a network's weights from their exact posterior, for classification.

    A prediction averages the probabilities of all draws. For small networks and tables.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
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
        Of "sgld" and "sghmc", as `sampling.sgmcmc.StochasticPlan` defines it.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers, which are divided by the root of their fan-in.
    weight_precision : (shape, rate) or float
        Prior precision of the weights: unknown with a Gamma prior, or given.
    standardise : bool
        Whether inputs are brought to mean 0 and variance 1; False for pixels.
    random_state : int, RandomState or None
        Seeds starts and chains.

    Attributes
    ----------
    state_ : Chains
        All draws, standardised units.
    classes_ : array
        Labels, in the order of the columns of `predict_proba`.
    diagnostics_ : Diagnostics or None
        R-hat and effective numbers of draws of the log density, of log probabilities at some
        training rows and of the weights' precision; None for a single chain.
    fit_report_ : FitReport
        Divergences, advice.
    x_scaler_ : Standardiser
        How inputs were standardised.
    n_iter_ : int
        Steps of every chain.

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
    random_state: Any = None

    def _likelihood(self) -> Categorical:
        return Categorical(len(self.classes_))

    def _class_moments_standardised(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weights, rows = self.state_.pooled().weights, slice(len(x))
        found = draws.class_moments_of(
            self._model().apply, weights, jnp.asarray(padded(x), jnp.float32)
        )
        return np.asarray(found.proba)[rows], np.asarray(found.expected_entropy)[rows]
