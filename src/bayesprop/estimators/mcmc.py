"""Markov chain Monte Carlo over a network's weights, as a scikit-learn regressor and classifier."""

from __future__ import annotations

from typing import Any, cast

from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.mcmc import MCMCClassifierParams, MCMCRegressorParams
from bayesprop.estimators.shell import ClassifierBase, RegressorBase, of_state
from bayesprop.sampling import diagnostics
from bayesprop.sampling.markov_chains import ChainState


class _Chains:
    """What both estimators tell of their chains."""

    diagnostics_ = of_state("diagnostics")

    def to_inference_data(
        self, X: Any = None, y: Any = None, *, n_samples: int = 1000, random_state: int = 0
    ) -> Any:
        """Hand the draws of the weights, in standardised units, to ArviZ: traces, summaries.

        At rows X also new observations, and y, in the groups that other methods have: of one chain
        of n_samples. ValueError for y without X; ImportError where ArviZ is not installed.
        """
        from bayesprop.estimators.inference_data import at_rows, inference_data

        check_is_fitted(self)
        if X is None and y is not None:
            raise ValueError("X must be the rows of y, got None: pass both, or neither")
        groups = {} if X is None else at_rows(self, X, y, n_samples, random_state)
        state: ChainState = cast(Any, self).state_
        return inference_data(groups | diagnostics.arviz_groups(state.chains))


@hyper_parameters
class MCMCRegressor(_Chains, MCMCRegressorParams, RegressorBase):
    """Draws of a network's weights from their exact posterior, for regression.

    The model of probabilistic backpropagation with nothing approximated but the number of draws:
    what every other method is measured against. For small networks and tables.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop.estimators.mcmc import MCMCRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MCMCRegressor((), n_draws=500, random_state=0)
    >>> model.fit(X[:100, 2:4], y[:100]).predict(X[400:, 2:4]).shape
    (42,)
    """


@hyper_parameters
class MCMCClassifier(_Chains, MCMCClassifierParams, ClassifierBase):
    """Draws of a network's weights from their exact posterior, for classification.

    A prediction averages the probabilities of all draws. For small networks and tables.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesprop.estimators.mcmc import MCMCClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MCMCClassifier((), n_draws=1000, random_state=0)
    >>> model.fit(X[::2], y[::2]).predict_proba(X[1::2]).shape
    (75, 3)
    """
