"""The default: Bayesian multilayer perceptrons, untuned."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from bayesprop.estimators.params import BelowOne, Count, Sizes, hyper_parameters
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import ClassifierBase, EstimatorBase, RegressorBase, Seed
from bayesprop.model.task import Classes, Numbers
from bayesprop.tabular_default.method import ClassEnsemble, NetworkEnsemble


@hyper_parameters
class _Params(EstimatorBase):
    """Hyper-parameters of both estimators.

    Parameters
    ----------
    learning_rate : float
        First step size of Adam, which falls by a cosine to a hundredth.
    learn_processes : bool
        Whether rows of the table are kept, and asked beside the networks, as far as rows left out
        speak for it: those nearest to a new row, and of numbers by Gaussian processes, too.
    verbose : int
        1 writes ten lines a network to stderr while it trains.

    Attributes
    ----------
    n_iter_ : int
        Steps of training.
    """

    method_name = "default"
    are_rows_exchangeable = True  # what reads a table with times says that they are not
    hidden_layer_sizes: Sizes | None = field(default=None, kw_only=False)
    n_epochs: Count | None = field(default=None, kw_only=False)
    n_members: Count | None = None
    batch_size: Count | None = None
    learning_rate: BelowOne = 1e-2
    learn_processes: bool = True
    random_state: Seed = None
    verbose: int = 0

    def check_params(self) -> None:
        super().check_params()
        if self.hidden_layer_sizes is not None and not np.size(self.hidden_layer_sizes):
            raise ValueError(
                "hidden_layer_sizes must hold at least one int >= 1, got (): for a linear model "
                "take BayesianLinearRegressor or BayesianLogisticClassifier"
            )

    def settings(self) -> dict[str, Any]:
        """Return what was set of any ensemble, as its method calls it."""
        sizes = self.hidden_layer_sizes
        return {
            "hidden_layer_sizes": None if sizes is None else tuple(map(int, np.atleast_1d(sizes))),
            "n_epochs": self.n_epochs,
            "n_members": self.n_members,
            "batch_size": self.batch_size,
            "step_size": float(self.learning_rate),
            "learns_processes": bool(self.learn_processes),
            "are_exchangeable": self.are_rows_exchangeable,
        }


@hyper_parameters
class BayesianRegressor(_Params, RegressorBase):
    """Ensemble of networks with Gaussian weights, for regression, that learns its noise.

    Means and variances pass through the networks in closed form; the noise is a Student-t whose
    scale networks of their own learn from the inputs; relevance of inputs, sleep of units, the
    share of a Gaussian process beside the networks and that of networks which are given
    piecewise-linear ramps beside the inputs, and whether the nearest rows are asked what these
    leave, are decided by the table. A recipe of this library,
    after Roth & Pernkopf (2016): docs/records/default-notebook.md.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or None
        Units of every hidden layer. None: (50,), from 5000 rows on (50, 50), from 30 000 on
        (100, 100).
    n_epochs : int or None
        Passes over the rows. None: 20 000 steps, 4000 if there are more columns than rows.
        Networks with ramps take a quarter of them.
    n_members : int or None
        Networks of the ensemble, and as many with ramps. None: 6, from 5000 rows on 2.
    batch_size : int or None
        Rows of a step; all of them if there are fewer. None: 64, from 5000 rows on 128.
    random_state : int, RandomState or None
        Seeds the initial means and the order of rows.

    Attributes
    ----------
    state_ : NumberState
        The posterior, in standardised units.
    process_shares_ : ndarray of shape (n_outputs,)
        What rows left out give the Gaussian processes of every target, from 0 to 1; the networks
        have the rest.
    shares_ : dict
        What rows left out made of networks that are given the inputs, and of those with ramps.
    fit_report_ : FitReport
        Course of training, sleeping units, restarted networks, advice.

    Examples
    --------
    >>> model = BayesianRegressor(n_epochs=50, n_members=2, random_state=0)
    """

    method_class = NetworkEnsemble

    def build_method(self, task: Numbers, n_inputs: int) -> NetworkEnsemble:
        """Return the method that the hyper-parameters describe."""
        return NetworkEnsemble(
            n_inputs,
            n_outputs=task.n_outputs,
            **self.settings(),
        )

    @property
    def hidden_layer_sizes_(self) -> tuple[int, ...]:
        """Units of the hidden layers in use: as asked, or as the size of the table chose."""
        return self.state_.networks.members[0].sizes[0][1:-1]

    @property
    def process_shares_(self) -> np.ndarray:
        """Mixture weights of the Gaussian processes in the prediction of every target."""
        from bayesprop.tabular_default.experts import Processes

        state = self.state_
        is_process = [isinstance(one, Processes) for one in state.experts]
        return state.weights[is_process].sum(axis=0)

    @property
    def shares_(self) -> dict[str, float]:
        """Mixture weights of both kinds of networks, processes beside them included."""
        is_ramped = np.array([one.is_ramped for one in self.state_.experts])
        share = float(self.state_.weights[is_ramped, 0].sum())
        return {"inputs": 1.0 - share, "ramps": share}


@hyper_parameters
class BayesianClassifier(_Params, ClassifierBase):
    """Ensemble of networks with Gaussian weights, for classes, weighed by rows left out.

    Means and variances pass through the networks in closed form. Families of networks differ in
    how inputs are given (as they are, or with piecewise-linear ramps beside them) and in how often
    a row counts (once or eight times); every network is trained without its part of the rows, and
    what it says of these gives the families their shares. A recipe of this library, after
    Roth & Pernkopf (2016): docs/understand/default-classes.md.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or None
        Units of every hidden layer. None: (64,).
    n_epochs : int or None
        Passes over the rows. None: 4000 steps, 2000 from more than a ninth as many columns as rows
        on, of which fewer than 2000 rows get their share, a quarter at least; 200 if there are more
        columns than rows.
    n_members : int or None
        Networks of each of the four families, each of which leaves out its part of the rows; 1
        leaves none out, and families have equal shares. None: 8, from 1000 rows on 5.
    batch_size : int or None
        Rows of a step; all of them if there are fewer. None: 64, from 1000 rows on 128.
    random_state : int, RandomState or None
        Seeds the initial means, the parts that are left out and the order of rows.

    Attributes
    ----------
    state_ : ClassState
        The posterior.
    shares_ : dict
        What the rows left out made of the families, by name; sums to one.
    fit_report_ : FitReport
        Course of training, sleeping units, advice.

    Examples
    --------
    >>> model = BayesianClassifier(n_epochs=20, random_state=0)
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
        return self.state_.experts[0].members[0].sizes[0][1:-1]

    @property
    def shares_(self) -> dict[str, float]:
        """Shares of the families."""
        names = [
            f"{'ordered, ' if one.is_ordered else ''}{'ramps' if one.is_ramped else 'inputs'}"
            f", rows count {one.likelihood_weight:g}"
            for one in self.state_.experts
        ]
        return dict(zip(names, self.state_.weights.tolist(), strict=True))


__getattr__ = lazily(globals())
