"""Probabilistic backpropagation as scikit-learn estimators."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.params import ACTIVATION, COUNT, GAMMA, SIZES, as_sizes, check_fields
from bayesprop.estimators.shell import BayesianClassifier, BayesianRegressor
from bayesprop.model.task import Classes, Numbers
from bayesprop.moments.pbp.network import Engine, PBPClasses, PBPNumbers
from bayesprop.moments.pbp.state import GammaPrior


@hyper_parameters
class _Params:
    """What both have.

    Parameters
    ----------
    n_epochs : int
        Passes of `fit` over the rows; the paper's is 40.
    inference : {"adf", "sep"}
        "adf" counts every pass as new data, so that the epistemic variance falls with `n_epochs`;
        "sep" (stochastic expectation propagation, Li et al. 2015) removes an average factor first
        and may train as long as it likes.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers; all but "relu" run in JAX.
    engine : {"auto", "kernel", "jax"}
        "auto" takes the compiled engine wherever it applies. Both give the same numbers.
    weight_prior : (shape, rate)
        Gamma prior of the precision of all weights; shape > 1.
    batch_size : int
        Rows absorbed at once. 1 is the paper's algorithm; larger batches run in JAX.
    noise_prior : (shape, rate)
        Gamma prior of the noise's precision, in standardised units; shape > 1.

    Attributes
    ----------
    state_ : PBPState
        The posterior, in standardised units.
    """

    hidden_layer_sizes: tuple[int, ...] = field(default=(50,), kw_only=False, metadata=SIZES)
    n_epochs: int = field(default=40, kw_only=False, metadata=COUNT)
    inference: Literal["adf", "sep"] = "adf"
    activation: str = field(default="relu", metadata=ACTIVATION)
    engine: Literal["auto", "kernel", "jax"] = "auto"
    weight_prior: tuple[float, float] = field(default=(6.0, 6.0), metadata=GAMMA)
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    state_ = property(lambda self: self.learned_.state.plain)

    def check_params(self) -> None:
        """Raise ValueError for a hyper-parameter out of its range."""
        check_fields(self)
        self._engine()

    def _engine(self) -> Engine:
        batch_size = getattr(self, "batch_size", 1)
        return Engine(self.activation, self.inference, batch_size, self.engine)


@hyper_parameters
class PBPRegressor(_Params, BayesianRegressor):
    """Bayesian neural network for regression, fitted by probabilistic backpropagation.

    Every weight has a Gaussian posterior; noise and prior precision have Gamma posteriors and
    need no tuning. Hernández-Lobato & Adams (2015).
    """

    method_class = PBPNumbers
    batch_size: int = field(default=1, metadata=COUNT)
    noise_prior: tuple[float, float] = field(default=(6.0, 6.0), metadata=GAMMA)

    def build_method(self, task: Numbers, n_inputs: int) -> PBPNumbers:
        """Return the method that the hyper-parameters describe."""
        return PBPNumbers(
            self._engine(),
            (n_inputs, *as_sizes(self.hidden_layer_sizes), task.n_outputs),
            self.n_epochs,
            GammaPrior(*self.weight_prior),
            GammaPrior(*self.noise_prior),
            task.scaler.scale,
        )

    def log_evidence(self, X: Any, y: Any) -> float:
        """Estimate log p(y | X) by expectation propagation, nats, in the original units of y.

        X, y must be the rows that `fit(inference="sep")` saw, each with weight 1. It is the
        evidence of the network with its fitted prior precision: higher is better between models of
        the same rows. `fit_report_.log_evidence["prequential"]` needs neither condition: the log
        probability of every row given those before it, in the first pass.
        """
        from bayesprop.moments.pbp.ep_evidence import ep_log_evidence

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
        rows = self.checked_rows(X, y, None, reset=False)
        if rows.gap is not None:
            raise ValueError("X must hold no missing values (NaN) for an evidence: leave rows out")
        x, t = self.x_scaler_.transform(rows.X), self.task_.scaler.transform(rows.y)
        evidence = ep_log_evidence(self.state_, x, t, activation=self.activation)
        return evidence - len(x) * self.task_.log_unit


@hyper_parameters
class PBPClassifier(_Params, BayesianClassifier):
    """Bayesian neural network for classes, fitted by probabilistic backpropagation.

    Every weight has a Gaussian posterior, the prior's precision a Gamma posterior. Two classes
    have one output, and the sign of it plus unit noise is the class (probit); more have one output
    each, and the largest of them plus unit noise. `moments/pbp/kernel_probit.py` has the equations.
    """

    method_class = PBPClasses
    n_epochs: int = field(default=20, kw_only=False, metadata=COUNT)

    def build_method(self, task: Classes, n_inputs: int) -> PBPClasses:
        """Return the method that the hyper-parameters describe."""
        n_outputs = 1 if task.n_classes == 2 else task.n_classes
        sizes = (n_inputs, *as_sizes(self.hidden_layer_sizes), n_outputs)
        return PBPClasses(self._engine(), sizes, self.n_epochs, GammaPrior(*self.weight_prior))
