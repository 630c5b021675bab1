"""Batch expectation propagation: hyper-parameters and estimators."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

import numpy as np

from bayesprop.estimators.params import Count, Positive, Sizes, hyper_parameters, number, numbers
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import RegressorBase, Seed
from bayesprop.model.task import Numbers
from bayesprop.moments.batch_ep import BatchEPNetwork, Prior

_Prior = Annotated[
    tuple[float, float],
    numbers("(mean, std > 0) of a log variance", lambda _, std: std > 0.0),
]
_ShareOfWay = Annotated[
    float, number("a number > 0 and at most 1", lambda value: 0.0 < value <= 1.0)
]


@hyper_parameters
class BatchEPRegressor(RegressorBase):
    """Network of one hidden layer, fitted by batch expectation propagation, for small tables.

    After Jylänki, Nummenmaa & Vehtari (2014): error-function units, a site for every datum and
    unit, one-dimensional quadrature, full covariances within a unit. `moments/batch_ep.py` has the
    equations.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of the hidden layer; there is just one.
    n_epochs : int
        Most sweeps over the sites, in tens; it stops where predictions stay, after forty at least.
    damping : float
        Share of the way to its match that a site goes in a sweep; above 0, at most 1. Lower it
        where the fit does not settle.
    tol : float
        Largest change of a prediction, in predictive standard deviations, that counts as none.
    n_starts : int
        Fits from random starts, of which that with the best `mean_log_z` is kept. There are fixed
        points that explain nothing.
    relevance : bool
        Whether every input has a prior scale of its own, learnt (automatic relevance
        determination), or all have one.
    weight_scale_prior : (mean, std)
        Gaussian prior of the log variance of the input weights, the paper's phi.
    output_variance : float
        Prior variance of every output weight, in squared standard deviations of y.
    noise_prior : (mean, std)
        Gaussian prior of the log noise variance, the paper's theta, in standardised units.
    random_state : int, RandomState or None
        Seeds the start of the input weights.
    verbose : int
        1 writes a line every ten sweeps to stderr.

    Attributes
    ----------
    state_ : Posterior
        Weights, noise and scales, standardised units; the sites are not kept.
    fit_report_ : FitReport
        Guards that fired, course of training, advice. Its `mean_log_z` is the log probability of
        a row given all others, estimated by the cavities.
    n_iter_ : int
        Sweeps of the fit that was kept.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop import BatchEPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BatchEPRegressor((5,), n_starts=1, random_state=0).fit(X[:30], y[:30])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    method_name = "batch-ep"
    method_class = BatchEPNetwork
    hidden_layer_sizes: Sizes = field(default=(10,), kw_only=False)
    n_epochs: Count = field(default=200, kw_only=False)
    damping: _ShareOfWay = 0.5
    tol: Positive = 5e-3
    n_starts: Count = 3
    relevance: bool = False
    weight_scale_prior: _Prior = (1.0, 1.0)
    output_variance: Positive = 4.0
    noise_prior: _Prior = (-4.0, 1.5)
    random_state: Seed = None
    verbose: int = 0

    def check_params(self) -> None:
        """Raise ValueError for a hyper-parameter out of its range, or more than one layer."""
        super().check_params()
        if np.size(self.hidden_layer_sizes) != 1:
            raise ValueError(
                f"hidden_layer_sizes must be one layer, got {self.hidden_layer_sizes!r}: "
                "take PBPRegressor for more, BayesianLinearRegressor for none"
            )

    def build_method(self, task: Numbers, n_inputs: int) -> BatchEPNetwork:
        """Return the method that the hyper-parameters describe."""
        n_units = int(np.squeeze(self.hidden_layer_sizes))
        return BatchEPNetwork(
            (n_inputs, n_units, task.n_outputs),
            Prior.of(self.weight_scale_prior, self.output_variance, self.noise_prior),
            self.n_epochs,
            float(self.damping),
            float(self.tol),
            self.n_starts,
            bool(self.relevance),
        )


__getattr__ = lazily(globals())
