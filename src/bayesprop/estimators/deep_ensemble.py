"""Deep ensembles as a scikit-learn regressor and classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bayesprop.estimators.checks import check_not_negative
from bayesprop.estimators.member_networks import MemberClassifier, MemberFitting, MemberRegressor


@dataclass(eq=False, repr=False, kw_only=True)
class _EnsembleFitting(MemberFitting):
    """What both have beside the members: rows moved to where they fit worst."""

    n_members: int = 5
    adversarial_step: float = 0.0

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        check_not_negative("adversarial_step", self.adversarial_step)

    def _adversarial_step(self) -> float:
        return float(self.adversarial_step)


@dataclass(eq=False, repr=False, kw_only=True)
class DeepEnsembleRegressor(MemberRegressor, _EnsembleFitting):
    """Several networks from different starts, for regression (Lakshminarayanan et al. 2017).

    Every member predicts a mean and, by default, a noise variance that depends on the input; the
    prediction is their equal mixture, and their disagreement its epistemic part.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows; with early stopping, the most.
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
    weight_decay : float
        Precision of a Gaussian prior on every parameter, in standardised units: weight_decay / 2
        times the sum of squares is added to the SUM of -log p over the rows. 0: none.
    n_members : int
        Networks, trained together from different starts; the paper's is 5.
    early_stopping : bool
        Hold out rows, stop when their log-likelihood no longer grows, keep the best epoch.
    validation_fraction : float
        Share of the rows that is held out.
    patience : int
        Epochs without a better one before it stops.
    adversarial_step : float
        Half the loss is that of rows moved by this much, in standard deviations of every input,
        to where they fit worst. The paper takes 1 % of an input's range, about 0.05. 0: none.
    noise : "learned", "input" or float
        One noise variance learnt for every output; one that depends on the input; or the variance
        itself, in y².
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds starts, orders and held-out rows.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : pytree
        Parameters and optimiser of the members, with a leading member axis.
    fit_report_ : FitReport
        Course of training, advice.
    x_scaler_, y_scaler_ : Standardiser
        How inputs and targets were standardised.
    n_iter_ : int
        Epochs seen since the last reset.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop.estimators.deep_ensemble import DeepEnsembleRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DeepEnsembleRegressor(random_state=0).fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    noise: Literal["learned", "input"] | float = "input"


@dataclass(eq=False, repr=False, kw_only=True)
class DeepEnsembleClassifier(MemberClassifier, _EnsembleFitting):
    """Several networks from different starts, for classification (Lakshminarayanan et al. 2017).

    The prediction is the average of the members' probabilities, and their disagreement its
    epistemic part.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows; with early stopping, the most.
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
    weight_decay : float
        Precision of a Gaussian prior on every parameter, in standardised units: weight_decay / 2
        times the sum of squares is added to the SUM of -log p over the rows. 0: none.
    n_members : int
        Networks, trained together from different starts; the paper's is 5.
    early_stopping : bool
        Hold out rows, stop when their log-likelihood no longer grows, keep the best epoch.
    validation_fraction : float
        Share of the rows that is held out.
    patience : int
        Epochs without a better one before it stops.
    adversarial_step : float
        Half the loss is that of rows moved by this much, in standard deviations of every input,
        to where they fit worst. The paper takes 1 % of an input's range, about 0.05. 0: none.
    standardise : bool
        Whether inputs are brought to mean 0 and variance 1; False for pixels.
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds starts, orders and held-out rows.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : pytree
        Parameters and optimiser of the members, with a leading member axis.
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
    >>> from bayesprop.estimators.deep_ensemble import DeepEnsembleClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DeepEnsembleClassifier(random_state=0).fit(X[:400], y[:400])
    >>> model.predict_proba(X[400:]).shape, model.score(X[400:], y[400:]) > 0.9
    ((169, 2), True)
    """
