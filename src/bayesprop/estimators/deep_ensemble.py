"""Deep ensembles as a scikit-learn regressor and classifier."""

from __future__ import annotations

from typing import Any, Literal

from bayesprop.estimators.member_networks import MemberClassifier, MemberRegressor


class DeepEnsembleRegressor(MemberRegressor):
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
        itself, in y².
    weight_decay : float
        Precision of a Gaussian prior on every parameter, in standardised units: weight_decay / 2
        times the sum of squares is added to the SUM of -log p over the rows. 0: none.
    n_members : int
        Networks, trained together from different starts; the paper's is 5.
    adversarial_step : float
        Half the loss is that of rows moved by this much, in standard deviations of every input,
        to where they fit worst. The paper takes 1 % of an input's range, about 0.05. 0: none.
    early_stopping : bool
        Hold out rows, stop when their log-likelihood no longer grows, keep the best epoch.
    validation_fraction : float
        Share of the rows that is held out.
    patience : int
        Epochs without a better one before it stops.
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
        noise: Literal["learned", "input"] | float = "input",
        weight_decay: float = 10.0,
        n_members: int = 5,
        adversarial_step: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 20,
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
        self.weight_decay = weight_decay
        self.n_members = n_members
        self.adversarial_step = adversarial_step
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose


class DeepEnsembleClassifier(MemberClassifier):
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
    learning_rate : float
        Step size of the optimiser.
    optimizer : {"adam", "sgd"}
        Adam, or stochastic gradient descent with momentum.
    momentum : float
        Of "sgd", 0 to less than 1; Adam has its own.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers.
    weight_decay : float
        Precision of a Gaussian prior on every parameter, in standardised units: weight_decay / 2
        times the sum of squares is added to the SUM of -log p over the rows. 0: none.
    n_members : int
        Networks, trained together from different starts; the paper's is 5.
    adversarial_step : float
        Half the loss is that of rows moved by this much, in standard deviations of every input,
        to where they fit worst. The paper takes 1 % of an input's range, about 0.05. 0: none.
    early_stopping : bool
        Hold out rows, stop when their log-likelihood no longer grows, keep the best epoch.
    validation_fraction : float
        Share of the rows that is held out.
    patience : int
        Epochs without a better one before it stops.
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
        weight_decay: float = 10.0,
        n_members: int = 5,
        adversarial_step: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 20,
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
        self.weight_decay = weight_decay
        self.n_members = n_members
        self.adversarial_step = adversarial_step
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.standardise = standardise
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
