"""Bayesian linear regression: hyper-parameters and estimators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

import numpy as np
from scipy import special

from bayesprop.estimators.params import Count, GammaPrior, Positive, Rule, hyper_parameters
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import RegressorBase, Seed, of_fitted
from bayesprop.estimators.weight_table import Columns, input_columns, weight_table
from bayesprop.linear.bases import EVIDENCE, Basis, PriorChoice, given, polynomial, radial
from bayesprop.linear.linear_model import LinearModel
from bayesprop.linear.regression import NoisePrior
from bayesprop.model.method import FURTHEST_INPUT
from bayesprop.model.task import Numbers

_CONJUGATE, _INTEGRATED = "conjugate", "integrated"
_MOST_COLUMNS = 20_000
_CLUSTERED_ROWS = 10_000
_BasisChoice = (
    Literal["polynomial", "radial"]
    | Annotated[
        Any,
        Rule(
            "a function of rows, a scikit-learn transformer",
            lambda value: callable(value) or hasattr(value, "transform"),
        ),
    ]
    | None
)


@dataclass(frozen=True)
class _BasisLearner:
    """Learns the basis of a choice from rows, standardised unless it `is_given`."""

    basis: Any
    degree: int
    n_centres: int
    width: float | None

    @property
    def is_given(self) -> bool:
        """Whether it is a function or a transformer, which sees the original units."""
        return not (self.basis is None or isinstance(self.basis, str))

    def __call__(self, x: np.ndarray, weight: np.ndarray | None, rng: Any) -> Basis | None:
        """Learn from rows; None is the inputs themselves."""
        if self.basis is None:
            return None
        if self.basis == "polynomial":
            _check_polynomial(x.shape[1], self.degree)
            return polynomial(x, self.degree, weight)
        if self.basis == "radial":
            return radial(_centres(self.n_centres, x, weight, rng), self.width)
        if hasattr(self.basis, "transform"):
            from sklearn.base import clone

            transformer = cast(Any, clone(self.basis)).fit(x)
            return given(transformer.transform, x, weight)
        return given(self.basis, x, weight)


def _check_polynomial(n_inputs: int, degree: int) -> None:
    n_columns = special.comb(n_inputs + degree, degree)
    if n_columns > _MOST_COLUMNS:
        raise ValueError(
            f"degree {degree} of {n_inputs} inputs makes {n_columns:.3g} columns, more than "
            f"{_MOST_COLUMNS}: lower degree, or give a function of rows as basis"
        )


def _centres(n_centres: int, x: np.ndarray, weight: np.ndarray | None, rng: Any) -> np.ndarray:
    """Quantiles of a single input, k-means of several; rows of weight 0 do not count."""
    from sklearn.cluster import KMeans

    seen = np.ones(len(x)) if weight is None else weight
    x, seen = x[seen > 0.0], seen[seen > 0.0]
    distinct = np.unique(x, axis=0)
    if len(distinct) <= n_centres:
        return distinct
    if x.shape[1] == 1:
        order = np.argsort(x[:, 0], kind="stable")
        share = (np.cumsum(seen[order]) - 0.5 * seen[order]) / seen.sum()
        levels = np.linspace(0.0, 1.0, n_centres)
        return np.unique(np.interp(levels, share, x[order, 0]))[:, None]
    rows = rng.permutation(len(x))[:_CLUSTERED_ROWS]
    clusters = KMeans(n_centres, n_init="auto", random_state=rng.randint(2**31))
    return np.asarray(clusters.fit(x[rows], sample_weight=seen[rows]).cluster_centers_)


@hyper_parameters
class BayesianLinearRegressor(RegressorBase):
    """Bayesian linear regression: posterior, predictions and evidence without approximation.

    Bishop (2006), chapter 3; MacKay (1992). `linear/regression.py` has the equations. Each of
    several outputs has its own weights, prior and noise. `partial_fit` gives what one `fit` to all
    rows gives, whatever their order, but for scaling and basis: they stay those of the first rows.

    Parameters
    ----------
    prior_prec : float, "evidence" or "ard"
        Precision of the Gaussian prior of every weight, Bishop's alpha, inputs (or columns of the
        basis) and target standardised; or one that maximises the evidence; or one for each column
        (automatic relevance determination), which leaves idle columns without weight.
    noise : "integrated", "evidence", "conjugate" or float
        Noise variance: integrated out about the one that maximises the evidence, for Student-t
        predictions whose intervals are right for few rows, too; the maximum as if it were known,
        for Gaussian ones; unknown with an inverse-gamma prior, for Student-t predictions (needs a
        number as `prior_prec`, whose unit is then the noise precision); or known, in y².
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
    n_iter_ : int
        Steps of the last maximisation, 1 where there was none.
    """

    method_name = "linear"
    method_class = LinearModel
    prior_prec: Positive | Literal["evidence", "ard"] = field(default=EVIDENCE, kw_only=False)
    noise: Positive | Literal["integrated", "evidence", "conjugate"] = field(
        default=_INTEGRATED, kw_only=False
    )
    basis: _BasisChoice = None
    degree: Count = 3
    n_centres: Count = 10
    width: Positive | None = None
    intercept_prec: Positive = 1e-4
    noise_prior: GammaPrior = (1.1, 0.01)
    max_steps: Count = 1000
    random_state: Seed = None

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
            self.noise == _INTEGRATED,
        )

    @property
    def _learner(self) -> _BasisLearner:
        return _BasisLearner(self.basis, self.degree, self.n_centres, self.width)

    def _noise(self, task: Numbers) -> np.ndarray | NoisePrior | None:
        """Return what is known of the noise of standardised targets."""
        if not isinstance(self.noise, str):
            return float(self.noise) / task.scaler.scale**2
        return NoisePrior(*self.noise_prior) if self.noise == _CONJUGATE else None

    posterior_ = of_fitted("learned.state.posterior")
    statistics_ = of_fitted("learned.state.statistics")
    prior_prec_ = of_fitted("learned.state.posterior.prior_prec")
    log_evidence_ = of_fitted("learned.state.log_evidence")
    basis_ = of_fitted("learned.state.basis")

    def weights(self, coverage: float = 0.9) -> dict[str, np.ndarray]:
        """Table of the weights: columns output, feature, mean, std, lower, upper, of equal length.

        In y per unit of every input, or per column of a basis: of "polynomial", products of
        standardised inputs. The intercept is y where all columns are zero. `lower` and `upper`
        hold a weight with probability `coverage`; `polars.DataFrame(table)` shows it.
        """
        from sklearn.utils.validation import check_is_fitted

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


__getattr__ = lazily(globals())
