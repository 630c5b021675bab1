"""Deep ensembles as a scikit-learn regressor and classifier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from bayesprop.estimators.network_params import check_stopping, likelihood_of, member_networks
from bayesprop.estimators.params import (
    ACTIVATION,
    COUNT,
    NOISE,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    SIZES,
    check_fields,
    one_of,
)
from bayesprop.estimators.shell import BayesianClassifier, BayesianRegressor
from bayesprop.model.network_likelihoods import NetworkLikelihood
from bayesprop.model.task import Classes, Numbers
from bayesprop.sampling.deep_ensemble import MemberNetworks


@dataclass(eq=False, repr=False, kw_only=True)
class _Params:
    """What both have."""

    hidden_layer_sizes: tuple[int, ...] = field(default=(50,), kw_only=False, metadata=SIZES)
    n_epochs: int = field(default=100, kw_only=False, metadata=COUNT)
    batch_size: int = field(default=32, metadata=COUNT)
    activation: str = field(default="relu", metadata=ACTIVATION)
    learning_rate: float = field(default=1e-2, metadata=POSITIVE)
    optimizer: Literal["adam", "sgd"] = field(default="adam", metadata=one_of("adam", "sgd"))
    momentum: float = field(default=0.9, metadata=SHARE)
    weight_decay: float = field(default=10.0, metadata=NOT_NEGATIVE)
    n_members: int = field(default=5, metadata=COUNT)
    early_stopping: bool = False
    validation_fraction: float = field(default=0.1, metadata=SHARE)
    patience: int = field(default=20, metadata=COUNT)
    adversarial_step: float = field(default=0.0, metadata=NOT_NEGATIVE)

    def check_params(self) -> None:
        """Raise ValueError for hyper-parameters out of their range, alone or together."""
        check_fields(self)
        check_stopping(self)

    def network(self, n_inputs: int, likelihood: NetworkLikelihood) -> MemberNetworks:
        """Return the method for a likelihood."""
        step = float(self.adversarial_step)
        return member_networks(self, n_inputs, likelihood, adversarial_step=step)


@dataclass(eq=False, repr=False, kw_only=True)
class DeepEnsembleRegressor(_Params, BayesianRegressor):
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

    method_class = MemberNetworks
    noise: Literal["learned", "input"] | float = field(default="input", metadata=NOISE)
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    def build_method(self, task: Numbers, n_inputs: int) -> MemberNetworks:
        """Return the method that the hyper-parameters describe."""
        return self.network(n_inputs, likelihood_of(task, self.noise))


@dataclass(eq=False, repr=False, kw_only=True)
class DeepEnsembleClassifier(_Params, BayesianClassifier):
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

    method_class = MemberNetworks
    standardise: bool = True
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    def build_method(self, task: Classes, n_inputs: int) -> MemberNetworks:
        """Return the method that the hyper-parameters describe."""
        return self.network(n_inputs, likelihood_of(task))
