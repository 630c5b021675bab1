"""Bayes by Backprop as a scikit-learn regressor and classifier."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import optax

from bayesprop.estimators.checks import check_choice, check_int, check_positive
from bayesprop.estimators.network import Built, NetworkClassifier, NetworkRegressor
from bayesprop.estimators.noise import check_noise, gaussian_likelihood
from bayesprop.estimators.pruning import PrunableNetwork
from bayesprop.model.layers import activation as activation_named
from bayesprop.model.network_likelihoods import GaussianNoise, NetworkLikelihood
from bayesprop.model.networks import plain_apply
from bayesprop.model.priors import NormalPrior, Prior, ScaleMixturePrior
from bayesprop.sampling.bayes_by_backprop import bayes_by_backprop, mean

OPTIMIZERS = {
    "sgd": optax.sgd,
    "adam": optax.adam,
    "adamw": optax.adamw,
    "rmsprop": optax.rmsprop,
    "adagrad": optax.adagrad,
}
PRIOR_STD = 0.3
PRIORS = ("normal", "mixture")
MIXTURE = (0.5, 1.0, 0.0024787522)


class _Config(NamedTuple):
    likelihood: NetworkLikelihood
    activation: str
    prior: Prior
    optimizer: Any
    learning_rate: float
    n_samples: int
    kl_weights: Any
    init_std: float
    local_reparameterisation: bool
    prediction: str


@lru_cache(maxsize=64)
def _built(config: _Config) -> Built:
    apply = partial(plain_apply, activation_name=config.activation)
    optimizer = config.optimizer
    if isinstance(optimizer, str):
        optimizer = OPTIMIZERS[optimizer](config.learning_rate)
    method = bayes_by_backprop(
        apply,
        config.likelihood,
        config.prior,
        optimizer,
        n_samples=config.n_samples,
        kl="closed" if config.prior.has_closed_kl else "sampled",
        kl_weights=config.kl_weights,
        init_std=config.init_std,
        local_reparameterisation=config.local_reparameterisation,
    )
    if config.prediction == "mean":
        method = method._replace(sample=_mean_whatever_the_key)
    return Built(method, apply, config.likelihood)


def _mean_whatever_the_key(key: Any, state: Any) -> Any:
    del key
    return mean(state)


class _BackpropFitting(PrunableNetwork):
    """What both have; a subclass implements `_likelihood`."""

    activation: str
    prior: str
    prior_std: float
    prior_mixture: Sequence[float]
    kl_weights: str
    n_samples: int
    init_std: float
    optimizer: Any
    learning_rate: float
    local_reparameterisation: bool
    prediction: str

    def _likelihood(self) -> NetworkLikelihood:
        raise NotImplementedError

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        activation_named(self.activation)
        check_choice("prior", self.prior, PRIORS)
        check_choice("kl_weights", self.kl_weights, ("uniform", "geometric"))
        check_choice("prediction", self.prediction, ("draws", "mean"))
        check_int("n_samples", self.n_samples)
        for name in ("prior_std", "init_std", "learning_rate"):
            check_positive(name, getattr(self, name))
        _check_mixture(self.prior_mixture)
        if not isinstance(self.optimizer, optax.GradientTransformation):
            check_choice("optimizer", self.optimizer, tuple(OPTIMIZERS))

    def _prior(self) -> Prior:
        if self.prior == "normal":
            return NormalPrior(float(self.prior_std) ** 2)
        return ScaleMixturePrior(*map(float, self.prior_mixture))

    def _build(self) -> Built:
        return _built(
            _Config(
                likelihood=self._likelihood(),
                activation=self.activation,
                prior=self._prior(),
                optimizer=self.optimizer,
                learning_rate=float(self.learning_rate),
                n_samples=int(self.n_samples),
                kl_weights=self.kl_weights,
                init_std=float(self.init_std),
                local_reparameterisation=bool(self.local_reparameterisation),
                prediction=self.prediction,
            )
        )

    def _n_draws(self) -> int:
        return 1 if self.prediction == "mean" else self.n_draws


def _check_mixture(values: Any) -> None:
    try:
        share, wide, narrow = map(float, values)
    except (TypeError, ValueError):
        share = wide = narrow = 0.0
    if not (0.0 < share < 1.0 and 0.0 < narrow < wide < float("inf")):
        raise ValueError(
            "prior_mixture must be (share, wide_std, narrow_std) with 0 < share < 1 and "
            f"0 < narrow_std < wide_std, got {values!r}"
        )


class BayesByBackpropRegressor(NetworkRegressor, _BackpropFitting):
    """A Gaussian over every weight by unbiased gradients, for regression (Blundell et al. 2015).

    A prediction is the mixture of what networks drawn from the posterior predict.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows.
    batch_size : int
        Rows of a step; all of them if there are fewer.
    learning_rate : float
        Step size of a named optimiser.
    optimizer : {"adam", "sgd", "adamw", "rmsprop", "adagrad"} or optax.GradientTransformation
        The latter has its own step size, and a model fitted with it cannot be saved.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    noise : "learned", "input" or float
        One noise variance learnt for every output; one that depends on the input; or the variance
        itself, in y².
    prior : {"normal", "mixture"}
        N(0, prior_std²) with its KL in closed form, or the paper's scale mixture with a sampled KL.
    prior_std : float
        Of the normal prior, in standardised units.
    prior_mixture : (float, float, float)
        (share, wide_std, narrow_std): share N(0, wide_std²) + (1 - share) N(0, narrow_std²).
    kl_weights : {"uniform", "geometric"}
        How the batches of an epoch share the KL. Geometric shares, the paper's, put nearly all of
        it on the first few batches, which with an adaptive optimiser weakens the prior.
    n_samples : int
        Draws of the weights over which every step's gradient is averaged.
    init_std : float
        Standard deviation of every weight at the start.
    local_reparameterisation : bool
        Draw activations instead of weights: less noise in the gradients (Kingma et al. 2015).
    prediction : {"draws", "mean"}
        By n_draws drawn networks, or by the one network of the posterior means.
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
    >>> from bayesprop.estimators.bayes_by_backprop import BayesByBackpropRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BayesByBackpropRegressor(random_state=0).fit(X[:400], y[:400])
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
        optimizer: Any = "adam",
        activation: str = "relu",
        noise: Literal["learned", "input"] | float = "learned",
        prior: Literal["normal", "mixture"] = "normal",
        prior_std: float = PRIOR_STD,
        prior_mixture: Sequence[float] = MIXTURE,
        kl_weights: Literal["uniform", "geometric"] = "uniform",
        n_samples: int = 1,
        init_std: float = 0.05,
        local_reparameterisation: bool = False,
        prediction: Literal["draws", "mean"] = "draws",
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
        self.activation = activation
        self.noise = noise
        self.prior = prior
        self.prior_std = prior_std
        self.prior_mixture = prior_mixture
        self.kl_weights = kl_weights
        self.n_samples = n_samples
        self.init_std = init_std
        self.local_reparameterisation = local_reparameterisation
        self.prediction = prediction
        self.n_draws = n_draws
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        check_noise(self.noise)

    def _likelihood(self) -> GaussianNoise:
        return gaussian_likelihood(self.noise, self.y_scaler_.scale)


