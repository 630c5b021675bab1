"""The recipe behind `ClosedFormVIRegressor(noise="network")`: settings, report, file."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from bayesprop.estimators.checks import check_int, check_positive
from bayesprop.estimators.stored import (
    check_sizes,
    estimator_header,
    regressor_header,
    restore_regressor,
    restored,
)
from bayesprop.model.fit_report import FitReport
from bayesprop.model.noise_mixture import NoiseMixturePredictive
from bayesprop.moments.network_ensemble import ensemble as recipe
from bayesprop.moments.network_ensemble.known_rows import KnownRows

NETWORK = "network"
_SETTINGS = {
    "hidden_layer_sizes": "hidden_layer_sizes",
    "n_members": "n_members",
    "batch_size": "batch_size",
    "learning_rate": "step_size",
    "learn_residual": "learns_residual",
}


_NOT_OF_THE_RECIPE = (
    "activation",
    "prior",
    "prior_scale",
    "likelihood_weight",
    "optimizer",
    "kl_warm_up",
    "prediction",
    "n_draws",
)


def check(model: Any) -> None:
    """Raise ValueError where a hyper-parameter is out of its range, or is none of the recipe."""
    for name in _NOT_OF_THE_RECIPE:
        if getattr(model, name) is not None:
            raise ValueError(
                f"{name} must be None with noise={NETWORK!r}, which has no such parameter, got "
                f"{getattr(model, name)!r}: choose noise='learned', 'input' or a variance"
            )
    if model.warm_start:
        raise ValueError(
            f"warm_start must be False with noise={NETWORK!r}, whose schedule has an end: fit "
            "again, or choose noise='learned' or 'input'"
        )
    sizes = np.atleast_1d(np.asarray(model._value("hidden_layer_sizes"), dtype=object))
    for size in sizes:
        check_int("hidden_layer_sizes", size, of="hold ints")
    if not len(sizes):
        raise ValueError(
            f"hidden_layer_sizes must hold an int with noise={NETWORK!r}, got (): choose "
            "noise='learned'"
        )
    for name in ("n_epochs", "batch_size", "n_members"):
        if getattr(model, name) is not None:
            check_int(name, getattr(model, name))
    if model.learning_rate is not None:
        check_positive("learning_rate", model.learning_rate)
    if model.learn_residual not in (None, True, False):
        raise ValueError(f"learn_residual must be True or False, got {model.learn_residual!r}")


def settings(model: Any, n_rows: int, n_inputs: int) -> recipe.NoiseNetworkSettings:
    """Return what the user set, and for the rest the recipe's own choice by the table's size."""
    given = {
        theirs: getattr(model, ours)
        for ours, theirs in _SETTINGS.items()
        if getattr(model, ours) is not None
    }
    if "hidden_layer_sizes" in given:
        given["hidden_layer_sizes"] = model._hidden_sizes()
    chosen = recipe.settings_for(n_rows, n_inputs, **given)
    if model.n_epochs is None:
        return chosen
    n_batches = max(1, round(n_rows / chosen.batch_size))
    return recipe.settings_for(n_rows, n_inputs, **given, n_steps=model.n_epochs * n_batches)


def fit(
    model: Any, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None
) -> tuple[recipe.NoiseNetworkState, recipe.FitInfo]:
    """Fit standardised rows from the start."""
    model.seed_ = int(check_random_state(model.random_state).randint(2**31))
    chosen = settings(model, *x.shape)
    model.n_iter_ = chosen.n_steps
    start = recipe.init(model.seed_, x.shape[1], y, chosen)
    return recipe.fit(start, x, y, chosen, weight=weight)


def predict(model: Any, x: np.ndarray) -> NoiseMixturePredictive:
    """Predict standardised targets at standardised rows."""
    return recipe.predict(model.state_, x)


def without_known(state: recipe.NoiseNetworkState) -> recipe.NoiseNetworkState:
    """Return a state that remembers no inputs."""
    return state._replace(known=KnownRows.none(state.n_inputs, state.n_outputs))


def sample(
    model: Any, x: np.ndarray, n: int, random_state: Any, *, include_noise: bool
) -> np.ndarray:
    """Draw n functions, or with noise new observations; standardised, (s, n, o)."""
    rng = check_random_state(random_state)
    return recipe.sample_functions(rng, model.state_, x, n, include_noise=include_noise)


def report(info: recipe.FitInfo, n_rows: int, n_steps: int, seconds: float) -> FitReport:
    """Account for a fit of the recipe; the traces have up to 100 stretches of steps."""
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
            "members_again": info.n_started_again,
            "residual_rows": info.n_residual_rows,
            "known_rows": info.n_known_rows,
        },
        trace={
            "loss": np.asarray(info.loss, float).tolist(),
            "data_loss": np.asarray(info.data_loss, float).tolist(),
        },
        warnings=advice,
        step="step",
    )


def to_stored(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return header and arrays of a fitted regressor."""
    header = estimator_header(model) | regressor_header(model) | {"seed": model.seed_}
    return header, model.state_.to_arrays()


def from_stored(cls: type, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Rebuild what `to_stored` gave."""
    model = restored(cls, header)
    model.state_ = recipe.NoiseNetworkState.from_arrays(arrays)
    check_sizes(header, model.state_.n_inputs, model.state_.n_outputs)
    restore_regressor(model, header)
    model.seed_ = int(header["seed"])
    return model
