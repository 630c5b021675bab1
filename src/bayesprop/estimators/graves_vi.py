"""Graves' variational inference as a scikit-learn regressor and classifier."""

from __future__ import annotations

from dataclasses import dataclass, field

from bayesprop.estimators.checks import check_positive
from bayesprop.estimators.network import Built
from bayesprop.estimators.pruning import PrunableNetwork
from bayesprop.estimators.trained_network import (
    SteppedFitting,
    TrainedClassifier,
    TrainedRegressor,
    built,
)
from bayesprop.sampling.graves_vi import graves_vi


@dataclass(eq=False, repr=False, kw_only=True)
class _GravesFitting(PrunableNetwork, SteppedFitting):
    """What both have."""

    n_epochs: int = field(default=200, kw_only=False)
    init_std: float = 0.05
    n_draws: int = 100

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        check_positive("init_std", self.init_std)

    def _build(self) -> Built:
        return built(
            graves_vi,
            self._likelihood(),
            self.activation,
            self._steps(),
            init_std=float(self.init_std),
        )


@dataclass(eq=False, repr=False, kw_only=True)
class GravesVIRegressor(TrainedRegressor, _GravesFitting):
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
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    learning_rate : float
        Step size of the optimiser.
    optimizer : {"adam", "sgd"}
        Adam, or stochastic gradient descent with momentum, as in the papers.
    momentum : float
        Of "sgd", 0 to less than 1; Adam has its own.
    init_std : float
        Standard deviation of every weight at the start.
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
    >>> from bayesprop.estimators.graves_vi import GravesVIRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GravesVIRegressor(n_epochs=50, random_state=0).fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """


@dataclass(eq=False, repr=False, kw_only=True)
class GravesVIClassifier(TrainedClassifier, _GravesFitting):
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
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    learning_rate : float
        Step size of the optimiser.
    optimizer : {"adam", "sgd"}
        Adam, or stochastic gradient descent with momentum, as in the papers.
    momentum : float
        Of "sgd", 0 to less than 1; Adam has its own.
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
