"""A point network as a scikit-learn regressor and classifier: the baseline without a posterior."""

from __future__ import annotations

from dataclasses import dataclass

from bayesprop.estimators.member_networks import MemberClassifier, MemberFitting, MemberRegressor
from bayesprop.estimators.optimizers import check_share
from bayesprop.sampling.dropout import Rates


@dataclass(eq=False, repr=False, kw_only=True)
class _PointFitting(MemberFitting):
    """What both have beside the members: units and weights that are missing in training."""

    dropout: float = 0.0
    input_dropout: float = 0.0
    dropconnect: float = 0.0

    def _check_hyper_parameters(self) -> None:
        super()._check_hyper_parameters()
        for name in ("dropout", "input_dropout", "dropconnect"):
            check_share(name, getattr(self, name))

    def _rates(self) -> Rates:
        return Rates(float(self.input_dropout), float(self.dropout), float(self.dropconnect))


@dataclass(eq=False, repr=False, kw_only=True)
class PointNetworkRegressor(MemberRegressor, _PointFitting):
    """A network with one value a weight, for regression.

    Maximum a posteriori by gradient steps, with the usual means against overfitting. It doubts the
    noise, never its own weights: the epistemic part of its doubt is zero unless `n_members` > 1.

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
        Networks that are trained from different starts and averaged; 1 is a single network.
    early_stopping : bool
        Hold out rows, stop when their log-likelihood no longer grows, keep the best epoch.
    validation_fraction : float
        Share of the rows that is held out.
    patience : int
        Epochs without a better one before it stops.
    dropout, input_dropout : float
        Probability that a hidden unit or an input is missing in training, anew for every row and
        unit (Hinton et al. 2012).
    dropconnect : float
        Probability that a weight is missing in training, anew for every batch (after Wan et al.
        2013).
    noise : "learned", "input" or float
        One noise variance learnt for every output; one that depends on the input; or the variance
        itself, in y².
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds starts, orders, what is missing and held-out rows.
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
    >>> from bayesprop.estimators.point_network import PointNetworkRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PointNetworkRegressor(random_state=0).fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """


@dataclass(eq=False, repr=False, kw_only=True)
class PointNetworkClassifier(MemberClassifier, _PointFitting):
    """A network with one value a weight, for classification.

    Maximum a posteriori by gradient steps, with the usual means against overfitting. It doubts the
    class, never its own weights: the epistemic part of its doubt is zero unless `n_members` > 1.

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
        Networks that are trained from different starts and averaged; 1 is a single network.
    early_stopping : bool
        Hold out rows, stop when their log-likelihood no longer grows, keep the best epoch.
    validation_fraction : float
        Share of the rows that is held out.
    patience : int
        Epochs without a better one before it stops.
    dropout, input_dropout : float
        Probability that a hidden unit or an input is missing in training, anew for every row and
        unit (Hinton et al. 2012).
    dropconnect : float
        Probability that a weight is missing in training, anew for every batch (after Wan et al.
        2013).
    standardise : bool
        Whether inputs are brought to mean 0 and variance 1; False for pixels.
    warm_start : bool
        Whether `fit` goes on from the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds starts, orders, what is missing and held-out rows.
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
    >>> from bayesprop.estimators.point_network import PointNetworkClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PointNetworkClassifier(random_state=0).fit(X[:400], y[:400])
    >>> model.predict_proba(X[400:]).shape, model.score(X[400:], y[400:]) > 0.9
    ((169, 2), True)
    """
