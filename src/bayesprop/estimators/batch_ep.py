"""Batch expectation propagation as a scikit-learn regressor."""

from __future__ import annotations

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.batch_ep import BatchEPRegressorParams
from bayesprop.estimators.shell import RegressorBase


@hyper_parameters
class BatchEPRegressor(BatchEPRegressorParams, RegressorBase):
    """Network of one hidden layer, fitted by batch expectation propagation, for small tables.

    After Jylänki, Nummenmaa & Vehtari (2014): error-function units, a site for every datum and
    unit, one-dimensional quadrature, full covariances within a unit. `moments/batch_ep/` has the
    equations.

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
