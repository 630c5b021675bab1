"""The default for classes: Bayesian multilayer perceptrons, untuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayesprop.estimators.checks import check_int, check_positive
from bayesprop.estimators.params import SIZES, as_sizes, rule
from bayesprop.estimators.shell import BayesianClassifier
from bayesprop.model.task import Classes
from bayesprop.moments.network_ensemble.class_ensemble import FAMILIES
from bayesprop.moments.network_ensemble.class_method import ClassEnsemble


def _check_sizes(name: str, value: Any) -> None:
    if value is None:
        return
    SIZES["check"](name, value)
    if not np.size(value):
        raise ValueError(
            f"{name} must hold at least one int >= 1, got (): for a linear model take "
            "BayesianLogisticClassifier"
        )


def _check_count(name: str, value: Any) -> None:
    if value is not None:
        check_int(name, value)


def _check_step_size(name: str, value: Any) -> None:
    check_positive(name, value)
    if value >= 1.0:
        raise ValueError(f"{name} must be below 1, got {value!r}: try 0.01")


_COUNT: Mapping[str, Any] = rule(_check_count)


@dataclass(eq=False, repr=False, kw_only=True)
class BayesianMLPClassifier(BayesianClassifier):
    """Ensemble of networks with Gaussian weights, for classes, weighed by rows left out.

    Means and variances pass through the networks in closed form. Families of networks differ in
    how inputs are given (as they are, or with piecewise-linear ramps beside them) and in how often
    a row counts (once or eight times); every network is trained without its part of the rows, and
    what it says of these gives the families their shares and their mixture a power. A recipe of
    this library, after Roth & Pernkopf (2016): docs/understand/mlp-classes.md.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or None
        Units of every hidden layer. None: (64,).
    n_epochs : int or None
        Passes over the rows. None: 4000 steps, 1000 if there are more columns than rows.
    n_members : int or None
        Networks of each of the four families, each of which leaves out its part of the rows; 1
        leaves none out, and families have equal shares. None: 8, from 1000 rows on 5.
    batch_size : int or None
        Rows of a step; all of them if there are fewer. None: 64, from 1000 rows on 128.
    learning_rate : float
        First step size of Adam, which falls by a cosine to a hundredth.
    random_state : int, RandomState or None
        Seeds the initial means, the parts that are left out and the order of rows.
    verbose : int
        1 writes ten lines a network to stderr while it trains.

    Attributes
    ----------
    state_ : ClassState
        The posterior.
    shares_ : dict
        What the rows left out made of the families and of a constant, by name; sums to one.
    classes_ : array
        Labels, in the order of the columns of `predict_proba`.
    fit_report_ : FitReport
        Course of training, sleeping units, advice.
    x_scaler_ : Standardiser
        How inputs were standardised.
    n_iter_ : int
        Steps of training.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesprop import BayesianMLPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianMLPClassifier(n_epochs=20, random_state=0).fit(X[:400], y[:400])
    >>> model.predict_proba(X[400:]).shape, model.score(X[400:], y[400:]) > 0.9
    ((169, 2), True)
    """

    method_class = ClassEnsemble
    hidden_layer_sizes: tuple[int, ...] | None = field(
        default=None, kw_only=False, metadata=rule(_check_sizes)
    )
    n_epochs: int | None = field(default=None, kw_only=False, metadata=_COUNT)
    n_members: int | None = field(default=None, metadata=_COUNT)
    batch_size: int | None = field(default=None, metadata=_COUNT)
    learning_rate: float = field(default=1e-2, metadata=rule(_check_step_size))
    random_state: Any = None
    verbose: int = 0

    def build_method(self, task: Classes, n_inputs: int) -> ClassEnsemble:
        """Return the method that the hyper-parameters describe."""
        sizes = self.hidden_layer_sizes
        return ClassEnsemble(
            n_inputs,
            hidden_layer_sizes=None if sizes is None else as_sizes(sizes),
            n_epochs=self.n_epochs,
            n_members=self.n_members,
            batch_size=self.batch_size,
            step_size=float(self.learning_rate),
            n_classes=task.n_classes,
        )

    @property
    def shares_(self) -> dict[str, float]:
        """Shares of the families, and of a constant."""
        names = [
            f"{'ramps' if family.has_ramps else 'inputs'}, rows count {family.likelihood_weight:g}"
            for family in FAMILIES
        ]
        return dict(zip([*names, "constant"], self.state_.shares.tolist(), strict=True))
