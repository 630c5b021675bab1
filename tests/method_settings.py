"""One tiny fit of every method: its settings, and the rows that it is fitted to."""

from __future__ import annotations

import warnings

import numpy as np

from bayesprop.catalogue import CLASSIFICATION, METHODS, REGRESSION, make

TINY = {"hidden_layer_sizes": (4,), "n_epochs": 2}
FEW_DRAWS = TINY | {"n_draws": 3}
SETTINGS = {
    "default": TINY,
    "closed-form-vi": TINY,
    "pbp": TINY,
    "ebp": TINY,
    "batch-ep": TINY | {"n_epochs": 40, "n_starts": 1, "tol": 1.0},
    "linear": {},
    "logistic": {},
    "bayes-by-backprop": FEW_DRAWS,
    "graves-vi": FEW_DRAWS,
    "laplace": TINY,
    "mc-dropout": FEW_DRAWS,
    "deep-ensemble": TINY | {"n_members": 2},
    "mcmc": {"hidden_layer_sizes": (2,), "n_warmup": 20, "n_draws": 5, "n_chains": 2},
    "network": TINY,
}
STOOD_FOR = {
    "batch-ep": REGRESSION,
    "bayes-by-backprop": CLASSIFICATION,
    "graves-vi": REGRESSION,
    "laplace": CLASSIFICATION,
    "mc-dropout": REGRESSION,
    "network": CLASSIFICATION,
    "mcmc": REGRESSION,
    "deep-ensemble": CLASSIFICATION,
}
"""Methods whose family has others that are put through every contract: `make test` leaves theirs.
The task with which they are put through that of scikit-learn."""
ALL = [(name, task) for name, method in METHODS.items() for task in method.homes]
RNG = np.random.default_rng(5)
X = RNG.normal(size=(24, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=24)


def unfitted(name, task, **changes):
    """Make the tiny estimator of a method."""
    return make(name, task=task, **SETTINGS[name] | {"random_state": 0} | changes)


def silently(learn, *rows, **how):
    """Fit without what so few rows and epochs make a method say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return learn(*rows, **how)


def wave(n=60, seed=0):
    """Return rows, and targets that one column moves, with noise of standard deviation 3."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3.0, 3.0, (n, 2))
    return x, 40.0 + 10.0 * np.sin(x[:, 0]) + 3.0 * rng.standard_normal(n)


def targets(task):
    return Y if task == REGRESSION else np.where(Y > 0.0, "above", "below")


def predicted(model, x):
    if hasattr(model, "classes_"):
        return model.predict_proba(x)
    return np.stack(model.predict(x, return_std=True), axis=1)
