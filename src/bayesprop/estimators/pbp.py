"""Probabilistic backpropagation: hyper-parameters and estimators."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal, cast

from numpy.typing import ArrayLike

from bayesprop.estimators.params import Activation, Count, GammaPrior, hyper_parameters, layer_sizes
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import ClassifierBase, PassParams, RegressorBase
from bayesprop.model.task import Classes, Numbers
from bayesprop.moments.pbp.network import Engine, PBPClasses, PBPLabels, PBPNumbers
from bayesprop.moments.pbp.state import Gamma
from bayesprop.targets.bijectors import NUMBERS

if TYPE_CHECKING:
    from sklearn.utils import Tags


@hyper_parameters
class _Params(PassParams):
    """Hyper-parameters of both estimators.

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
        Gamma prior of the precision of all weights, the paper's alpha_0 and beta_0 of lambda;
        shape > 1.
    refresh_every : int or None
        Rows after which what the prior says of the weights is refined, as section 3.4 suggests;
        None: after every pass, as the paper does. With inference="adf".
    random_state : int, RandomState or None
        Seeds initial means and the order of rows.
    batch_size : int
        Rows absorbed at once. 1 is the paper's algorithm; larger batches run in JAX.
    noise_prior : (shape, rate)
        Gamma prior of the noise's precision, the paper's alpha_0 and beta_0 of gamma, in
        standardised units; shape > 1.
    guarded : bool
        False: the authors' algorithm at any depth, without our guards of the two Gammas; for ReLU,
        "adf" and batch_size=1. With two hidden layers or more its prior usually breaks.

    Attributes
    ----------
    state_ : PBPState
        The posterior, in standardised units.
    fit_report_ : FitReport
        Guards that fired, course of training, evidence, advice.
    """

    method_name = "pbp"
    n_epochs: Count = field(default=40, kw_only=False)
    inference: Literal["adf", "sep"] = "adf"
    activation: Activation = "relu"
    engine: Literal["auto", "kernel", "jax"] = "auto"
    weight_prior: GammaPrior = (6.0, 6.0)
    refresh_every: Count | None = None

    def check_params(self) -> None:
        super().check_params()
        self.chosen_engine()

    def chosen_engine(self) -> Engine:
        """Return what computes; ValueError where it does not go with the rest."""
        n_at_once = getattr(self, "batch_size", 1)
        guarded = getattr(self, "guarded", True)
        how = self.activation, self.inference, n_at_once, self.engine, self.refresh_every, guarded
        return Engine(*how)


@hyper_parameters
class PBPRegressor(_Params, RegressorBase):
    """Bayesian neural network for regression, fitted by probabilistic backpropagation.

    Every weight has a Gaussian posterior; noise and prior precision have Gamma posteriors and
    need no tuning. Hernández-Lobato & Adams (2015).
    """

    method_class = PBPNumbers
    batch_size: Count = 1
    noise_prior: GammaPrior = (6.0, 6.0)
    guarded: bool = True

    def build_method(self, task: Numbers, n_inputs: int) -> PBPNumbers:
        """Return the method that the hyper-parameters describe."""
        return PBPNumbers(
            self.chosen_engine(),
            layer_sizes(n_inputs, self.hidden_layer_sizes, task.n_outputs),
            self.n_epochs,
            Gamma(*self.weight_prior),
            Gamma(*self.noise_prior),
            y_scale=task.scaler.scale,
            log_unit=task.log_unit,
        )

    def log_evidence(self, X: ArrayLike, y: ArrayLike) -> float:
        """Estimate log p(y | X) by expectation propagation, nats, in the original units of y.

        X, y must be the rows that `fit(inference="sep")` saw, each with weight 1. It is the
        evidence of the network with its fitted prior precision: higher is better between models of
        the same rows. `fit_report_.log_evidence["prequential"]` needs neither condition: the log
        probability of every row given those before it, in the first pass.
        """
        from sklearn.utils.validation import check_is_fitted

        from bayesprop.estimators.fitting import checked_rows
        from bayesprop.moments.pbp.updates import ep_log_evidence

        self.check_params()
        check_is_fitted(self)
        if self.inference != "sep":
            raise ValueError(
                "log_evidence needs inference='sep', got 'adf', which counts the data once an "
                "epoch; or read fit_report_.log_evidence['prequential']"
            )
        task = cast(Numbers, self.task_)
        if task.kind != NUMBERS:
            raise ValueError(
                "log_evidence needs target_kind='numbers', got "
                f"{task.kind!r}, whose mapped targets have units of their own: compare "
                "models by `log_likelihood` on rows left out"
            )
        fitted = self.fitted_
        _, rows, gap = checked_rows(self, X, y, None, fitted)
        if gap is not None:
            raise ValueError("X must hold no missing values (NaN) for an evidence: leave rows out")
        x, t = self.x_scaler_.transform(rows.x), task.scaler.transform(rows.y)
        evidence = ep_log_evidence(self.state_, x, t, activation=self.activation)
        return evidence - len(x) * task.log_unit


@hyper_parameters
class PBPClassifier(_Params, ClassifierBase):
    """Bayesian neural network for classes, fitted by probabilistic backpropagation.

    Every weight has a Gaussian posterior, the prior's precision a Gamma posterior. Two classes
    have one output, and the sign of it plus unit noise is the class (probit); more have one output
    each, and the largest of them plus unit noise. `moments/pbp/probit.py` has the equations.

    y may be (n, o), 0 or 1 for each of o labels of a row: one network has an output for each, the
    sign of which plus unit noise is the label.
    """

    method_class = PBPClasses
    n_epochs: Count = field(default=20, kw_only=False)

    def __sklearn_tags__(self) -> Tags:
        """Several labels a row are supported, too."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def build_method(self, task: Classes, n_inputs: int) -> PBPClasses | PBPLabels:
        """Return the method that the hyper-parameters describe."""
        n_outputs = task.n_outputs if task.n_classes == 2 else task.n_classes
        sizes = layer_sizes(n_inputs, self.hidden_layer_sizes, n_outputs)
        kind = PBPClasses if task.n_outputs == 1 else PBPLabels
        return kind(self.chosen_engine(), sizes, self.n_epochs, Gamma(*self.weight_prior))


__getattr__ = lazily(globals())
