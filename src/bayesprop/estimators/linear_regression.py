"""Bayesian linear regression as a scikit-learn regressor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.basis_choice import BasisLearner, check_basis
from bayesprop.estimators.checks import check_positive
from bayesprop.estimators.fitting import of_state
from bayesprop.estimators.params import COUNT, POSITIVE, number_or, rule
from bayesprop.estimators.shell import BayesianRegressor
from bayesprop.estimators.weight_table import Columns, input_columns, weight_table
from bayesprop.linear.bases import ARD, EVIDENCE, PriorChoice
from bayesprop.linear.linear_model import LinearModel
from bayesprop.linear.regression import NoisePrior
from bayesprop.model.method import FURTHEST_INPUT
from bayesprop.model.task import Numbers

_CONJUGATE = "conjugate"


def _check_width(name: str, value: Any) -> None:
    if value is not None:
        check_positive(name, value)


def _check_noise_prior(name: str, value: Any) -> None:
    try:
        shape, rate = (float(number) for number in value)
    except (TypeError, ValueError):
        shape = rate = float("nan")
    if not (1.0 < shape < float("inf") and 0.0 < rate < float("inf")):
        raise ValueError(f"{name} must be (shape > 1, rate > 0), got {value!r}")


@dataclass(eq=False, repr=False, kw_only=True)
class BayesianLinearRegressor(BayesianRegressor):
    """Bayesian linear regression: posterior, predictions and evidence without approximation.

    Bishop (2006), chapter 3; MacKay (1992). `linear/regression.py` has the equations. Each of
    several outputs has its own weights, prior and noise. `partial_fit` gives what one `fit` to all
    rows gives, whatever their order, but for scaling and basis: they stay those of the first rows.

    Parameters
    ----------
    prior_prec : float, "evidence" or "ard"
        Precision of the Gaussian prior of every weight, inputs (or columns of the basis) and target
        standardised; or one that maximises the evidence; or one for each column (automatic
        relevance determination), which leaves idle columns without weight.
    noise : "evidence", "conjugate" or float
        Noise variance: the one that maximises the evidence; unknown with an inverse-gamma prior,
        for Student-t predictions (needs a number as `prior_prec`, whose unit is then the noise
        precision); or known, in y².
    basis : None, "polynomial", "radial", function or scikit-learn transformer
        Columns that the target is linear in: the inputs; their products up to `degree`; Gaussian
        bumps (with error bars too narrow beyond the data); or whatever (n, d) rows in the original
        units become, fitted to the first rows.
    degree : int
        Of "polynomial".
    n_centres : int
        Bumps of "radial": at quantiles of a single input, else at the centres of k-means.
    width : float or None
        Of the bumps, in standard deviations of the inputs. None: the median distance of a centre to
        its nearest neighbour.
    intercept_prec : float
        Precision of the intercept's own prior, which evidence does not move; standardised units.
    noise_prior : (shape, rate)
        Inverse-gamma prior of "conjugate", in standardised units; shape > 1.
    max_steps : int
        Most steps of the maximisation of the evidence, for every output.
    random_state : int, RandomState or None
        Seeds k-means; nothing else is random.

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
    x_scaler_, y_scaler_ : Standardiser
        How inputs and targets were standardised.
    n_iter_ : int
        Steps of the last maximisation, 1 where there was none.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop import BayesianLinearRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BayesianLinearRegressor().fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    method_class = LinearModel
    prior_prec: Any = field(default=EVIDENCE, kw_only=False, metadata=number_or(EVIDENCE, ARD))
    noise: Any = field(default=EVIDENCE, kw_only=False, metadata=number_or(EVIDENCE, _CONJUGATE))
    basis: Any = field(default=None, metadata=rule(check_basis))
    degree: int = field(default=3, metadata=COUNT)
    n_centres: int = field(default=10, metadata=COUNT)
    width: float | None = field(default=None, metadata=rule(_check_width))
    intercept_prec: float = field(default=1e-4, metadata=POSITIVE)
    noise_prior: tuple[float, float] = field(default=(1.1, 0.01), metadata=rule(_check_noise_prior))
    max_steps: int = field(default=1000, metadata=COUNT)
    random_state: Any = None

    posterior_ = of_state("posterior")
    statistics_ = of_state("statistics")
    prior_prec_ = of_state("prior_prec")
    log_evidence_ = of_state("log_evidence")
    basis_ = of_state("basis")

    def check_params(self) -> None:
        """Raise ValueError for hyper-parameters that are wrong, or do not go together."""
        super().check_params()
        if self.noise == _CONJUGATE and isinstance(self.prior_prec, str):
            raise ValueError(
                "prior_prec must be a number > 0 with noise='conjugate', got "
                f"{self.prior_prec!r}: its evidence is not maximised"
            )

    @property
    def standardises_inputs(self) -> bool:
        """A basis that is given sees the original units."""
        return not self._learner.is_given

    def build_method(self, task: Numbers, n_inputs: int) -> LinearModel:
        """Return the method that the hyper-parameters describe."""
        return LinearModel(
            n_inputs,
            task.n_outputs,
            task.log_unit,
            self._learner,
            PriorChoice(self.prior_prec, self.intercept_prec),
            self._noise(task),
            self.max_steps,
            FURTHEST_INPUT if self.standardises_inputs else np.inf,
        )

    @property
    def _learner(self) -> BasisLearner:
        return BasisLearner(self.basis, self.degree, self.n_centres, self.width)

    def _noise(self, task: Numbers) -> np.ndarray | NoisePrior | None:
        """Return what is known of the noise of standardised targets."""
        if not isinstance(self.noise, str):
            return float(self.noise) / task.scaler.scale**2
        return NoisePrior(*self.noise_prior) if self.noise == _CONJUGATE else None

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
        outputs, dof = np.arange(self.n_outputs_), float(posterior.dof[0])
        return weight_table("output", outputs, columns.names, mean, std, coverage=coverage, dof=dof)

    def _columns(self) -> Columns:
        """Return what the weights multiply."""
        inputs, basis = input_columns(self), self.basis_
        if basis is None:
            return inputs
        names = basis.names(inputs.names)
        shift, scale = np.zeros(len(names)), np.ones(len(names))
        return Columns(names, getattr(basis, "mean", shift), getattr(basis, "std", scale))
