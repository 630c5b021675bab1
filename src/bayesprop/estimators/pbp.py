"""Probabilistic backpropagation as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.pbp import PBPClassifierParams, PBPRegressorParams
from bayesprop.estimators.shell import ClassifierBase, RegressorBase

_STATE: Any = property(lambda self: self.learned_.state.plain)


@hyper_parameters
class PBPRegressor(PBPRegressorParams, RegressorBase):
    """Bayesian neural network for regression, fitted by probabilistic backpropagation.

    Every weight has a Gaussian posterior; noise and prior precision have Gamma posteriors and
    need no tuning. Hernández-Lobato & Adams (2015).
    """

    state_ = _STATE

    def log_evidence(self, X: Any, y: Any) -> float:
        """Estimate log p(y | X) by expectation propagation, nats, in the original units of y.

        X, y must be the rows that `fit(inference="sep")` saw, each with weight 1. It is the
        evidence of the network with its fitted prior precision: higher is better between models of
        the same rows. `fit_report_.log_evidence["prequential"]` needs neither condition: the log
        probability of every row given those before it, in the first pass.
        """
        from bayesprop.moments.pbp.updates import ep_log_evidence

        self.check_params()
        check_is_fitted(self)
        if self.inference != "sep":
            raise ValueError(
                "log_evidence needs inference='sep', got 'adf', which counts the data once an "
                "epoch; or read fit_report_.log_evidence['prequential']"
            )
        if self.task_.map is not None:
            raise ValueError(
                "log_evidence needs target_kind='numbers', got "
                f"{self.task_.kind!r}, whose mapped targets have units of their own: compare "
                "models by `log_likelihood` on rows left out"
            )
        rows, gap = self.checked_rows(X, y, None, reset=False)
        if gap is not None:
            raise ValueError("X must hold no missing values (NaN) for an evidence: leave rows out")
        x, t = self.x_scaler_.transform(rows.x), self.task_.scaler.transform(rows.y)
        evidence = ep_log_evidence(self.state_, x, t, activation=self.activation)
        return evidence - len(x) * self.task_.log_unit


@hyper_parameters
class PBPClassifier(PBPClassifierParams, ClassifierBase):
    """Bayesian neural network for classes, fitted by probabilistic backpropagation.

    Every weight has a Gaussian posterior, the prior's precision a Gamma posterior. Two classes
    have one output, and the sign of it plus unit noise is the class (probit); more have one output
    each, and the largest of them plus unit noise. `moments/pbp/kernel_probit.py` has the equations.
    """

    state_ = _STATE
