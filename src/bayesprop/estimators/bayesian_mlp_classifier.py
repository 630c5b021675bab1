"""The default for classes, until the recipe for numbers serves them too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bayesprop.estimators.closed_form_vi import ClosedFormVIClassifier
from bayesprop.estimators.params import COUNT, POSITIVE, SIZES
from bayesprop.estimators.shell import BayesianClassifier
from bayesprop.model.task import Classes
from bayesprop.moments.closed_form_network import ClosedFormNetwork


@dataclass(eq=False, repr=False, kw_only=True)
class BayesianMLPClassifier(BayesianClassifier):
    """Network with Gaussian weights for classification, with few parameters.

    `ClosedFormVIClassifier` (Roth & Pernkopf 2016) with the choices of this library: an exact
    expected log softmax, a Gaussian prior of variance 2 / inputs of the layer, rectifiers, Adam.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows.
    likelihood_weight : float
        Copies of every row that the posterior believes it saw. 1 is variational Bayes, and
        underfits small tables; more understates the doubt of the weights.
    batch_size : int
        Rows of a step; all of them if there are fewer.
    learning_rate : float
        Step size of Adam.
    random_state : int, RandomState or None
        Seeds the initial means and the order of rows.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : ClosedFormState
        The posterior; seed.
    classes_ : array
        Labels, in the order of the columns of `predict_proba`.
    fit_report_ : FitReport
        Course of training, hidden units through which nothing passes, advice.
    x_scaler_ : Standardiser
        How inputs were standardised.
    n_iter_ : int
        Epochs.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesprop import BayesianMLPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianMLPClassifier(n_epochs=20, random_state=0).fit(X[:400], y[:400])
    >>> model.predict_proba(X[400:]).shape, model.score(X[400:], y[400:]) > 0.9
    ((169, 2), True)
    """

    method_class = ClosedFormNetwork
    hidden_layer_sizes: tuple[int, ...] = field(default=(50,), kw_only=False, metadata=SIZES)
    n_epochs: int = field(default=100, kw_only=False, metadata=COUNT)
    likelihood_weight: float = field(default=10.0, metadata=POSITIVE)
    batch_size: int = field(default=32, metadata=COUNT)
    learning_rate: float = field(default=1e-2, metadata=POSITIVE)
    random_state: Any = None
    verbose: int = 0

    def build_method(self, task: Classes, n_inputs: int) -> ClosedFormNetwork:
        """Return the method that the hyper-parameters describe."""
        return ClosedFormVIClassifier(**self.get_params()).build_method(task, n_inputs)
