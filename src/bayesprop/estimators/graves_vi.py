"""Graves' variational inference as a scikit-learn regressor and classifier."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

from bayesprop.estimators.checks import check_positive
from bayesprop.estimators.network import Built, NetworkClassifier, NetworkRegressor
from bayesprop.estimators.noise import check_noise, gaussian_likelihood
from bayesprop.estimators.optimizers import check_optimizer, make_optimizer
from bayesprop.estimators.pruning import PrunableNetwork
from bayesprop.model.layers import activation as activation_named
from bayesprop.model.network_likelihoods import GaussianNoise, NetworkLikelihood
from bayesprop.model.networks import plain_apply
from bayesprop.sampling.graves_vi import graves_vi


class _Config(NamedTuple):
    likelihood: NetworkLikelihood
    activation: str
    optimizer: str
    learning_rate: float
    momentum: float
    init_std: float


@lru_cache(maxsize=64)
def _built(config: _Config) -> Built:
    apply = partial(plain_apply, activation_name=config.activation)
    optimizer = make_optimizer(config.optimizer, config.learning_rate, config.momentum)
    method = graves_vi(apply, config.likelihood, optimizer, init_std=config.init_std)
    return Built(method, apply, config.likelihood)


class _GravesFitting(PrunableNetwork):
    """What both have; a subclass implements `_likelihood`."""

    activation: str
    optimizer: str
    learning_rate: float
    momentum: float
    init_std: float

    def _likelihood(self) -> NetworkLikelihood:
        raise NotImplementedError

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        activation_named(self.activation)
        check_optimizer(self.optimizer, self.learning_rate, self.momentum)
        check_positive("init_std", self.init_std)

    def _build(self) -> Built:
        return _built(
            _Config(
                likelihood=self._likelihood(),
                activation=self.activation,
                optimizer=self.optimizer,
                learning_rate=float(self.learning_rate),
                momentum=float(self.momentum),
                init_std=float(self.init_std),
            )
        )


class GravesVIRegressor(NetworkRegressor, _GravesFitting):
    """Variational inference with squared gradients, for regression (Graves 2011).

    The baseline of the papers on PBP and Bayes by Backprop: one draw of the weights a step, a
    biased gradient of the variances, and a prior whose mean and variance follow the weights. For
    results of your own prefer `BayesByBackpropRegressor`.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows.
    batch_size : int
        Rows of a step; all of them if there are fewer. Memory is a gradient a row.
    learning_rate : float
        Step size of the optimiser.
    optimizer : {"adam", "sgd"}
        Adam, or stochastic gradient descent with momentum, as in the papers.
    momentum : float
        Of "sgd", 0 to less than 1; Adam has its own.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    noise : "learned", "input" or float
        One noise variance learnt for every output; one that depends on the input; or the variance
        itself, in y².
    init_std : float
        Standard deviation of every weight at the start.
    n_draws : int
        Networks that are drawn for a prediction.
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds start, order and draws.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : BayesByBackpropState
        Posterior, noise and optimiser.
    fit_report_ : FitReport
        Course of training, advice.
    x_scaler_, y_scaler_ : Standardiser
        How inputs and targets were standardised.
    n_iter_ : int
        Epochs seen since the last reset.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop.estimators.graves_vi import GravesVIRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GravesVIRegressor(n_epochs=50, random_state=0).fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (50,),
        n_epochs: int = 200,
        *,
        batch_size: int = 32,
        learning_rate: float = 1e-2,
        optimizer: Literal["adam", "sgd"] = "adam",
        momentum: float = 0.9,
        activation: str = "relu",
        noise: Literal["learned", "input"] | float = "learned",
        init_std: float = 0.05,
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
        self.init_std = init_std
        self.n_draws = n_draws
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        check_noise(self.noise)

    def _likelihood(self) -> GaussianNoise:
        return gaussian_likelihood(self.noise, self.y_scaler_.scale)


class GravesVIClassifier(NetworkClassifier, _GravesFitting):
    """Variational inference with squared gradients, to classify (Graves 2011).

    The baseline of the papers on PBP and Bayes by Backprop; for results of your own prefer
    `BayesByBackpropClassifier`.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows.
    batch_size : int
        Rows of a step; all of them if there are fewer. Memory is a gradient a row.
    learning_rate : float
        Step size of the optimiser.
    optimizer : {"adam", "sgd"}
        Adam, or stochastic gradient descent with momentum, as in the papers.
    momentum : float
        Of "sgd", 0 to less than 1; Adam has its own.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    init_std : float
        Standard deviation of every weight at the start.
    n_draws : int
        Networks that are drawn for a prediction.
    standardise : bool
        Whether inputs are brought to mean 0 and variance 1; False for pixels.
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds start, order and draws.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : BayesByBackpropState
        Posterior and optimiser.
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
    >>> from bayesprop.estimators.graves_vi import GravesVIClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = GravesVIClassifier(n_epochs=50, random_state=0).fit(X[:400], y[:400])
    >>> model.predict_proba(X[400:]).shape, model.score(X[400:], y[400:]) > 0.9
    ((169, 2), True)
    """

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (50,),
        n_epochs: int = 200,
        *,
        batch_size: int = 32,
        learning_rate: float = 1e-2,
        optimizer: Literal["adam", "sgd"] = "adam",
        momentum: float = 0.9,
        activation: str = "relu",
        init_std: float = 0.05,
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
        self.init_std = init_std
        self.n_draws = n_draws
        self.standardise = standardise
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
