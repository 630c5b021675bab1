"""The default: Bayesian multilayer perceptrons, untuned."""

from __future__ import annotations

import copy
from dataclasses import field
from typing import Any, Self

import numpy as np

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.params import (
    BELOW_ONE,
    COUNT,
    FLAG,
    SIZES,
    as_sizes,
    check_fields,
    optional,
)
from bayesprop.estimators.shell import BayesianClassifier, BayesianRegressor
from bayesprop.model.task import Classes, Numbers
from bayesprop.moments.network_ensemble.class_method import ClassEnsemble
from bayesprop.moments.network_ensemble.ensemble_method import NetworkEnsemble


@hyper_parameters
class _Params:
    """What both have.

    Parameters
    ----------
    learning_rate : float
        First step size of Adam, which falls by a cosine to a hundredth.
    verbose : int
        1 writes ten lines a network to stderr while it trains.

    Attributes
    ----------
    n_iter_ : int
        Steps of training.
    """

    hidden_layer_sizes: tuple[int, ...] | None = field(
        default=None, kw_only=False, metadata=optional(SIZES)
    )
    n_epochs: int | None = field(default=None, kw_only=False, metadata=optional(COUNT))
    n_members: int | None = field(default=None, metadata=optional(COUNT))
    batch_size: int | None = field(default=None, metadata=optional(COUNT))
    learning_rate: float = field(default=1e-2, metadata=BELOW_ONE)
    random_state: Any = None
    verbose: int = 0

    def check_params(self) -> None:
        """Raise ValueError for a hyper-parameter out of its range, or a network without layers."""
        check_fields(self)
        if self.hidden_layer_sizes is not None and not np.size(self.hidden_layer_sizes):
            raise ValueError(
                "hidden_layer_sizes must hold at least one int >= 1, got (): for a linear model "
                "take BayesianLinearRegressor or BayesianLogisticClassifier"
            )

    def settings(self) -> dict[str, Any]:
        """Return what was set of any ensemble, as its method calls it."""
        sizes = self.hidden_layer_sizes
        return {
            "hidden_layer_sizes": None if sizes is None else as_sizes(sizes),
            "n_epochs": self.n_epochs,
            "n_members": self.n_members,
            "batch_size": self.batch_size,
            "step_size": float(self.learning_rate),
        }


@hyper_parameters
class BayesianMLPRegressor(_Params, BayesianRegressor):
    """Ensemble of networks with Gaussian weights, for regression, that learns its noise.

    Means and variances pass through the networks in closed form; the noise is a Student-t whose
    scale networks of their own learn from the inputs; relevance of inputs, sleep of units and the
    share of a Gaussian process beside the networks are decided by the table. A recipe of this
    library, after Roth & Pernkopf (2016): docs/records/mlp-notebook.md.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or None
        Units of every hidden layer. None: (50,), from 5000 rows on (50, 50), from 30 000 on
        (100, 100).
    n_epochs : int or None
        Passes over the rows. None: 20 000 steps, 4000 if there are more columns than rows.
    n_members : int or None
        Networks of the ensemble. None: 6, from 5000 rows on 2.
    learn_processes : bool
        Whether Gaussian processes learn the pattern of the networks' errors, and beside them the
        targets, as far as rows that they have not seen speak for it.
    learn_replicates : bool
        Whether inputs that the table holds already are expected to give again what they gave, as
        far as its replicates agree more closely than the noise. For tables of repeated
        measurements; on copies made by mistake it flatters scores. Inputs are compared to the last
        bit: ask with the type of number that was fitted.
    batch_size : int or None
        Rows of a step; all of them if there are fewer. None: 64, from 5000 rows on 128.

    Attributes
    ----------
    state_ : EnsembleState
        The posterior, in standardised units.
    process_shares_ : ndarray of shape (n_outputs,)
        What rows left out give the Gaussian process of every target, from 0 to 1; the networks have
        the rest.
    fit_report_ : FitReport
        Course of training, sleeping units, restarted networks, advice.

    Examples
    --------
    >>> model = BayesianMLPRegressor(n_epochs=50, n_members=2, random_state=0)
    """

    method_class = NetworkEnsemble
    learn_processes: bool = field(default=True, metadata=FLAG)
    learn_replicates: bool = field(default=False, metadata=FLAG)

    def build_method(self, task: Numbers, n_inputs: int) -> NetworkEnsemble:
        """Return the method that the hyper-parameters describe."""
        return NetworkEnsemble(
            n_inputs,
            n_outputs=task.n_outputs,
            learns_processes=bool(self.learn_processes),
            learns_replicates=bool(self.learn_replicates),
            **self.settings(),
        )

    @property
    def hidden_layer_sizes_(self) -> tuple[int, ...]:
        """Units of the hidden layers in use: as asked, or as the size of the table chose."""
        return self.state_.members[0].sizes[0][1:-1]

    @property
    def process_shares_(self) -> np.ndarray:
        """Shares of the Gaussian process in the prediction of every target."""
        return np.array(self.state_.target_shares, np.float64)

    def without_replicates(self) -> Self:
        """Return a copy that predicts inputs of its table as if they had never been measured.

        The same model where it remembers none, `fit_report_.guards["replicated_inputs"]` being 0.
        """
        from bayesprop.moments.network_ensemble import ensemble

        other = copy.copy(self)
        state = ensemble.without_replicates(self.state_)
        other.learned_ = self.learned_._replace(state=state)
        return other


@hyper_parameters
class BayesianMLPClassifier(_Params, BayesianClassifier):
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
        Passes over the rows. None: 4000 steps, 2000 from more than a ninth as many columns as rows
        on, 200 if there are more columns than rows.
    n_members : int or None
        Networks of each of the four families, each of which leaves out its part of the rows; 1
        leaves none out, and families have equal shares. None: 8, from 1000 rows on 5.
    batch_size : int or None
        Rows of a step; all of them if there are fewer. None: 64, from 1000 rows on 128.

    Attributes
    ----------
    state_ : ClassState
        The posterior.
    shares_ : dict
        What the rows left out made of the families and of a constant, by name; sums to one.
    fit_report_ : FitReport
        Course of training, sleeping units, advice.

    Examples
    --------
    >>> model = BayesianMLPClassifier(n_epochs=20, random_state=0)
    """

    method_class = ClassEnsemble
    learns_order = True

    def build_method(self, task: Classes, n_inputs: int) -> ClassEnsemble:
        """Return the method that the hyper-parameters describe."""
        return ClassEnsemble(
            n_inputs, n_classes=task.n_classes, order=task.order, **self.settings()
        )

    @property
    def hidden_layer_sizes_(self) -> tuple[int, ...]:
        """Units of the hidden layers in use: as asked, or as the recipe has them."""
        return self.state_.families[0][0].sizes[0][1:-1]

    @property
    def shares_(self) -> dict[str, float]:
        """Shares of the families, and of a constant."""
        names = [
            f"{'ordered, ' if family.is_ordered else ''}{'ramps' if family.has_ramps else 'inputs'}"
            f", rows count {family.likelihood_weight:g}"
            for family in self.state_.kinds
        ]
        return dict(zip([*names, "constant"], self.state_.shares.tolist(), strict=True))
