"""Bayesian linear regression as a scikit-learn regressor."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.linear_regression import BayesianLinearRegressorParams
from bayesprop.estimators.shell import RegressorBase, of_state
from bayesprop.estimators.weight_table import Columns, input_columns, weight_table


@hyper_parameters
class BayesianLinearRegressor(BayesianLinearRegressorParams, RegressorBase):
    """Bayesian linear regression: posterior, predictions and evidence without approximation.

    Bishop (2006), chapter 3; MacKay (1992). `linear/regression.py` has the equations. Each of
    several outputs has its own weights, prior and noise. `partial_fit` gives what one `fit` to all
    rows gives, whatever their order, but for scaling and basis: they stay those of the first rows.

    Attributes
    ----------
    posterior_ : LinearPosterior
        Of the weights, in standardised units.
    statistics_ : Statistics
        All that the rows said.
    prior_prec_ : ndarray of shape (o, k)
        Precision of every weight, the intercept first.
    log_evidence_ : float
        log p(y | X), nats, in the original units of y, summed over outputs.
    fit_report_ : FitReport
        Course of the maximisation, guards, advice.
    basis_ : Basis or None
        What the inputs become.
    n_iter_ : int
        Steps of the last maximisation, 1 where there was none.
    """

    posterior_ = of_state("posterior")
    statistics_ = of_state("statistics")
    prior_prec_ = of_state("prior_prec")
    log_evidence_ = of_state("log_evidence")
    basis_ = of_state("basis")

    def weights(self, coverage: float = 0.9) -> dict[str, np.ndarray]:
        """Table of the weights: columns output, feature, mean, std, lower, upper, of equal length.

        In y per unit of every input, or per column of a basis: of "polynomial", products of
        standardised inputs. The intercept is y where all columns are zero. `lower` and `upper`
        hold a weight with probability `coverage`; `polars.DataFrame(table)` shows it.
        """
        check_is_fitted(self)
        columns, posterior, scaler = self._columns(), self.posterior_, self.y_scaler_
        mean, std = columns.moments(posterior.mean, posterior.root)
        scale = scaler.scale[:, None]
        mean, std = mean * scale, std * scale
        mean[:, 0] += scaler.inverse_mean(np.zeros((1, self.n_outputs_)))[0]
        outputs, dof = np.arange(self.n_outputs_), posterior.dof
        return weight_table("output", outputs, columns.names, mean, std, coverage=coverage, dof=dof)

    def _columns(self) -> Columns:
        """Return what the weights multiply."""
        inputs, basis = input_columns(self), self.basis_
        if basis is None:
            return inputs
        names = basis.names(inputs.names)
        shift, scale = np.zeros(len(names)), np.ones(len(names))
        return Columns(names, getattr(basis, "mean", shift), getattr(basis, "std", scale))
