"""Epistemic uncertainty of candidates, computed from any estimator.

An estimator of ours tells what a measurement would teach (epistemic) from what it would not
(noise). Another scikit-learn estimator only has `predict(X, return_std=True)` or `predict_proba`:
its doubt is not divided, and what needs the division refuses it.

What measuring one candidate would tell about the others, `Functions` know: features whose inner
products are the posterior covariances of the function, exact for a linear model, else from joint
draws of the weights. Conditioning on a measurement is then a rank-one change of the features, and
needs no value of y (MacKay 1992, "Information-based objective functions for active data
selection").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.distributions.predictive import Predictive, StudentTPredictive
from bayesprop.estimators.any_estimator import (
    Estimator,
    Inputs,
    last_step,
    predictives_of,
    tells_parts,
    unwrapped,
)

if TYPE_CHECKING:
    from bayesprop.estimators.shell import RegressorBase

_LOG_2PI_E = float(np.log(2.0 * np.pi * np.e))
_LEAST_SHARE, _TINY = 1e-12, 1e-150


class Doubt(NamedTuple):
    """The doubt about one measurement at each candidate, n of them.

    var
        Variance of what would be measured, y², for each of o targets. Of a class: that of the
        vector of 0 and 1 that a label is, 1 minus the sum of squared probabilities.
    epistemic_var
        The part of it that more data would remove; None where the model does not tell.
    entropy
        H[y | x, data], nats, summed over targets. Of numbers that of the Gaussian with the
        predictive's variance, of a Student-t its own.
    noise_entropy
        E H[y | parameters, x], nats: what would remain if the parameters were known; None where
        the model does not tell.
    """

    var: Float[np.ndarray, "n o"]
    epistemic_var: Float[np.ndarray, "n o"] | None
    entropy: Float[np.ndarray, " n"]
    noise_entropy: Float[np.ndarray, " n"] | None

    def after(self, epistemic_var: Float[np.ndarray, "n o"]) -> Doubt:
        """Return the doubt once measurements have brought the epistemic variance down to this."""
        var = self.var - cast(np.ndarray, self.epistemic_var) + epistemic_var
        entropy = self.entropy + 0.5 * np.log(var / self.var).sum(axis=1)
        return self._replace(var=var, epistemic_var=epistemic_var, entropy=entropy)


def doubt_of(estimator: Estimator, X: Inputs) -> Doubt:
    """Ask a fitted estimator about candidates, some rows at a time."""
    parts = [
        of_classes(one) if isinstance(one, ClassPredictive) else of_numbers(one)
        for one in predictives_of(estimator, X)
    ]
    columns = zip(*parts, strict=True)
    doubt = Doubt._make(None if c[0] is None else np.concatenate(c) for c in columns)
    known = tells_parts(estimator)
    return doubt if known else doubt._replace(epistemic_var=None, noise_entropy=None)


def of_numbers(predicted: Predictive) -> Doubt:
    """Doubt about numbers; several targets are taken to be independent given x."""
    var, epistemic = predicted.var, predicted.epistemic_var
    var, epistemic = var.reshape(len(var), -1), epistemic.reshape(len(var), -1)
    with np.errstate(divide="ignore"):  # noise of zero: a measurement tells without bound
        entropy = 0.5 * (_LOG_2PI_E + np.log(var))
        log_noise_var = _mean_log_noise_var(predicted).reshape(var.shape)
    if isinstance(predicted, StudentTPredictive):
        entropy = _student_t_entropy(predicted).reshape(var.shape)
    noise_entropy = 0.5 * (_LOG_2PI_E + log_noise_var)
    return Doubt(var, epistemic, entropy.sum(axis=1), noise_entropy.sum(axis=1))


def _mean_log_noise_var(predicted: Predictive) -> np.ndarray:
    """E log noise_var, over draws, members, or the inverse gamma whose mean is `noise_var`."""
    if isinstance(predicted, MixturePredictive):
        return predicted.mean_log_noise_var
    if isinstance(predicted, StudentTPredictive):
        shape = 0.5 * predicted.dof
        return np.log(predicted.noise_var * (shape - 1.0)) - special.digamma(shape)
    return np.log(predicted.noise_var)


def _student_t_entropy(predicted: StudentTPredictive) -> np.ndarray:
    shape = 0.5 * predicted.dof
    return (
        np.log(predicted.scale)
        + 0.5 * np.log(predicted.dof)
        + special.betaln(0.5, shape)
        + (shape + 0.5) * (special.digamma(shape + 0.5) - special.digamma(shape))
    )


def of_classes(predicted: ClassPredictive) -> Doubt:
    """Doubt about a class; several labels of a row are taken to be independent given x."""
    var = np.maximum(1.0 - np.square(predicted.proba).sum(axis=-1), 0.0)
    parts = predicted.entropy, predicted.expected_entropy
    entropies = (part.reshape(len(var), -1).sum(axis=1) for part in parts)
    return Doubt(var.reshape(len(var), -1), None, *entropies)


class Functions(NamedTuple):
    """A Gaussian posterior of the function at n places, each of o targets on its own.

    features
        k numbers a place and target, y: covariances are their inner products.
    noise_var
        Of a measurement at each place, y².
    """

    features: Float[np.ndarray, "n o k"]
    noise_var: Float[np.ndarray, "n o"]

    @property
    def epistemic_var(self) -> Float[np.ndarray, "n o"]:
        """Variance of the function, y²."""
        return np.einsum("nok,nok->no", self.features, self.features)

    def some(self, rows: Int[np.ndarray, " m"] | slice) -> Functions:
        """Take the functions at some of the places."""
        return Functions(self.features[rows], self.noise_var[rows])

    def seen_from(self, place: Functions) -> Functions:
        """Condition on one measurement at `place`, whose features are (1, o, k).

        Cov' = Cov - f f_*' / (var_* + noise), as features: f' = f - b (f . f_*) f_* with
        b = (1 - sqrt(noise / (var_* + noise))) / var_*.
        """
        var = place.epistemic_var[0]
        left = np.sqrt(place.noise_var[0] / (var + place.noise_var[0]))
        share = np.where(var > 0.0, (1.0 - left) / np.where(var > 0.0, var, 1.0), 0.0)
        along = np.einsum("nok,ok->no", self.features, place.features[0]) * share
        features = self.features - along[:, :, None] * place.features[0]
        return Functions(features, self.noise_var)


def can_be_drawn(estimator: Estimator) -> bool:
    """Whether an estimator has joint draws of its function (or features) beside `predict_dist`."""
    model = last_step(estimator)
    return hasattr(model, "predict_dist") and (
        hasattr(model, "posterior_features") or hasattr(model, "sample_y")
    )


def functions_of(estimator: Estimator, X: Inputs, *, n_draws: int, seed: int) -> Functions:
    """Return the posterior at the rows of X.

    The variances are those of `predict_dist`; draws only say how the rows hang together.
    """
    model, inputs = unwrapped(estimator, X)
    doubt = doubt_of(model, inputs)
    n, var = len(doubt.var), cast(np.ndarray, doubt.epistemic_var)
    noise_var = np.maximum(doubt.var - var, 0.0)
    regressor = cast("RegressorBase", model)
    if hasattr(model, "posterior_features"):
        features = regressor.posterior_features(inputs)
    else:
        drawn = np.asarray(regressor.sample_y(inputs, n_draws, random_state=seed))
        drawn = drawn.reshape(n, -1, n_draws)
        features = drawn - drawn.mean(axis=2, keepdims=True)
    length = np.sqrt(np.einsum("nok,nok->no", features, features))
    least = _LEAST_SHARE * max(float(length.max(initial=0.0)), _TINY)
    scale = np.where(length > least, np.sqrt(var) / np.maximum(length, least), 0.0)
    return Functions(features * scale[:, :, None], noise_var)
