"""What measuring one candidate would tell about the others: the posterior as Gaussian functions.

Every candidate has features whose inner products are the posterior covariances of the function,
exact for a linear model, else from joint draws of the weights. Conditioning on a measurement is
then a rank-one change of the features, and needs no value of y (MacKay 1992, "Information-based
objective functions for active data selection").
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.decisions.doubt import doubt_of, unwrapped

_LEAST_SHARE, _TINY = 1e-12, 1e-150


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


def can_be_drawn(estimator: Any) -> bool:
    """Whether an estimator has joint draws of its function (or features) beside `predict_dist`."""
    model = estimator[-1] if hasattr(estimator, "steps") else estimator
    return hasattr(model, "predict_dist") and (
        hasattr(model, "posterior_features") or hasattr(model, "sample_y")
    )


def functions_of(estimator: Any, X: Any, *, n_draws: int, seed: int) -> Functions:
    """Return the posterior at the rows of X.

    The variances are those of `predict_dist`; draws only say how the rows hang together.
    """
    model, inputs = unwrapped(estimator, X)
    doubt = doubt_of(model, inputs)
    n, var = len(doubt.var), doubt.epistemic_var
    if var is None:
        raise ValueError("the estimator does not tell epistemic variance from noise")
    noise_var = np.maximum(doubt.var - var, 0.0)
    if hasattr(model, "posterior_features"):
        features = model.posterior_features(inputs)
    else:
        drawn = np.asarray(model.sample_y(inputs, n_draws, random_state=seed))
        drawn = drawn.reshape(n, -1, n_draws)
        features = drawn - drawn.mean(axis=2, keepdims=True)
    length = np.sqrt(np.einsum("nok,nok->no", features, features))
    least = _LEAST_SHARE * max(float(length.max(initial=0.0)), _TINY)
    scale = np.where(length > least, np.sqrt(var) / np.maximum(length, least), 0.0)
    return Functions(features * scale[:, :, None], noise_var)
