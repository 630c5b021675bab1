"""A network regressor that is taught step by step from a memory of rows, instead of by `fit`.

For bandits: `begun` makes an unfitted regressor stand at the start of its training, in units that
are given instead of learnt from rows; `Memory` keeps the last rows on the device; `practise` takes
gradient steps on rows drawn from it, in one compiled call.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from sklearn.base import clone

from bayesprop.data.standardise import Standardiser
from bayesprop.estimators.network import NetworkRegressor
from bayesprop.model.fit_report import FitReport
from bayesprop.numerics.loops import Rows, replay


def begun(model: NetworkRegressor, n_features: int, *, y_scale: float, seed: int) -> Any:
    """Return a copy that has seen no row: its network and posterior as training begins.

    Inputs are taken as they are; targets are divided by `y_scale`, and a `noise` given as a number
    is in the units of the targets, squared.
    """
    fresh: Any = clone(model)
    fresh._check_hyper_parameters()
    fresh.n_features_in_, fresh.n_outputs_, fresh._y_is_vector = n_features, 1, True
    fresh.x_scaler_ = Standardiser.none(n_features)
    one = np.ones(1)
    fresh.y_scaler_ = Standardiser(one, np.zeros(1), float(y_scale) * one)
    fresh.seed_, fresh.n_iter_ = seed, 0
    fresh.fit_report_ = FitReport(0, 0, 0.0, 0, {}, {})
    fresh.state_ = fresh._initial_state(fresh._build())
    return fresh


class Memory(NamedTuple):
    """The last rows, standardised, at the places of a ring; n_seen rows came so far."""

    x: Float[Array, "m d"]
    y: Float[Array, "m 1"]
    n_seen: int

    @property
    def n_rows(self) -> int:
        """Rows that are there."""
        return min(self.n_seen, len(self.y))


def empty(size: int, n_features: int) -> Memory:
    """Return a memory for so many rows."""
    return Memory(jnp.zeros((size, n_features)), jnp.zeros((size, 1)), 0)


def remembered(memory: Memory, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n 1"]) -> Memory:
    """Put rows in the places of the oldest ones; the memory given must not be used again."""
    x, y = x[-len(memory.y) :], y[-len(memory.y) :]
    n_seen = memory.n_seen + len(x)
    places = np.arange(memory.n_seen, n_seen) % len(memory.y)
    kept_x, kept_y = _written(memory.x, memory.y, places, x, y)
    return Memory(kept_x, kept_y, n_seen)


@partial(jax.jit, donate_argnums=(0, 1))
def _written(x: Array, y: Array, places: Any, new_x: Any, new_y: Any) -> tuple[Array, Array]:
    return x.at[places].set(new_x), y.at[places].set(new_y)


def practise(
    model: Any, memory: Memory, key: PRNGKeyArray, *, n_steps: int, batch_size: int
) -> bool:
    """Take steps on rows drawn from the memory; return whether they were undone as not finite."""
    rows = Rows(memory.x, memory.y, jnp.ones(len(memory.y)))
    n_rows = jnp.asarray(memory.n_rows, jnp.int32)
    update = model._build().method.update
    done = replay(update, model.state_, key, rows, n_rows, n_steps=n_steps, batch_size=batch_size)
    model.state_ = done.state
    return bool(done.is_undone)


def functions(model: Any, x: Float[np.ndarray, "k d"], key: PRNGKeyArray, n_draws: int) -> Any:
    """Draw functions, in the units of the targets: (s, k)."""
    drawn = model._observations(np.asarray(x, np.float64), key, n_draws)
    return model.y_scaler_.inverse_mean(np.asarray(drawn.m, np.float64))[..., 0]
