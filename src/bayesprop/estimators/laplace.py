"""Laplace's approximation around a trained network, as a scikit-learn regressor and classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import jax.numpy as jnp
import numpy as np

from bayesprop.estimators.checks import check_choice
from bayesprop.estimators.inputs import padded
from bayesprop.estimators.laplace_fitting import LaplaceFitting, linear_draws
from bayesprop.estimators.noise import INPUT, of_input_outputs
from bayesprop.estimators.regression import BayesianRegressor
from bayesprop.estimators.trained_network import TrainedClassifier, TrainedRegressor
from bayesprop.model import draws
from bayesprop.model.network_likelihoods import GaussianNoise
from bayesprop.model.noise_mixture import NoiseMixturePredictive
from bayesprop.model.predictive import GaussianPredictive, Predictive
from bayesprop.numerics.gaussian_logits import PREDICTIONS, Logits, log_odds


@dataclass(eq=False, repr=False, kw_only=True)
class LaplaceRegressor(TrainedRegressor, LaplaceFitting):
    """A network trained as usual, and a Gaussian around its weights afterwards, for regression.

    MacKay (1992), Daxberger et al. (2021): the covariance is the inverse curvature at the mode;
    precisions and noise maximise the evidence; predictions are in closed form.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows, in all.
    batch_size : int
        Rows of a step; all of them if there are fewer.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    learning_rate : float
        Step size of the optimiser.
    optimizer : {"adam", "sgd"}
        Adam, or stochastic gradient descent with momentum.
    momentum : float
        Of "sgd", 0 to less than 1; Adam has its own.
    structure : {"full", "kron", "diagonal"}
        Of the curvature: every weight with every other; a Kronecker product a layer; every weight
        by itself.
    layers : {"all", "last"}
        Whose weights are unknown; the others are taken as they were trained.
    curvature : {"ggn", "hessian"}
        The generalised Gauss-Newton matrix, never negative; or the exact second derivatives, whose
        negative directions are taken for flat. Not "hessian" with "kron".
    prior_prec : "by-layer", "one" or float
        Precision of the Gaussian prior of the weights, in standardised units: the one of greatest
        evidence for every layer, or for all of them; or given.
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
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds start, order and draws.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : LaplaceState
        Network, prior precisions, and a root of the covariance of the weights.
    fit_report_ : FitReport
        Course of training and of the log evidence, advice.
    x_scaler_, y_scaler_ : Standardiser
        How inputs and targets were standardised.
    n_iter_ : int
        Epochs seen since the last reset.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop.estimators.laplace import LaplaceRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LaplaceRegressor(random_state=0).fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    def _log_unit(self) -> float:
        return float(np.sum(np.log(self.y_scaler_.scale)))

    def predict_dist(self, X: Any) -> Predictive:
        """Predictive distribution of y at every row, epistemic and noise variance apart.

        Gaussian; with noise="input" a mixture over the log variance of the noise; with
        prediction="draws" over networks.

        X
            Rows in the original units, columns as in `fit`.
        """
        if self.prediction == "draws":
            return super().predict_dist(X)
        standardised = self._gaussian(self._standardised(self._checked_inputs(X)))
        shift = self.y_scaler_.inverse_mean(np.zeros((1, self.n_outputs_)))[0]
        found = standardised.rescaled(shift, self.y_scaler_.scale)
        if not self._y_is_vector:
            return found
        if isinstance(found, NoiseMixturePredictive):
            return found.target(0)
        parts = (found.mean, found.epistemic_var, found.noise_var)
        return GaussianPredictive(*(part[:, 0] for part in parts))

    def _gaussian(self, x: np.ndarray) -> Predictive:
        f, cov = self._output_moments(x)
        v, o = np.maximum(np.diagonal(cov, axis1=1, axis2=2), 0.0), self.n_outputs_
        if self.noise != INPUT:
            noise_var = self._likelihood().observe(self.state_.mode.likelihood, jnp.asarray(f)).v
            return GaussianPredictive(f, v, np.asarray(noise_var, np.float64))
        return of_input_outputs(f, v, o)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive mean of y, and with `return_std` also the total predictive std, in y."""
        return BayesianRegressor.predict(self, X, return_std)

    def _observations(self, x: np.ndarray, key: Any, n_draws: int) -> draws.Observed:
        """Predict by networks drawn from the posterior; linearised ones, where predictions are."""
        if self.prediction == "draws":
            return super()._observations(x, key, n_draws)
        network = self._build()
        apply, sample = linear_draws(self._laplace_model(network))
        drawn = draws.observations(
            apply,
            sample,
            cast(GaussianNoise, network.likelihood),
            key,
            self.state_,
            jnp.asarray(padded(x), jnp.float32),
            n_draws=n_draws,
        )
        return draws.Observed(*(part[:, : len(x)] for part in drawn))


@dataclass(eq=False, repr=False, kw_only=True)
class LaplaceClassifier(TrainedClassifier, LaplaceFitting):
    """A network trained as usual, and a Gaussian around its weights afterwards, to classify.

    MacKay (1992), Daxberger et al. (2021): the covariance is the inverse curvature at the mode;
    the prior's precisions maximise the evidence; predictions average over Gaussian logits.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows, in all.
    batch_size : int
        Rows of a step; all of them if there are fewer.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    learning_rate : float
        Step size of the optimiser.
    optimizer : {"adam", "sgd"}
        Adam, or stochastic gradient descent with momentum.
    momentum : float
        Of "sgd", 0 to less than 1; Adam has its own.
    structure : {"full", "kron", "diagonal"}
        Of the curvature: every weight with every other; a Kronecker product a layer; every weight
        by itself.
    layers : {"all", "last"}
        Whose weights are unknown; the others are taken as they were trained.
    curvature : {"ggn", "hessian"}
        The generalised Gauss-Newton matrix, never negative; or the exact second derivatives, whose
        negative directions are taken for flat. Not "hessian" with "kron".
    prior_prec : "by-layer", "one" or float
        Precision of the Gaussian prior of the weights, in standardised units: the one of greatest
        evidence for every layer, or for all of them; or given.
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
    standardise : bool
        Whether inputs are brought to mean 0 and variance 1; False for pixels.
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds start, order and draws.
    verbose : int
        1 writes a line an epoch to stderr.
    integral : {"quadrature", "probit"}
        How prediction="linearised" averages over the Gaussian logits: by fixed points, exact to
        1e-9 with two classes; or by the probit's closed form, with more classes the mean-field
        softmax.

    Attributes
    ----------
    state_ : LaplaceState
        Network, prior precisions, and a root of the covariance of the weights.
    classes_ : array
        Labels, in the order of the columns of `predict_proba`.
    fit_report_ : FitReport
        Course of training and of the log evidence, advice.
    x_scaler_ : Standardiser
        How inputs were standardised.
    n_iter_ : int
        Epochs seen since the last reset.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesprop.estimators.laplace import LaplaceClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LaplaceClassifier(random_state=0).fit(X[:400], y[:400])
    >>> model.predict_proba(X[400:]).shape, model.score(X[400:], y[400:]) > 0.9
    ((169, 2), True)
    """

    integral: Literal["quadrature", "probit"] = "quadrature"

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        check_choice("integral", self.integral, tuple(PREDICTIONS))

    def _class_moments_standardised(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.prediction == "draws":
            return super()._class_moments_standardised(x)
        f, cov = self._output_moments(x)
        return PREDICTIONS[self.integral](log_odds(Logits(f, cov)))
