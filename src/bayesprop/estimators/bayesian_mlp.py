"""The default: Bayesian multilayer perceptrons for numbers and for classes, untuned."""

from __future__ import annotations

import copy
import sys
import time
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from bayesprop.estimators.advice import CONSTANT_TARGET, warn
from bayesprop.estimators.checks import check_int, check_positive
from bayesprop.estimators.classification import BayesianClassifier
from bayesprop.estimators.inputs import FURTHEST_FLOAT32_INPUT, standardised_inputs
from bayesprop.estimators.regression import BayesianRegressor
from bayesprop.estimators.stored import (
    check_sizes,
    classifier_header,
    estimator_header,
    regressor_header,
    restore_classifier,
    restore_regressor,
    restored,
)
from bayesprop.estimators.unharmed import unharmed
from bayesprop.model.fit_report import FitReport
from bayesprop.model.noise_mixture import NoiseMixturePredictive
from bayesprop.model.standardiser import Standardiser
from bayesprop.moments.network_ensemble import ensemble
from bayesprop.store import estimator_from_stored, estimator_to_stored


@dataclass(eq=False, repr=False, kw_only=True)
class BayesianMLPRegressor(BayesianRegressor):
    """Ensemble of networks with Gaussian weights, for regression, that learns its noise.

    Means and variances pass through the networks in closed form; the noise is a Student-t whose
    scale networks of their own learn from the inputs; relevance of inputs, sleep of units and what
    the networks leave to a Gaussian process are decided by the table. A recipe of this library,
    after Roth & Pernkopf (2016): docs/default-recipe.md.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or None
        Units of every hidden layer. None: (50,), from 5000 rows on (50, 50), from 30 000 on
        (100, 100).
    n_epochs : int or None
        Passes over the rows. None: 20 000 steps, 4000 if there are more columns than rows.
    n_members : int or None
        Networks of the ensemble. None: 6, from 5000 rows on 2.
    learn_residual : bool
        Whether a Gaussian process learns the pattern of the networks' errors, where rows that they
        have not seen show one.
    learn_replicates : bool
        Whether inputs that the table holds already are expected to give again what they gave, as
        far as its replicates agree more closely than the noise. For tables of repeated
        measurements; on copies made by mistake it flatters scores. Inputs are compared to the last
        bit: ask with the type of number that was fitted.
    batch_size : int or None
        Rows of a step; all of them if there are fewer. None: 64, from 5000 rows on 128.
    learning_rate : float
        First step size of Adam, which falls by a cosine to a hundredth.
    random_state : int, RandomState or None
        Seeds the initial means and the order of rows.
    verbose : int
        1 writes ten lines a network to stderr while it trains.

    Attributes
    ----------
    state_ : EnsembleState
        The posterior, in standardised units.
    fit_report_ : FitReport
        Course of training, sleeping units, restarted networks, advice.
    x_scaler_, y_scaler_ : Standardiser
        How inputs and targets were standardised.
    n_iter_ : int
        Steps of training.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop import BayesianMLPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BayesianMLPRegressor(n_epochs=50, n_members=2, random_state=0)
    >>> mean, std = model.fit(X[:400], y[:400]).predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    hidden_layer_sizes: tuple[int, ...] | None = field(default=None, kw_only=False)
    n_epochs: int | None = field(default=None, kw_only=False)
    n_members: int | None = None
    learn_residual: bool = True
    learn_replicates: bool = False
    batch_size: int | None = None
    learning_rate: float = 1e-2
    random_state: Any = None
    verbose: int = 0

    @unharmed
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit from scratch.

        X
            (n, d) finite numbers; a frame's column names are remembered and checked later.
        y
            (n,) or (n, o), in any unit.
        sample_weight
            (n,), not negative: each row's log-likelihood is multiplied by it.
        """
        self._check_hyper_parameters()
        X, y, weight = self._check_rows(X, y, sample_weight, reset=True)
        self._standardise(X, y, weight, reference=False)
        self._fit_rows(self._standardised(X), self.y_scaler_.transform(y), weight)
        if np.ptp(y if weight is None else y[weight > 0.0], axis=0).min() == 0.0:
            warn([CONSTANT_TARGET])
            advice = [CONSTANT_TARGET, *self.fit_report_.warnings]
            self.fit_report_ = replace(self.fit_report_, warnings=advice)
        return self

    def _check_hyper_parameters(self) -> None:
        if self.hidden_layer_sizes is not None:
            _check_hidden_sizes(self.hidden_layer_sizes)
        for name in ("n_epochs", "n_members", "batch_size"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name))
        _check_step_size(self.learning_rate)
        for name in ("learn_residual", "learn_replicates"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")

    def _settings(self, n_rows: int, n_inputs: int) -> ensemble.EnsembleSettings:
        """Return what the user set, and for the rest the choice by the table's size."""
        asked = {
            "hidden_layer_sizes": self.hidden_layer_sizes and _sizes(self.hidden_layer_sizes),
            "n_members": self.n_members,
            "batch_size": self.batch_size,
        }
        given = {name: value for name, value in asked.items() if value is not None}
        chosen = ensemble.settings_for(
            n_rows,
            n_inputs,
            **given,
            step_size=float(self.learning_rate),
            learns_residual=bool(self.learn_residual),
            learns_replicates=bool(self.learn_replicates),
        )
        if self.n_epochs is None:
            return chosen
        n_batches = max(1, round(n_rows / chosen.batch_size))
        return replace(chosen, n_steps=self.n_epochs * n_batches)

    def _fit_rows(self, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> None:
        started = time.perf_counter()
        self.seed_ = int(check_random_state(self.random_state).randint(2**31))
        settings = self._settings(*x.shape)
        progress = _show if self.verbose else None
        self.state_, info = ensemble.fit(
            self.seed_, x, y, settings, weight=weight, progress=progress
        )
        self.n_iter_ = settings.n_steps
        self.fit_report_ = _report(info, len(x), self.n_iter_, time.perf_counter() - started)

    def _standardised(self, X: np.ndarray, first_row: int = 0) -> np.ndarray:
        return standardised_inputs(self, X, first_row, furthest=FURTHEST_FLOAT32_INPUT)

    def predict_dist(self, X: Any) -> NoiseMixturePredictive:
        """Predictive distribution of y at every row: a mixture over networks and noise scales.

        X
            Rows in the original units, columns as in `fit`.
        """
        x = self._standardised(self._checked_inputs(X))
        shift = self.y_scaler_.inverse_mean(np.zeros((1, self.n_outputs_)))[0]
        predictive = ensemble.predict(self.state_, x).rescaled(shift, self.y_scaler_.scale)
        return predictive.target(0) if self._y_is_vector else predictive

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, *, include_noise: bool = False
    ) -> Any:
        """Joint draws over all rows: each is one function, from one draw of the weights.

        With `include_noise`, draws of new observations. (n, [o,] n_samples).
        """
        check_int("n_samples", n_samples)
        x, rng = self._standardised(self._checked_inputs(X)), check_random_state(random_state)
        drawn = ensemble.sample_functions(
            rng, self.state_, x, n_samples, include_noise=include_noise
        )
        y = np.moveaxis(self.y_scaler_.inverse_mean(drawn), 0, -1)
        return y[:, 0] if self._y_is_vector else y

    def _sample_standardised(
        self, rng: Any, x: np.ndarray, n_samples: int
    ) -> tuple[np.ndarray, np.ndarray]:
        drawn = ensemble.sample_functions(rng, self.state_, x, n_samples)
        return drawn, ensemble.predict(self.state_, x).noise_var

    @property
    def hidden_layer_sizes_(self) -> tuple[int, ...]:
        """Units of the hidden layers in use: as asked, or as the size of the table chose."""
        return self.state_.members[0].sizes[0][1:-1]

    def without_replicates(self) -> Self:
        """Return a copy that predicts inputs of its table as if they had never been measured.

        The same model where it remembers none, `fit_report_.guards["replicated_inputs"]` being 0.
        """
        other = copy.copy(self)
        other.state_ = ensemble.without_replicates(self.state_)
        return other

    def _to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header = estimator_header(self) | regressor_header(self) | {"seed": self.seed_}
        return header, self.state_.to_arrays()

    @classmethod
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        model = restored(cls, header)
        model.state_ = ensemble.EnsembleState.from_arrays(arrays)
        check_sizes(header, model.state_.n_inputs, model.state_.n_outputs)
        restore_regressor(model, header)
        model.seed_ = int(header["seed"])
        return model


@dataclass(eq=False, repr=False, kw_only=True)
class BayesianMLPClassifier(BayesianClassifier):
    """Network with Gaussian weights for classification, with few parameters.

    `ClosedFormVIClassifier` (Roth & Pernkopf 2016) with the choices of this library: an exact
    expected log softmax, a Gaussian prior of variance 2 / inputs of the layer, rectifiers, Adam.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes over the rows.
    likelihood_weight : float
        Copies of every row that the posterior believes it saw. 1 is variational Bayes, and
        underfits small tables; more understates the doubt of the weights.
    batch_size : int
        Rows of a step; all of them if there are fewer.
    learning_rate : float
        Step size of Adam.
    random_state : int, RandomState or None
        Seeds the initial means and the order of rows.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    network_ : ClosedFormVIClassifier
        The fitted network, of standardised inputs and codes of classes.
    classes_ : array
        Labels, in the order of the columns of `predict_proba`.
    fit_report_ : FitReport
        Course of training, hidden units through which nothing passes, advice.
    x_scaler_ : Standardiser
        How inputs were standardised.
    n_iter_ : int
        Epochs.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesprop import BayesianMLPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianMLPClassifier(n_epochs=20, random_state=0).fit(X[:400], y[:400])
    >>> model.predict_proba(X[400:]).shape, model.score(X[400:], y[400:]) > 0.9
    ((169, 2), True)
    """

    hidden_layer_sizes: tuple[int, ...] = field(default=(50,), kw_only=False)
    n_epochs: int = field(default=100, kw_only=False)
    likelihood_weight: float = 10.0
    batch_size: int = 32
    learning_rate: float = 1e-2
    random_state: Any = None
    verbose: int = 0

    @unharmed
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit from scratch.

        X
            (n, d) finite numbers; a frame's column names are remembered and checked later.
        y
            (n,) labels of any type, two classes at least.
        sample_weight
            (n,), not negative: each row's log-likelihood is multiplied by it.
        """
        X, codes, weight = self._check_rows(X, y, sample_weight, reset=True)
        self.x_scaler_ = Standardiser.fit(X, weight)
        from bayesprop.estimators.closed_form_vi import ClosedFormVIClassifier

        network = ClosedFormVIClassifier(**self.get_params(), standardise=False)
        self.network_ = network.fit(self._standardised(X), codes, weight)
        self.fit_report_, self.n_iter_ = network.fit_report_, network.n_iter_
        return self

    def _standardised(self, X: np.ndarray, first_row: int = 0) -> np.ndarray:
        return standardised_inputs(self, X, first_row, furthest=FURTHEST_FLOAT32_INPUT)

    def _class_moments_standardised(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        predictive = self.network_.predict_dist(x)
        return predictive.proba, predictive.expected_entropy

    def _to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        network, arrays = estimator_to_stored(self.network_)
        return estimator_header(self) | classifier_header(self) | {"network": network}, arrays

    @classmethod
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        model = restored(cls, header)
        restore_classifier(model, header)
        model.network_ = estimator_from_stored(header["network"], arrays)
        shape = len(model.network_.classes_), model.network_.n_features_in_
        if shape != (len(model.classes_), model.n_features_in_):
            raise ValueError(
                f"the network has {shape[0]} classes and {shape[1]} inputs, the header "
                f"{len(model.classes_)} and {model.n_features_in_}"
            )
        return model


def _sizes(hidden_layer_sizes: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in np.atleast_1d(hidden_layer_sizes))


def _check_hidden_sizes(hidden_layer_sizes: Any) -> None:
    sizes = np.atleast_1d(np.asarray(hidden_layer_sizes, dtype=object))
    for size in sizes:
        check_int("hidden_layer_sizes", size, of="hold ints")
    if not len(sizes):
        raise ValueError(
            "hidden_layer_sizes must hold at least one int >= 1, got (): for a linear model take "
            "BayesianLinearRegressor"
        )


def _check_step_size(learning_rate: Any) -> None:
    check_positive("learning_rate", learning_rate)
    if learning_rate >= 1.0:
        raise ValueError(f"learning_rate must be below 1, got {learning_rate!r}: try 0.01")


def _show(progress: ensemble.Progress) -> None:
    """Write a line at once, since it comes from any thread."""
    p = progress
    sys.stderr.write(
        f"network {p.member + 1} of {p.n_members}  step {p.step} of {p.n_steps}  "
        f"loss {p.loss:.5g}  data_loss {p.data_loss:.5g}\n"
    )


def _report(info: ensemble.FitInfo, n_rows: int, n_steps: int, seconds: float) -> FitReport:
    """Account for a fit; the traces have up to 100 stretches of steps."""
    advice = []
    if info.n_independent:
        advice.append(
            f"The {info.n_independent} weights of a network stay independent of each other: they, "
            "or the outputs, are too many for a joint covariance. Error bars where no rows lie are "
            "too narrow, and what the networks leave is not learnt; smaller hidden_layer_sizes "
            "would help."
        )
    if info.are_copies:
        advice.append(
            "Rows of the same inputs have the same targets, as copies would: inputs of the table "
            "are expected to give again what they gave. If one measurement stands in the table "
            "more than once, remove its copies: they flatter held-out scores, too."
        )
    return FitReport(
        n_rows=n_rows,
        n_epochs=n_steps,
        seconds=seconds,
        n_updates=n_steps,
        guards={
            "dead_units": info.n_dead_units,
            "members_restarted": info.n_restarted,
            "residual_rows": info.n_residual_rows,
            "replicated_inputs": info.n_replicated,
        },
        trace={
            "loss": np.asarray(info.loss, float).tolist(),
            "data_loss": np.asarray(info.data_loss, float).tolist(),
        },
        warnings=advice,
        step="step",
    )
