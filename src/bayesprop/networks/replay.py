"""A network that learns row by row: a fold of gradient steps on rows drawn from the last ones.

Blundell et al. (2015), section 5.3: 64 steps of 64 rows a new row, drawn with replacement from the
last 4096. A state goes in with new rows and comes out; inputs and targets are taken as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from bayesprop.networks import draws
from bayesprop.networks.gradient_method import GradientMethod
from bayesprop.networks.likelihoods import GaussianNoise
from bayesprop.networks.mlp import Activation, plain_activation
from bayesprop.networks.training import NetworkState, TrainedNetwork
from bayesprop.numerics.filling import padded
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.loops import Update, replay
from bayesprop.numerics.machine import WIDE_VECTORS, random_key
from bayesprop.numerics.rows import Rows


class ReplayState(NamedTuple):
    """A network and the last rows, on the device, at the places of a ring.

    n_seen, n_undone
        Rows that came so far, and times of practice that left the finite numbers and were undone.
    """

    network: NetworkState
    x: Float[Array, "m d"]
    y: Float[Array, "m 1"]
    n_seen: int
    n_undone: Int[Array, ""]

    @property
    def n_rows(self) -> int:
        """Rows that are remembered."""
        return min(self.n_seen, len(self.y))

    def validate(self) -> None:
        """Raise ValueError where so many rows cannot have come."""
        if self.n_seen < 0:
            raise ValueError("there cannot be fewer rows than none")


class LastLayer(NamedTuple):
    """Last hidden layer of a network, and the standard deviation of the noise that it expects."""

    features: Float[np.ndarray, "n h"]
    noise_std: Float[np.ndarray, " n"]


@dataclass(frozen=True)
class Replay:
    """A fold over a network of one target whose posterior gradient steps alone make.

    method
        Its n_epochs and batch_size are not used.
    buffer_size
        Rows remembered.
    n_steps, batch_size
        Gradient steps at a time, and rows of each, drawn with replacement.
    every
        Rows between two times of practice.
    """

    method: TrainedNetwork
    buffer_size: int = 4096
    n_steps: int = 64
    batch_size: int = 64
    every: int = 1

    def start(self, seed: int) -> ReplayState:
        """Draw the start of the network; no row has come."""
        x, y = self._memory()
        return ReplayState(self.method.start(seed), x, y, 0, jnp.zeros((), jnp.int32))

    def absorb(
        self, state: ReplayState, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]
    ) -> ReplayState:
        """Remember float32 rows in the places of the oldest, and practise for every `every` rows.

        The memory of the state given is written over: use only the one returned.
        """
        size, n_seen = self.buffer_size, state.n_seen + len(x)
        places = np.arange(state.n_seen, n_seen)[-size:] % size
        kept_x, kept_y = _written(state.x, state.y, places, x[-size:], y[-size:, None])
        after = state._replace(x=kept_x, y=kept_y, n_seen=n_seen)
        for time in range(state.n_seen // self.every, n_seen // self.every):
            after = self._practised(after, time)
        return after

    def _practised(self, state: ReplayState, time: int) -> ReplayState:
        """Take steps on rows drawn from the memory; another time draws others."""
        at = np.array([state.network.seed, time, state.n_rows], np.uint32)
        network, is_undone = _practised(
            self.method.gradient.update,
            state.network.network,
            at,
            state.x,
            state.y,
            n_steps=self.n_steps,
            batch_size=self.batch_size,
        )
        n_undone = state.n_undone + is_undone
        return state._replace(network=state.network._replace(network=network), n_undone=n_undone)

    def draw(
        self, state: ReplayState, x: Float[np.ndarray, "k d"], seed: int, n_draws: int
    ) -> Float[np.ndarray, "s k"]:
        """Evaluate n_draws networks drawn from the posterior, the same ones at every row."""
        rows, network = np.asarray(x, np.float32), state.network.network
        drawn = _functions(self.method.gradient, np.uint32(seed), network, rows, n_draws=n_draws)
        return np.asarray(drawn, np.float64)

    def last_layer(self, state: ReplayState, x: Float[Array, "n d"] | np.ndarray) -> LastLayer:
        """Evaluate the last hidden layer, and the noise, of a point network's only member."""
        rows = jnp.asarray(padded(x) if isinstance(x, np.ndarray) else x, jnp.float32)
        layer = _last_layer(self.method.gradient, state.network.network, rows)
        return LastLayer(*(np.asarray(part, np.float64)[: len(x)] for part in layer))

    @property
    def state_kind(self) -> ReplayState:
        """A state of the shapes of network and memory, by which a file is read."""
        (x, y), count = jax.eval_shape(self._memory), jnp.zeros((), jnp.int32)
        return ReplayState(self.method.state_kind, x, y, 0, count)

    def _memory(self) -> tuple[Array, Array]:
        size = self.buffer_size
        return jnp.zeros((size, self.method.sizes[0])), jnp.zeros((size, 1))


@partial(jax.jit, donate_argnums=(0, 1))
def _written(
    x: Array, y: Array, places: np.ndarray, new_x: np.ndarray, new_y: np.ndarray
) -> tuple[Array, Array]:
    return x.at[places].set(new_x), y.at[places].set(new_y)


@partial(
    jax.jit, static_argnames=("update", "n_steps", "batch_size"), compiler_options=WIDE_VECTORS
)
def _practised(
    update: Update,
    state: PyTree,
    at: np.ndarray,
    x: Array,
    y: Array,
    *,
    n_steps: int,
    batch_size: int,
) -> tuple[PyTree, Bool[Array, ""]]:
    """Make the key inside: to do it outside costs as much as several steps."""
    key = jax.random.fold_in(random_key(at[0]), at[1])
    n_rows = jnp.asarray(at[2], jnp.int32)
    return replay(update, state, key, Rows(x, y), n_rows, n_steps=n_steps, batch_size=batch_size)


@partial(jax.jit, static_argnames=("method", "n_draws"))
def _functions(
    method: GradientMethod, seed: np.uint32, state: PyTree, x: np.ndarray, *, n_draws: int
) -> Float[Array, "s k"]:
    drawn = draws.predict_draws(method, random_key(seed), state, jnp.asarray(x), n_draws=n_draws)
    return cast(Gaussian, drawn).m[..., 0]


@partial(jax.jit, static_argnames="method")
def _last_layer(method: GradientMethod, state: PyTree, x: Array) -> tuple[Array, Array]:
    nonlinearity = cast(Activation, plain_activation(method.apply))
    only = jax.tree.map(lambda members: members[0], method.mean(state))
    *hidden, last = only.weights
    for weights in hidden:
        x = nonlinearity.apply(x @ weights[:-1] + weights[-1:])
    outputs = x @ last[:-1] + last[-1:]
    noise_var = cast(GaussianNoise, method.likelihood).observe(only.likelihood, outputs).v
    return x, jnp.sqrt(noise_var[:, 0])
