"""Monte Carlo dropout as a scikit-learn regressor and classifier."""

from __future__ import annotations

from dataclasses import dataclass

from bayesprop.estimators.checks import check_positive
from bayesprop.estimators.network import Built
from bayesprop.estimators.optimizers import check_share
from bayesprop.estimators.trained_network import (
    SteppedFitting,
    TrainedClassifier,
    TrainedRegressor,
    built,
)
from bayesprop.sampling.dropout import Rates
from bayesprop.sampling.mc_dropout import mc_dropout


@dataclass(eq=False, repr=False, kw_only=True)
class _DropoutFitting(SteppedFitting):
    """What both have."""

    dropout: float = 0.05
    input_dropout: float = 0.0
    length_scale: float = 3.0
    n_draws: int = 100

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        for name in ("dropout", "input_dropout"):
            check_share(name, getattr(self, name))
        check_positive("length_scale", self.length_scale)

    def _build(self) -> Built:
        return built(
            mc_dropout,
            self._likelihood(),
            self.activation,
            self._steps(),
            rates=Rates(float(self.input_dropout), float(self.dropout)),
            length_scale=float(self.length_scale),
            activation_name=self.activation,
        )


@dataclass(eq=False, repr=False, kw_only=True)
class MCDropoutRegressor(TrainedRegressor, _DropoutFitting):
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
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    learning_rate : float
        Step size of the optimiser.
    optimizer : {"adam", "sgd"}
        Adam, or stochastic gradient descent with momentum.
    momentum : float
        Of "sgd", 0 to less than 1; Adam has its own.
    dropout, input_dropout : float
        Probability that a hidden unit or an input is missing, in training and in every draw.
    length_scale : float
        Weights have the prior N(0, 1 / length_scale²), in standardised units: the larger, the
        smoother the function. With N rows and noise of precision tau this is a weight decay of
        (1 - dropout) length_scale² / (2 N tau) (the paper's eq. 7).
    n_draws : int
        Networks that are drawn for a prediction, the paper's T.
    noise : "learned", "input" or float
        One noise variance learnt for every output; one that depends on the input; or the variance
        itself, in y²: the inverse of the paper's model precision tau.
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


@dataclass(eq=False, repr=False, kw_only=True)
class MCDropoutClassifier(TrainedClassifier, _DropoutFitting):
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
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    learning_rate : float
        Step size of the optimiser.
    optimizer : {"adam", "sgd"}
        Adam, or stochastic gradient descent with momentum.
    momentum : float
        Of "sgd", 0 to less than 1; Adam has its own.
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
