"""Graves' variational inference as a scikit-learn regressor and classifier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from bayesprop.estimators.descriptions import described
from bayesprop.estimators.network_params import layer_sizes, likelihood_of, make_optimizer
from bayesprop.estimators.params import ACTIVATION, COUNT, NOISE, POSITIVE, SHARE, SIZES, one_of
from bayesprop.estimators.shell import BayesianClassifier, BayesianRegressor
from bayesprop.model.task import Task
from bayesprop.model.trained_network import built
from bayesprop.sampling.graves_vi import graves_vi
from bayesprop.sampling.mean_field import PrunableNetwork


@dataclass(eq=False, repr=False, kw_only=True)
class _Params:
    """What both have.

    Parameters
    ----------
    batch_size : int
        Rows of a step; all of them if there are fewer. Memory is a gradient a row.
    optimizer : {"adam", "sgd"}
        Adam, or stochastic gradient descent with momentum, as in the papers.

    Attributes
    ----------
    state_ : NetworkState
        Posterior, noise and optimiser; seed.
    """

    method_class: ClassVar[type] = PrunableNetwork
    hidden_layer_sizes: tuple[int, ...] = field(default=(50,), kw_only=False, metadata=SIZES)
    n_epochs: int = field(default=200, kw_only=False, metadata=COUNT)
    batch_size: int = field(default=32, metadata=COUNT)
    activation: str = field(default="relu", metadata=ACTIVATION)
    learning_rate: float = field(default=1e-2, metadata=POSITIVE)
    optimizer: Literal["adam", "sgd"] = field(default="adam", metadata=one_of("adam", "sgd"))
    momentum: float = field(default=0.9, metadata=SHARE)
    init_std: float = field(default=0.05, metadata=POSITIVE)
    n_draws: int = field(default=100, metadata=COUNT)
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    def build_method(self, task: Task, n_inputs: int) -> PrunableNetwork:
        """Return the method that the hyper-parameters describe."""
        likelihood = likelihood_of(task, self)
        optimizer = make_optimizer(self.optimizer, float(self.learning_rate), float(self.momentum))
        return PrunableNetwork(
            built(graves_vi, likelihood, self.activation, optimizer, init_std=float(self.init_std)),
            layer_sizes(n_inputs, self.hidden_layer_sizes, likelihood),
            self.n_epochs,
            self.batch_size,
            self.n_draws,
        )


@described
@dataclass(eq=False, repr=False, kw_only=True)
class GravesVIRegressor(_Params, BayesianRegressor):
    """Variational inference with squared gradients, for regression (Graves 2011).

    The baseline of the papers on PBP and Bayes by Backprop: one draw of the weights a step, a
    biased gradient of the variances, and a prior whose mean and variance follow the weights. For
    results of your own prefer `BayesByBackpropRegressor`.

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

    noise: Literal["learned", "input"] | float = field(default="learned", metadata=NOISE)


@described
@dataclass(eq=False, repr=False, kw_only=True)
class GravesVIClassifier(_Params, BayesianClassifier):
    """Variational inference with squared gradients, to classify (Graves 2011).

    The baseline of the papers on PBP and Bayes by Backprop; for results of your own prefer
    `BayesByBackpropClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesprop.estimators.graves_vi import GravesVIClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = GravesVIClassifier(n_epochs=50, random_state=0).fit(X[:400], y[:400])
    >>> model.predict_proba(X[400:]).shape, model.score(X[400:], y[400:]) > 0.9
    ((169, 2), True)
    """

    standardise: bool = True
