"""What the two estimators of probabilistic backpropagation share: checks, streams, advice."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from bayesprop.estimators.checks import check_choice, check_int
from bayesprop.moments.pbp.algorithm import Engine
from bayesprop.moments.pbp.state import PBPState


def checked_engine(estimator: Any, **settings: Any) -> Engine:
    """Check the hyper-parameters that both have, and say which code will run.

    settings
        Of `Engine`: those that are not hyper-parameters of both.
    """
    for size in np.atleast_1d(np.asarray(estimator.hidden_layer_sizes, dtype=object)):
        check_int("hidden_layer_sizes", size, of="hold ints")
    check_int("n_epochs", estimator.n_epochs)
    check_choice("inference", estimator.inference, ("adf", "sep"))
    check_choice("engine", estimator.engine, ("auto", "kernel", "jax"))
    check_choice("activation", estimator.activation, ("relu", "leaky_relu", "erf", "identity"))
    check_gamma("weight_prior", estimator.weight_prior)
    return Engine(
        activation=estimator.activation,
        inference=estimator.inference,
        name=estimator.engine,
        **settings,
    )


def hidden_sizes(sizes: Any) -> tuple[int, ...]:
    """Units of every hidden layer; one number is one layer."""
    return (int(sizes),) if isinstance(sizes, Integral) else tuple(int(h) for h in sizes)


def flat_average_factor(state: PBPState) -> dict[str, Any]:
    """No data of this stream are in the average factor of stochastic EP yet."""
    zeros = tuple(np.zeros_like(m) for m in state.m)
    none = np.zeros_like(state.noise_shape)
    return {
        "lik_prec": zeros,
        "lik_prec_mean": zeros,
        "lik_noise_shape": none,
        "lik_noise_rate": none,
    }


def advice_on_updates(guards: dict[str, int], n_updates: int) -> list[str]:
    """Say so where more than one weight update in a hundred was undone."""
    undone = guards["weights_undone"]
    if undone <= 0.01 * n_updates:
        return []
    return [
        f"{undone / n_updates:.1%} of the weight updates were undone: "
        "look for extreme values in the table, or use fewer layers"
    ]


def check_gamma(name: str, value: Any) -> None:
    """Raise ValueError unless value is the shape and rate of a Gamma with a mean variance."""
    try:
        shape, rate = (float(number) for number in value)
    except (TypeError, ValueError):
        shape = rate = float("nan")
    if not (1.0 < shape < float("inf") and 0.0 < rate < float("inf")):
        raise ValueError(f"{name} must be (shape > 1, rate > 0), got {value!r}")
