"""The default: Bayesian multilayer perceptrons, untuned."""

from __future__ import annotations

import numpy as np

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.default import (
    BayesianClassifierParams,
    BayesianRegressorParams,
)
from bayesprop.estimators.shell import ClassifierBase, RegressorBase


@hyper_parameters
class BayesianRegressor(BayesianRegressorParams, RegressorBase):
    """Ensemble of networks with Gaussian weights, for regression, that learns its noise.

    Means and variances pass through the networks in closed form; the noise is a Student-t whose
    scale networks of their own learn from the inputs; relevance of inputs, sleep of units, the
    share of a Gaussian process beside the networks and that of networks which are given
    piecewise-linear ramps beside the inputs, and whether the nearest rows are asked what these
    leave, are decided by the table. A recipe of this library,
    after Roth & Pernkopf (2016): docs/records/default-notebook.md.

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
class BayesianClassifier(BayesianClassifierParams, ClassifierBase):
    """Ensemble of networks with Gaussian weights, for classes, weighed by rows left out.

    Means and variances pass through the networks in closed form. Families of networks differ in
    how inputs are given (as they are, or with piecewise-linear ramps beside them) and in how often
    a row counts (once or eight times); every network is trained without its part of the rows, and
    what it says of these gives the families their shares and their mixture a power. A recipe of
    this library, after Roth & Pernkopf (2016): docs/understand/default-classes.md.

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
    >>> model = BayesianClassifier(n_epochs=20, random_state=0)
    """

    @property
    def hidden_layer_sizes_(self) -> tuple[int, ...]:
        """Units of the hidden layers in use: as asked, or as the recipe has them."""
        return self.state_.experts[0].members[0].sizes[0][1:-1]

    @property
    def shares_(self) -> dict[str, float]:
        """Shares of the families, and of a constant."""
        names = [
            f"{'ordered, ' if one.is_ordered else ''}{'ramps' if one.is_ramped else 'inputs'}"
            f", rows count {one.likelihood_weight:g}"
            for one in self.state_.experts
        ]
        return dict(zip([*names, "constant"], self.state_.weights.tolist(), strict=True))
