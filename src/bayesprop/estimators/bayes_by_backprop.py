"""Bayes by Backprop as a scikit-learn regressor and classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import optax

from bayesprop.estimators.checks import check_choice, check_int, check_positive
from bayesprop.estimators.network import Built
from bayesprop.estimators.pruning import PrunableNetwork
from bayesprop.estimators.trained_network import (
    TrainedClassifier,
    TrainedFitting,
    TrainedRegressor,
    built,
)
from bayesprop.model.gradient_method import GradientMethod
from bayesprop.model.priors import ClosedPrior, NormalPrior, ScaleMixturePrior
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


def _by_mean(*args: Any, **settings: Any) -> GradientMethod:
    """Bayes by Backprop whose every draw is the network of the posterior means."""

    def sample(key: Any, state: Any) -> Any:
        del key
        return mean(state)

    return bayes_by_backprop(*args, **settings)._replace(sample=sample)


@dataclass(eq=False, repr=False, kw_only=True)
class _BackpropFitting(PrunableNetwork, TrainedFitting):
    """What both have."""

    n_epochs: int = field(default=400, kw_only=False)
    learning_rate: float = 3e-3
    prior: Literal["normal", "mixture"] = "normal"
    prior_std: float = PRIOR_STD
    prior_mixture: Sequence[float] = MIXTURE
    kl_weights: Literal["uniform", "geometric"] = "uniform"
    n_samples: int = 1
    init_std: float = 0.05
    local_reparameterisation: bool = False
    prediction: Literal["draws", "mean"] = "draws"
    n_draws: int = 100

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        check_choice("prior", self.prior, PRIORS)
        check_choice("kl_weights", self.kl_weights, ("uniform", "geometric"))
        check_choice("prediction", self.prediction, ("draws", "mean"))
        check_int("n_samples", self.n_samples)
        for name in ("prior_std", "init_std", "learning_rate"):
            check_positive(name, getattr(self, name))
        _check_mixture(self.prior_mixture)
        if not isinstance(self.optimizer, optax.GradientTransformation):
            check_choice("optimizer", self.optimizer, tuple(OPTIMIZERS))

    def _prior(self) -> NormalPrior | ScaleMixturePrior:
        if self.prior == "normal":
            return NormalPrior(float(self.prior_std) ** 2)
        return ScaleMixturePrior(*map(float, self.prior_mixture))

    def _steps(self) -> optax.GradientTransformation:
        if isinstance(self.optimizer, str):
            return _optimizer(self.optimizer, float(self.learning_rate))
        return self.optimizer

    def _build(self) -> Built:
        prior = self._prior()
        return built(
            _by_mean if self.prediction == "mean" else bayes_by_backprop,
            self._likelihood(),
            self.activation,
            prior,
            self._steps(),
            n_samples=int(self.n_samples),
            kl="closed" if isinstance(prior, ClosedPrior) else "sampled",
            kl_weights=self.kl_weights,
            init_std=float(self.init_std),
            local_reparameterisation=bool(self.local_reparameterisation),
        )

    def _n_draws(self) -> int:
        return 1 if self.prediction == "mean" else self.n_draws


@lru_cache(maxsize=64)
def _optimizer(name: str, learning_rate: float) -> optax.GradientTransformation:
    return OPTIMIZERS[name](learning_rate)


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


@dataclass(eq=False, repr=False, kw_only=True)
class BayesByBackpropRegressor(TrainedRegressor, _BackpropFitting):
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
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    learning_rate : float
        Step size of a named optimiser.
    optimizer : {"adam", "sgd", "adamw", "rmsprop", "adagrad"} or optax.GradientTransformation
        The latter has its own step size, and a model fitted with it cannot be saved.
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
    noise : "learned", "input" or float
        One noise variance learnt for every output; one that depends on the input; or the variance
        itself, in y².
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


@dataclass(eq=False, repr=False, kw_only=True)
class BayesByBackpropClassifier(TrainedClassifier, _BackpropFitting):
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
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    learning_rate : float
        Step size of a named optimiser.
    optimizer : {"adam", "sgd", "adamw", "rmsprop", "adagrad"} or optax.GradientTransformation
        The latter has its own step size, and a model fitted with it cannot be saved.
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