class BayesByBackpropClassifier(NetworkClassifier, _BackpropFitting):
    """A Gaussian over every weight by unbiased gradients, to classify (Blundell et al. 2015).

    A prediction is the average of the probabilities of networks drawn from the posterior.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows.
    batch_size : int
        Rows of a step; all of them if there are fewer.
    learning_rate : float
        Step size of a named optimiser.
    optimizer : {"adam", "sgd", "adamw", "rmsprop", "adagrad"} or optax.GradientTransformation
        The latter has its own step size, and a model fitted with it cannot be saved.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    prior : {"normal", "mixture"}
        N(0, prior_std²) with its KL in closed form, or the paper's scale mixture with a sampled KL.
    prior_std : float
        Of the normal prior, in standardised units.
    prior_mixture : (float, float, float)
        (share, wide_std, narrow_std): share N(0, wide_std²) + (1 - share) N(0, narrow_std²).
    kl_weights : {"uniform", "geometric"}
        How the batches of an epoch share the KL. Geometric shares, the paper's, put nearly all of
        it on the first few batches, which with an adaptive optimiser weakens the prior.
    n_samples : int
        Draws of the weights over which every step's gradient is averaged.
    init_std : float
        Standard deviation of every weight at the start.
    local_reparameterisation : bool
        Draw activations instead of weights: less noise in the gradients (Kingma et al. 2015).
    prediction : {"draws", "mean"}
        By n_draws drawn networks, or by the one network of the posterior means.
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
    >>> from bayesprop.estimators.bayes_by_backprop import BayesByBackpropClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesByBackpropClassifier(n_epochs=60, random_state=0).fit(X[:400], y[:400])
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
        optimizer: Any = "adam",
        activation: str = "relu",
        prior: Literal["normal", "mixture"] = "normal",
        prior_std: float = PRIOR_STD,
        prior_mixture: Sequence[float] = MIXTURE,
        kl_weights: Literal["uniform", "geometric"] = "uniform",
        n_samples: int = 1,
        init_std: float = 0.05,
        local_reparameterisation: bool = False,
        prediction: Literal["draws", "mean"] = "draws",
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
        self.activation = activation
        self.prior = prior
        self.prior_std = prior_std
        self.prior_mixture = prior_mixture
        self.kl_weights = kl_weights
        self.n_samples = n_samples
        self.init_std = init_std
        self.local_reparameterisation = local_reparameterisation
        self.prediction = prediction
        self.n_draws = n_draws
        self.standardise = standardise
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
