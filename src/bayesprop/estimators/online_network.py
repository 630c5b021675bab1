"""A network regressor that is taught step by step from a memory of rows, instead of by `fit`.

For bandits: `begun` makes an unfitted regressor stand at the start of its training, in units that
are given instead of learnt from rows; `Memory` keeps the last rows on the device; `practise` takes
gradient steps on rows drawn from it, in one compiled call.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from sklearn.base import clone

from bayesprop.estimators.point_network import PointNetworkRegressor
from bayesprop.estimators.shell import RegressorBase
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import Learned
from bayesprop.model.task import Numbers, Standardiser
from bayesprop.networks import draws
from bayesprop.networks.gradient_method import Apply
from bayesprop.networks.likelihoods import GaussianNoise
from bayesprop.networks.mlp import Activation, plain_activation
from bayesprop.networks.training import TrainedNetwork
from bayesprop.numerics.forks import random_key
from bayesprop.numerics.loops import Replayed, replay
from bayesprop.numerics.machine import WIDE_VECTORS
from bayesprop.numerics.rows import Rows
from bayesprop.targets.bijectors import NUMBERS


def can_practise(model: Any) -> bool:
    """Whether an estimator is a regressor whose network gradient steps train."""
    is_network = issubclass(getattr(model, "method_class", object), TrainedNetwork)
    return is_network and isinstance(model, RegressorBase)


def begun(model: Any, n_features: int, *, y_scale: float, seed: int) -> Any:
    """Return a copy that has seen no row: its network and posterior as training begins.

    Inputs are taken as they are; targets are divided by `y_scale`, and a `noise` given as a number
    is in the units of the targets, squared.
    """
    fresh: Any = clone(model)
    fresh.check_params()
    if fresh.target_kind != NUMBERS:
        raise ValueError(
            f"target_kind must be {NUMBERS!r} for a network that is taught from a memory, because "
            f"no rows are there to learn a map from; got {fresh.target_kind!r}"
        )
    one = np.ones(1)
    fresh.n_features_in_ = n_features
    fresh.x_scaler_ = Standardiser.none(n_features)
    fresh.task_ = Numbers(Standardiser(one, np.zeros(1), float(y_scale) * one), True)
    start = fresh.build_method(fresh.task_, n_features).start(seed)
    fresh.learned_ = Learned(start, FitReport(0, 0, 0.0, 0, {}, {}), 0)
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
    size, n_seen = len(memory.y), memory.n_seen + len(x)
    places = np.arange(memory.n_seen, n_seen)[-size:] % size
    kept_x, kept_y = _written(memory.x, memory.y, places, x[-size:], y[-size:])
    return Memory(kept_x, kept_y, n_seen)


@partial(jax.jit, donate_argnums=(0, 1))
def _written(x: Array, y: Array, places: Any, new_x: Any, new_y: Any) -> tuple[Array, Array]:
    return x.at[places].set(new_x), y.at[places].set(new_y)


def practise(
    model: Any, memory: Memory, place: int, *, n_steps: int, batch_size: int
) -> Bool[Array, ""]:
    """Take steps on rows drawn from the memory; return whether they were undone as not finite.

    place
        Number of this practice: another one takes other rows and draws.
    """
    state = model.state_
    at = np.array([state.seed, place, memory.n_rows], np.uint32)
    update = model.fitted_.method.built.gradient.update
    done = _practised(
        update, state.network, at, memory.x, memory.y, n_steps=n_steps, batch_size=batch_size
    )
    model.learned_ = model.learned_._replace(state=state._replace(network=done.state))
    return done.is_undone


@partial(
    jax.jit, static_argnames=("update", "n_steps", "batch_size"), compiler_options=WIDE_VECTORS
)
def _practised(
    update: Any, state: Any, at: Any, x: Array, y: Array, *, n_steps: int, batch_size: int
) -> Replayed:
    """Make the key inside: to do it outside costs as much as several steps."""
    key = jax.random.fold_in(random_key(at[0]), at[1])
    rows, n_rows = Rows(x, y, jnp.ones(len(y))), at[2].astype(jnp.int32)
    return replay(update, state, key, rows, n_rows, n_steps=n_steps, batch_size=batch_size)


def functions(
    model: Any, x: Float[np.ndarray, "k d"], seed: int, n_draws: int
) -> Float[np.ndarray, "s k"]:
    """Draw functions, in the units of the targets; the same for every row."""
    built, state = model.fitted_.method.built, model.state_.network
    parts = (built.apply, built.gradient.sample, cast(GaussianNoise, built.likelihood))
    rows = np.asarray(x, np.float32)
    drawn = _functions(*parts, np.uint32(seed), state, rows, n_draws=n_draws)
    return model.y_scaler_.inverse_mean(np.asarray(drawn, np.float64)[..., None])[..., 0]


@partial(jax.jit, static_argnames=("apply", "sample", "likelihood", "n_draws"))
def _functions(
    apply: Apply, sample: Any, likelihood: Any, seed: Any, state: Any, x: Array, *, n_draws: int
) -> Float[Array, "s k"]:
    key = random_key(seed)
    return draws.observations(apply, sample, likelihood, key, state, x, n_draws=n_draws).m[..., 0]


class Seen(NamedTuple):
    """What a network makes of rows: its last hidden layer, and the noise's standard deviation."""

    features: Float[np.ndarray, "n h"]
    noise_std: Float[np.ndarray, " n"]


def seen(model: PointNetworkRegressor, x: Float[Array, "n d"]) -> Seen:
    """Look at rows through a point network's only member; standardised units."""
    method = cast(TrainedNetwork, model.fitted_.method)
    built, state = method.built, model.state_.network
    likelihood = cast(GaussianNoise, built.likelihood)
    found = _seen(built.gradient.mean, built.apply, likelihood, state, x)
    return Seen(*(np.asarray(part, np.float64) for part in found))


@partial(jax.jit, static_argnames=("mean", "apply", "likelihood"))
def _seen(mean: Any, apply: Apply, likelihood: Any, state: Any, x: Array) -> tuple[Array, Array]:
    nonlinearity = cast(Activation, plain_activation(apply))
    only = jax.tree.map(lambda members: members[0], mean(state))
    *hidden, last = only.weights
    for weights in hidden:
        x = nonlinearity.apply(x @ weights[:-1] + weights[-1:])
    noise_var = likelihood.observe(only.likelihood, x @ last[:-1] + last[-1:]).v
    return x, jnp.sqrt(noise_var[:, 0])
