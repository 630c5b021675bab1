"""Hyper-parameters of probabilistic backpropagation."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.params import (
    ACTIVATION,
    COUNT,
    GAMMA,
    OfClasses,
    OfNumbers,
    PassParams,
    as_sizes,
    optional,
)
from bayesprop.model.task import Classes, Numbers
from bayesprop.moments.pbp.network import Engine, PBPClasses, PBPNumbers
from bayesprop.moments.pbp.state import Gamma


@hyper_parameters
class _Params(PassParams):
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
    refresh_every : int or None
        Rows after which what the prior says of the weights is refined, as section 3.4 suggests;
        None: after every pass, as the paper does. With inference="adf".
    random_state : int, RandomState or None
        Seeds initial means and the order of rows.
    batch_size : int
        Rows absorbed at once. 1 is the paper's algorithm; larger batches run in JAX.
    noise_prior : (shape, rate)
        Gamma prior of the noise's precision, in standardised units; shape > 1.

    Attributes
    ----------
    state_ : PBPState
        The posterior, in standardised units.
    fit_report_ : FitReport
        Guards that fired, course of training, evidence, advice.
    """

    n_epochs: int = field(default=40, kw_only=False, metadata=COUNT)
    inference: Literal["adf", "sep"] = "adf"
    activation: str = field(default="relu", metadata=ACTIVATION)
    engine: Literal["auto", "kernel", "jax"] = "auto"
    weight_prior: tuple[float, float] = field(default=(6.0, 6.0), metadata=GAMMA)
    refresh_every: int | None = field(default=None, metadata=optional(COUNT))

    def check_params(self) -> None:
        super().check_params()
        self.chosen_engine()

    def chosen_engine(self) -> Engine:
        """Return what computes; ValueError where it does not go with the rest."""
        n_at_once = getattr(self, "batch_size", 1)
        how = self.activation, self.inference, n_at_once, self.engine, self.refresh_every
        return Engine(*how)


@hyper_parameters
class PBPRegressorParams(_Params, OfNumbers):
    """Those of `PBPRegressor`."""

    method_class = PBPNumbers
    batch_size: int = field(default=1, metadata=COUNT)
    noise_prior: tuple[float, float] = field(default=(6.0, 6.0), metadata=GAMMA)

    def build_method(self, task: Numbers, n_inputs: int) -> PBPNumbers:
        """Return the method that the hyper-parameters describe."""
        return PBPNumbers(
            self.chosen_engine(),
            (n_inputs, *as_sizes(self.hidden_layer_sizes), task.n_outputs),
            self.n_epochs,
            Gamma(*self.weight_prior),
            Gamma(*self.noise_prior),
            y_scale=task.scaler.scale,
            log_unit=task.log_unit,
        )


@hyper_parameters
class PBPClassifierParams(_Params, OfClasses):
    """Those of `PBPClassifier`."""

    method_class = PBPClasses
    n_epochs: int = field(default=20, kw_only=False, metadata=COUNT)

    def build_method(self, task: Classes, n_inputs: int) -> PBPClasses:
        """Return the method that the hyper-parameters describe."""
        n_outputs = 1 if task.n_classes == 2 else task.n_classes
        sizes = (n_inputs, *as_sizes(self.hidden_layer_sizes), n_outputs)
        return PBPClasses(self.chosen_engine(), sizes, self.n_epochs, Gamma(*self.weight_prior))
