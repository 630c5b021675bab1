"""Monte Carlo dropout as a scikit-learn regressor and classifier."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

from bayesprop.estimators.checks import check_positive
from bayesprop.estimators.network import (
    Built,
    NetworkClassifier,
    NetworkFitting,
    NetworkRegressor,
)
from bayesprop.estimators.noise import check_noise, gaussian_likelihood
from bayesprop.estimators.optimizers import check_optimizer, check_share, make_optimizer
from bayesprop.model.layers import activation as activation_named
from bayesprop.model.network_likelihoods import GaussianNoise, NetworkLikelihood
from bayesprop.model.networks import plain_apply
from bayesprop.sampling.dropout import Rates
from bayesprop.sampling.mc_dropout import mc_dropout


class _Config(NamedTuple):
    likelihood: NetworkLikelihood
    activation: str
    optimizer: str
    learning_rate: float
    momentum: float
    rates: Rates
    length_scale: float


@lru_cache(maxsize=64)
def _built(config: _Config) -> Built:
    apply = partial(plain_apply, activation_name=config.activation)
    method = mc_dropout(
        apply,
        config.likelihood,
        make_optimizer(config.optimizer, config.learning_rate, config.momentum),
        rates=config.rates,
        length_scale=config.length_scale,
        activation_name=config.activation,
    )
    return Built(method, apply, config.likelihood)


class _DropoutFitting(NetworkFitting):
    """What both have; a subclass implements `_likelihood`."""

    activation: str
    optimizer: str
    learning_rate: float
    momentum: float
    dropout: float
    input_dropout: float
    length_scale: float

    def _likelihood(self) -> NetworkLikelihood:
        raise NotImplementedError

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        activation_named(self.activation)
        check_optimizer(self.optimizer, self.learning_rate, self.momentum)
        for name in ("dropout", "input_dropout"):
            check_share(name, getattr(self, name))
        check_positive("length_scale", self.length_scale)

    def _build(self) -> Built:
        return _built(
            _Config(
                likelihood=self._likelihood(),
                activation=self.activation,
                optimizer=self.optimizer,
                learning_rate=float(self.learning_rate),
                momentum=float(self.momentum),
                rates=Rates(float(self.input_dropout), float(self.dropout)),
                length_scale=float(self.length_scale),
            )
        )


class MCDropoutRegressor(NetworkRegressor, _DropoutFitting):
    """Dropout in training and in prediction, for regression (Gal & Ghahramani 2016).

    Networks with units missing at random are draws from an approximate posterior; a prediction is
    the mixture of what they predict, its variance the noise plus the variance of their means.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows.
    batch_size : int
        Rows of a step; all of them if there are fewer.
    learning_rate : float
        Step size of the optimiser.
    optimizer : {"adam", "sgd"}
        Adam, or stochastic gradient descent with momentum.
    momentum : float
        Of "sgd", 0 to less than 1; Adam has its own.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    noise : "learned", "input" or float
        One noise variance learnt for every output; one that depends on the input; or the variance
        itself, in y²: the inverse of the paper's model precision tau.
    dropout, input_dropout : float
        Probability that a hidden unit or an input is missing, in training and in every draw.
    length_scale : float
        Weights have the prior N(0, 1 / length_scale²), in standardised units: the larger, the
        smoother the function. With N rows and noise of precision tau this is a weight decay of
        (1 - dropout) length_scale² / (2 N tau) (the paper's eq. 7).
    n_draws : int
        Networks that are drawn for a prediction, the paper's T.
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds start, order and what is missing.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : pytree
        Parameters and optimiser.
    fit_report_ : FitReport
        Course of training, advice.
    x_scaler_, y_scaler_ : Standardiser
        How inputs and targets were standardised.
    n_iter_ : int
        Epochs seen since the last reset.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop.estimators.mc_dropout import MCDropoutRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MCDropoutRegressor(random_state=0).fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (50,),
        n_epochs: int = 100,
        *,
        batch_size: int = 32,
        learning_rate: float = 1e-2,
        optimizer: Literal["adam", "sgd"] = "adam",
        momentum: float = 0.9,
        activation: str = "relu",
        noise: Literal["learned", "input"] | float = "learned",
        dropout: float = 0.05,
        input_dropout: float = 0.0,
        length_scale: float = 3.0,
        n_draws: int = 100,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.momentum = momentum
        self.activation = activation
        self.noise = noise
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.length_scale = length_scale
        self.n_draws = n_draws
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        check_noise(self.noise)

    def _likelihood(self) -> GaussianNoise:
        return gaussian_likelihood(self.noise, self.y_scaler_.scale)


class MCDropoutClassifier(NetworkClassifier, _DropoutFitting):
    """Dropout in training and in prediction, for classification (Gal & Ghahramani 2016).

    Networks with units missing at random are draws from an approximate posterior; a prediction is
    the average of their probabilities.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows.
    batch_size : int
        Rows of a step; all of them if there are fewer.
    learning_rate : float
        Step size of the optimiser.
    optimizer : {"adam", "sgd"}
        Adam, or stochastic gradient descent with momentum.
    momentum : float
        Of "sgd", 0 to less than 1; Adam has its own.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    dropout, input_dropout : float
        Probability that a hidden unit or an input is missing, in training and in every draw.
    length_scale : float
        Weights have the prior N(0, 1 / length_scale²), in standardised units: the larger, the
        smoother the function. With N rows and noise of precision tau this is a weight decay of
        (1 - dropout) length_scale² / (2 N tau) (the paper's eq. 7).
    n_draws : int
        Networks that are drawn for a prediction, the paper's T.
    standardise : bool
        Whether inputs are brought to mean 0 and variance 1; False for pixels.
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds start, order and what is missing.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : pytree
        Parameters and optimiser.
    classes_ : array
        Labels, in the order of the columns of `predict_proba`.
    fit_report_ : FitReport
        Course of training, advice.
    x_scaler_ : Standardiser
        How inputs were standardised.
    n_iter_ : int
        Epochs seen since the last reset.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesprop.estimators.mc_dropout import MCDropoutClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MCDropoutClassifier(random_state=0).fit(X[:400], y[:400])
    >>> model.predict_proba(X[400:]).shape, model.score(X[400:], y[400:]) > 0.9
    ((169, 2), True)
    """

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (50,),
        n_epochs: int = 100,
        *,
        batch_size: int = 32,
        learning_rate: float = 1e-2,
        optimizer: Literal["adam", "sgd"] = "adam",
        momentum: float = 0.9,
        activation: str = "relu",
        dropout: float = 0.05,
        input_dropout: float = 0.0,
        length_scale: float = 3.0,
        n_draws: int = 100,
        standardise: bool = True,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.momentum = momentum
        self.activation = activation
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.length_scale = length_scale
        self.n_draws = n_draws
        self.standardise = standardise
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
