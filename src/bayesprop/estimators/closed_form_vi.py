"""Closed-form variational inference as a scikit-learn regressor and classifier."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np

from bayesprop.estimators import noise_network
from bayesprop.estimators.checks import check_choice, check_int
from bayesprop.estimators.closed_form_fitting import ClosedFormFitting
from bayesprop.estimators.inputs import padded
from bayesprop.estimators.network import NetworkClassifier, NetworkRegressor
from bayesprop.estimators.noise import INPUT, check_noise, gaussian_likelihood, of_input_outputs
from bayesprop.estimators.noise_network import NETWORK
from bayesprop.estimators.pruned import forget
from bayesprop.estimators.regression import BayesianRegressor
from bayesprop.model.network_likelihoods import Categorical
from bayesprop.model.noise_mixture import NoiseMixturePredictive
from bayesprop.model.predictive import GaussianPredictive, Predictive
from bayesprop.moments import closed_form_vi as vi
from bayesprop.numerics import softmax_expectations

_OWN = {
    "hidden_layer_sizes": (50,),
    "n_epochs": 200,
    "batch_size": 32,
    "learning_rate": 1e-2,
    "activation": "relu",
    "prior": "normal",
    "prior_scale": "fan_in",
    "likelihood_weight": 1.0,
    "optimizer": "adam",
    "kl_warm_up": 100,
    "prediction": "expected",
    "n_draws": 100,
}


@dataclass(eq=False, repr=False, kw_only=True)
class ClosedFormVIRegressor(ClosedFormFitting, NetworkRegressor):
    """Network with Gaussian weights for regression, fitted and used without drawing any.

    Means and variances pass through the network once; the objective is in closed form. Roth &
    Pernkopf (2016). With `noise="network"`, the default, an ensemble with Student-t noise whose
    scale is learnt by networks of its own, and nothing to tune; with any other noise the paper's
    one network. None is the default of the method chosen; what it does not have is refused.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or None
        Units of every hidden layer; (), not with "network", is a linear model. None: (50,), with
        "network" larger for more than 5000 rows.
    n_epochs : int or None
        Passes over the rows, or steps of "lbfgs". None: 200; with "network" 20 000 steps,
        4000 if there are more columns than rows.
    noise : "network", "learned", "input" or float
        See above; one variance learnt for every output; a log variance that is an output of the
        same network; or the variance itself, in y².
    n_members : int or None
        Networks of the ensemble; "network" only. None: 6 up to 5000 rows, then 2.
    learn_residual : bool or None
        Whether what the ensemble leaves is learnt, where rows left out speak for it: the pattern of
        its errors, by a Gaussian process, and how much of the noise comes back with inputs that the
        table holds more than once (known to the last bit: ask with the type of number that was
        fitted); "network" only. None: True.
    batch_size : int or None
        Rows of a step; all if there are fewer. None: 32; with "network" 128 above 5000 rows.
    learning_rate : float or None
        Step size of Adam. None: 0.01.
    activation : {"relu", "leaky_relu", "erf", "identity"} or None
        Nonlinearity of the hidden layers. None: "relu". This and all below not with "network".
    prior : {"normal", "laplace"} or None
        Of every weight, around zero. None: "normal".
    prior_scale : float, "fan_in", "empirical" or None
        Standard deviation of the normal, scale of the Laplace prior; "fan_in": sqrt(2 / inputs of
        the layer); "empirical": what maximises the objective, layer by layer. None: "fan_in".
    likelihood_weight : float or None
        Copies of every row that the posterior believes it saw (section 3.3). None: 1.
    optimizer : {"adam", "lbfgs"} or None
        Adam on batches, or L-BFGS on all rows at once in float64, which stops at a minimum. For
        up to some thousand rows. None: "adam".
    kl_warm_up : float or None
        Epochs over which the prior's weight rises from 0 to 1. None: 100, and 0 with "lbfgs".
    prediction : {"expected", "mean", "draws"} or None
        Moments in closed form; the network of the mean weights, which has no doubt of them; or
        the average over `n_draws` networks. None: "expected".
    n_draws : int or None
        Networks of prediction="draws". None: 100.
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling; not with "network".
    random_state : int, RandomState or None
        Seeds the initial means and the order of rows.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : VIState or NoiseNetworkState
        The posterior, in standardised units.
    fit_report_ : FitReport
        Course of training, hidden units through which nothing passes, advice.
    gradient_norm_ : float
        Largest derivative of the objective a row where L-BFGS stopped; "lbfgs" only.
    x_scaler_, y_scaler_ : Standardiser
        How inputs and targets were standardised.
    n_iter_ : int
        Epochs since the last reset; steps of "lbfgs" and of "network".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop.estimators.closed_form_vi import ClosedFormVIRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ClosedFormVIRegressor(noise="learned", n_epochs=50, kl_warm_up=25, random_state=0)
    >>> mean, std = model.fit(X[:400], y[:400]).predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    hidden_layer_sizes: tuple[int, ...] | None = field(default=None, kw_only=False)
    n_epochs: int | None = field(default=None, kw_only=False)
    noise: Literal["network", "learned", "input"] | float = "network"
    n_members: int | None = None
    learn_residual: bool | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    activation: str | None = None
    prior: Literal["normal", "laplace"] | None = None
    prior_scale: Literal["fan_in", "empirical"] | float | None = None
    likelihood_weight: float | None = None
    optimizer: Literal["adam", "lbfgs"] | None = None
    kl_warm_up: float | None = None
    prediction: Literal["expected", "mean", "draws"] | None = None
    n_draws: int | None = None
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    @property
    def _is_recipe(self) -> bool:
        return isinstance(self.noise, str) and self.noise == NETWORK

    def _value(self, name: str) -> Any:
        value = getattr(self, name)
        if value is not None:
            return value
        if name == "kl_warm_up" and self.optimizer == "lbfgs":
            return 0
        return _OWN[name]

    def _n_draws(self) -> int:
        return self._value("n_draws")

    def _check_hyper_parameters(self) -> None:
        if not self._is_recipe:
            if isinstance(self.noise, str):
                check_choice("noise", self.noise, (NETWORK, "learned", "input"))
            check_noise(self.noise)
            for name in ("n_members", "learn_residual"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name} must be None unless noise={NETWORK!r}, got {getattr(self, name)!r}"
                    )
            super()._check_hyper_parameters()
            return
        noise_network.check(self)

    def _model(self) -> vi.Model:
        return self._model_for(gaussian_likelihood(self.noise, self.y_scaler_.scale))

    def _fit_rows(self, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Self:
        if not self._is_recipe:
            return super()._fit_rows(x, y, weight)
        forget(self)
        started = time.perf_counter()
        self.state_, info = noise_network.fit(self, x, y, weight)
        seconds = time.perf_counter() - started
        self.fit_report_ = noise_network.report(info, len(x), self.n_iter_, seconds)
        return self

    def predict_dist(self, X: Any) -> Predictive:
        """Predictive distribution of y at every row, epistemic and noise variance apart.

        Gaussian with noise="learned" or a variance; else a mixture over the log variance of the
        noise; with prediction="draws" over networks.

        X
            Rows in the original units, columns as in `fit`.
        """
        if not self._is_recipe and self._value("prediction") == "draws":
            return super().predict_dist(X)
        x = self._standardised(self._checked_inputs(X))
        standardised = noise_network.predict(self, x) if self._is_recipe else self._gaussian(x)
        shift = self.y_scaler_.inverse_mean(np.zeros((1, self.n_outputs_)))[0]
        found = standardised.rescaled(shift, self.y_scaler_.scale)
        if not self._y_is_vector:
            return found
        if isinstance(found, NoiseMixturePredictive):
            return found.target(0)
        parts = (found.mean, found.epistemic_var, found.noise_var)
        return GaussianPredictive(*(part[:, 0] for part in parts))

    def _gaussian(self, x: np.ndarray) -> Predictive:
        m, v = self._output_moments(x)
        o = self.n_outputs_
        if self.noise != INPUT:
            likelihood = gaussian_likelihood(self.noise, self.y_scaler_.scale)
            noise_var = likelihood.observe(self.state_.params.likelihood, jnp.asarray(m)).v
            return GaussianPredictive(m, v, np.asarray(noise_var, np.float64))
        return of_input_outputs(m, v, o)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive mean of y, and with `return_std` also the total predictive std, in y."""
        return BayesianRegressor.predict(self, X, return_std)

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, *, include_noise: bool = False
    ) -> Any:
        """Joint draws over all rows: each is one function, from one draw of the weights.

        With `include_noise`, draws of new observations. (n, [o,] n_samples).
        """
        if not self._is_recipe:
            return super().sample_y(X, n_samples, random_state, include_noise=include_noise)
        check_int("n_samples", n_samples)
        x = self._standardised(self._checked_inputs(X))
        drawn = noise_network.sample(self, x, n_samples, random_state, include_noise=include_noise)
        y = np.moveaxis(self.y_scaler_.inverse_mean(drawn), 0, -1)
        return y[:, 0] if self._y_is_vector else y

    def without_known_rows(self) -> Self:
        """Return a copy that predicts inputs of its table as if they had never been measured.

        The same model where it remembers none, `fit_report_.guards["known_rows"]` being 0.
        """
        other = copy.copy(self)
        if self._is_recipe:
            other.state_ = noise_network.without_known(self.state_)
        return other

    def _to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return noise_network.to_stored(self) if self._is_recipe else super()._to_stored()

    @classmethod
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        if header["params"]["noise"] == NETWORK:
            return noise_network.from_stored(cls, header, arrays)
        return super()._from_stored(header, arrays)


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
        Expected probabilities in closed form; the network of the mean weights; or the average
        over `n_draws` networks.
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
