"""Closed-form variational inference as a scikit-learn regressor and classifier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from bayesprop.estimators.checks import check_choice
from bayesprop.estimators.closed_form_fitting import ClosedFormFitting
from bayesprop.estimators.inputs import padded
from bayesprop.estimators.network import NetworkClassifier, NetworkRegressor
from bayesprop.estimators.noise import INPUT, check_noise, gaussian_likelihood, of_input_outputs
from bayesprop.estimators.regression import BayesianRegressor
from bayesprop.model.network_likelihoods import Categorical
from bayesprop.model.noise_mixture import NoiseMixturePredictive
from bayesprop.model.predictive import GaussianPredictive, Predictive
from bayesprop.moments import closed_form_vi as vi
from bayesprop.numerics import softmax_expectations


@dataclass(eq=False, repr=False, kw_only=True)
class ClosedFormVIRegressor(ClosedFormFitting, NetworkRegressor):
    """Network with Gaussian weights for regression, fitted and used without drawing any.

    Means and variances pass through the network once; the objective is in closed form. Roth &
    Pernkopf (2016). `BayesianMLPRegressor` builds on it, and needs no tuning.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows; steps at most with "lbfgs".
    noise : "learned", "input" or float
        One variance learnt for every output; a log variance that is an output of the same
        network; or the variance itself, in y².
    batch_size : int
        Rows of a step; all of them if there are fewer.
    learning_rate : float
        Step size of Adam; the paper's is 0.001.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    prior : {"normal", "laplace"}
        Of every weight, around zero.
    prior_scale : float, "fan_in" or "empirical"
        Standard deviation of the normal, scale of the Laplace prior; "fan_in": sqrt(2 / inputs of
        the layer); "empirical": what maximises the objective, layer by layer.
    likelihood_weight : float
        Copies of every row that the posterior believes it saw (section 3.3). 1 is variational
        Bayes, and underfits small tables; more understates the doubt of the weights.
    optimizer : {"adam", "lbfgs"}
        Adam on batches, or L-BFGS on all rows at once in float64, which stops at a minimum. For
        up to some thousand rows.
    kl_warm_up : float
        Epochs over which the weight of the prior rises from 0 to 1; 0: none.
    prediction : {"expected", "mean", "draws"}
        Expectations in closed form; the network of the mean weights, which has no doubt of them;
        or the average over `n_draws` networks.
    n_draws : int
        Networks of prediction="draws".
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds the initial means and the order of rows.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : VIState
        The posterior, in standardised units.
    fit_report_ : FitReport
        Course of training, hidden units through which nothing passes, advice.
    gradient_norm_ : float
        Largest derivative of the objective a row where L-BFGS stopped; "lbfgs" only.
    x_scaler_, y_scaler_ : Standardiser
        How inputs and targets were standardised.
    n_iter_ : int
        Epochs (steps of "lbfgs") since the last reset.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop.estimators.closed_form_vi import ClosedFormVIRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ClosedFormVIRegressor(n_epochs=50, kl_warm_up=25, random_state=0)
    >>> mean, std = model.fit(X[:400], y[:400]).predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    hidden_layer_sizes: tuple[int, ...] = field(default=(50,), kw_only=False)
    n_epochs: int = field(default=200, kw_only=False)
    noise: Literal["learned", "input"] | float = "learned"
    batch_size: int = 32
    learning_rate: float = 1e-2
    activation: str = "relu"
    prior: Literal["normal", "laplace"] = "normal"
    prior_scale: Literal["fan_in", "empirical"] | float = "fan_in"
    likelihood_weight: float = 1.0
    optimizer: Literal["adam", "lbfgs"] = "adam"
    kl_warm_up: float = 100.0
    prediction: Literal["expected", "mean", "draws"] = "expected"
    n_draws: int = 100
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    def _check_hyper_parameters(self) -> None:
        if isinstance(self.noise, str) and self.noise == "network":
            raise ValueError(
                "noise must be 'learned', 'input' or a variance in y², got 'network': networks of "
                "their own for the noise has BayesianMLPRegressor, the default"
            )
        check_noise(self.noise)
        super()._check_hyper_parameters()

    def _model(self) -> vi.Model:
        return self._model_for(gaussian_likelihood(self.noise, self.y_scaler_.scale))

    def predict_dist(self, X: Any) -> Predictive:
        """Predictive distribution of y at every row, epistemic and noise variance apart.

        Gaussian with noise="learned" or a variance; with noise="input" a mixture over the log
        variance of the noise; with prediction="draws" over networks.

        X
            Rows in the original units, columns as in `fit`.
        """
        if self.prediction == "draws":
            return super().predict_dist(X)
        standardised = self._predictive(self._standardised(self._checked_inputs(X)))
        shift = self.y_scaler_.inverse_mean(np.zeros((1, self.n_outputs_)))[0]
        predictive = standardised.rescaled(shift, self.y_scaler_.scale)
        if not self._y_is_vector:
            return predictive
        if isinstance(predictive, NoiseMixturePredictive):
            return predictive.target(0)
        parts = (predictive.mean, predictive.epistemic_var, predictive.noise_var)
        return GaussianPredictive(*(part[:, 0] for part in parts))

    def _predictive(self, x: np.ndarray) -> NoiseMixturePredictive | GaussianPredictive:
        m, v = self._output_moments(x)
        if self.noise == INPUT:
            return of_input_outputs(m, v, self.n_outputs_)
        likelihood = gaussian_likelihood(self.noise, self.y_scaler_.scale)
        noise_var = likelihood.observe(self.state_.params.likelihood, jnp.asarray(m)).v
        return GaussianPredictive(m, v, np.asarray(noise_var, np.float64))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive mean of y, and with `return_std` also the total predictive std, in y."""
        return BayesianRegressor.predict(self, X, return_std)


@dataclass(eq=False, repr=False, kw_only=True)
class ClosedFormVIClassifier(ClosedFormFitting, NetworkClassifier):
    """Network with Gaussian weights for classification, fitted and used without drawing any.

    Means and variances pass through the network once; the objective and the predicted
    probabilities are expectations over the Gaussian logits. Roth & Pernkopf (2016).

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows; steps at most with "lbfgs".
    batch_size : int
        Rows of a step; all of them if there are fewer.
    learning_rate : float
        Step size of Adam; the paper's is 0.001.
    optimizer : {"adam", "lbfgs"}
        Adam on batches, or L-BFGS on all rows at once in float64, which stops at a minimum. For
        up to some thousand rows.
    expectation : {"exact", "taylor"}
        How the expected log softmax is taken: a quadrature, right at any variance, or the paper's
        second-order expansion, which is faster and wrong where logits are very unsure.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    prior : {"normal", "laplace"}
        Of every weight, around zero.
    prior_scale : float, "fan_in" or "empirical"
        Standard deviation of the normal, scale of the Laplace prior; "fan_in": sqrt(2 / inputs of
        the layer); "empirical": what maximises the objective, layer by layer.
    likelihood_weight : float
        Copies of every row that the posterior believes it saw (section 3.3). 1 is variational
        Bayes, and underfits small tables; more understates the doubt of the weights.
    kl_warm_up : float
        Epochs over which the weight of the prior rises from 0 to 1; 0: none.
    prediction : {"expected", "mean", "draws"}
        Expectations in closed form; the network of the mean weights, which has no doubt of them;
        or the average over `n_draws` networks.
    n_draws : int
        Networks of prediction="draws".
    standardise : bool
        Whether inputs are brought to mean 0 and variance 1; False for pixels.
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds the initial means and the order of rows.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : VIState
        The posterior.
    classes_ : array
        Labels, in the order of the columns of `predict_proba`.
    fit_report_ : FitReport
        Course of training, hidden units through which nothing passes, advice.
    gradient_norm_ : float
        Largest derivative of the objective a row where L-BFGS stopped; "lbfgs" only.
    x_scaler_ : Standardiser
        How inputs were standardised.
    n_iter_ : int
        Epochs (steps of "lbfgs") since the last reset.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesprop.estimators.closed_form_vi import ClosedFormVIClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ClosedFormVIClassifier(n_epochs=20, kl_warm_up=10, random_state=0)
    >>> model.fit(X[:400], y[:400]).predict_proba(X[400:]).shape
    (169, 2)
    >>> model.score(X[400:], y[400:]) > 0.9
    True
    """

    hidden_layer_sizes: tuple[int, ...] = field(default=(50,), kw_only=False)
    n_epochs: int = field(default=100, kw_only=False)
    batch_size: int = 32
    learning_rate: float = 1e-2
    optimizer: Literal["adam", "lbfgs"] = "adam"
    expectation: Any = "exact"
    activation: str = "relu"
    prior: Literal["normal", "laplace"] = "normal"
    prior_scale: Literal["fan_in", "empirical"] | float = "fan_in"
    likelihood_weight: float = 10.0
    kl_warm_up: float = 0.0
    prediction: Literal["expected", "mean", "draws"] = "expected"
    n_draws: int = 100
    standardise: bool = True
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    def _check_hyper_parameters(self) -> None:
        check_choice("expectation", self.expectation, ("exact", "taylor"))
        super()._check_hyper_parameters()

    def _model(self) -> vi.Model:
        return self._model_for(Categorical(len(self.classes_), self.expectation))

    def _class_moments_standardised(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.prediction == "draws":
            return super()._class_moments_standardised(x)
        m, v = (jnp.asarray(padded(part), jnp.float32) for part in self._output_moments(x))
        proba, entropy = (np.asarray(part, np.float64) for part in _class_moments(m, v))
        return proba[: len(x)], entropy[: len(x)]


@jax.jit
def _class_moments(m: Any, v: Any) -> tuple[Any, Any]:
    """Probabilities and expected entropies, some rows at a time to bound the memory."""

    def one(moments: tuple[Any, Any]) -> tuple[Any, Any]:
        found = softmax_expectations.moments(*moments)
        proba = jnp.maximum(found.proba, 0.0)
        return proba, softmax_expectations.expected_entropy(*moments, found)

    return jax.lax.map(one, (m, v), batch_size=1024)
