"""Steps of Bayes by Backprop on rows of a memory, by compiled loops where they know the settings.

They draw what JAX draws, by the same keys, and come to what `numerics.loops.replay` comes to but
for rounding, in a third of the time. `Steps` says which settings they know.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Float32, Int, Int64, PRNGKeyArray

from bayesprop.model.mean_field import MeanField
from bayesprop.model.priors import NormalPrior, Prior, ScaleMixturePrior
from bayesprop.numerics.fast_normal import count_pairs, words_of
from bayesprop.numerics.loops import plan_replay
from bayesprop.sampling.bayes_by_backprop import (
    BayesByBackpropState,
    KLWeights,
    Params,
    kl_share,
)
from bayesprop.sampling.kernel_bayes_by_backprop import (
    LANES,
    MEAN,
    MEAN_SLOPE,
    MEAN_SQUARE,
    N_NUMBERS,
    PIECE,
    RHO,
    RHO_SLOPE,
    RHO_SQUARE,
    Rules,
    Work,
    advance,
)

Vector = Float32[np.ndarray, " p"]
LEAKS = {"relu": 0.0, "leaky_relu": 0.01, "identity": 1.0}
"""Activations that the loops know, and their slopes below zero."""
_KEPT = MEAN, MEAN_SLOPE, MEAN_SQUARE, RHO, RHO_SLOPE, RHO_SQUARE


class Steps(NamedTuple):
    """Settings of steps: one draw each, weights drawn and not activations, optax.adam.

    activation
        One of `LEAKS`.
    noise_var
        Of Gaussian targets, known (standardised units).
    prior
        Normal, with its KL in closed form, or a scale mixture, with a sampled KL.
    """

    activation: str
    noise_var: float
    prior: NormalPrior | ScaleMixturePrior
    kl_weights: KLWeights
    learning_rate: float

    def rules(self) -> Rules:
        """Return what the loops need of these."""
        wide_prec, sharper, log_odds = _pulls(self.prior)
        return Rules(
            step_size=float(self.learning_rate),
            noise_prec=1.0 / float(self.noise_var),
            leak=LEAKS[self.activation],
            is_mixture=int(isinstance(self.prior, ScaleMixturePrior)),
            wide_prec=wide_prec,
            sharper=sharper,
            log_odds=log_odds,
        )


def _pulls(prior: Prior) -> tuple[float, float, float]:
    if isinstance(prior, NormalPrior):
        return 1.0 / float(prior.weight_var), 0.0, 0.0
    mixture = cast(ScaleMixturePrior, prior)
    share, wide, narrow = map(float, (mixture.share, mixture.wide_std, mixture.narrow_std))
    sharper = 0.5 * (1.0 / narrow**2 - 1.0 / wide**2)
    return 1.0 / wide**2, sharper, math.log(share / (1.0 - share) * narrow / wide)


class Replayed(NamedTuple):
    """The state after some steps, and whether they were undone as not finite."""

    state: BayesByBackpropState
    is_undone: bool


class Flat(NamedTuple):
    """All numbers of a state as vectors of one order, and the steps of Adam that were taken."""

    mean: Vector
    mean_slope: Vector
    mean_square: Vector
    rho: Vector
    rho_slope: Vector
    rho_square: Vector
    n_steps: Int[Array, ""]


def replay(
    steps: Steps,
    state: BayesByBackpropState,
    key: tuple[int, int],
    x: Float[Array, "m d"],
    y: Float[Array, "m o"],
    n_rows: int,
    *,
    n_steps: int,
    batch_size: int,
) -> Replayed:
    """Take n_steps, each on a batch drawn with replacement from the first n_rows rows.

    As `numerics.loops.replay` with rows of weight one.

    key
        A seed, and a number to fold in.
    """
    at = np.array([*key, n_rows], np.uint32)
    plan = _plan(at, n_steps=n_steps, batch_size=batch_size, kl_weights=steps.kl_weights)
    flat = _flattened(state)
    work = workspace(_sizes(state), batch_size)
    for place, vector in zip(_KEPT, flat, strict=False):
        _put(work, place, np.asarray(vector))
    rows, words, shares = map(np.asarray, plan)
    batches = rows.astype(np.int64)
    keys = np.vstack([words, words[:1]]).astype(np.int64)  # the last draw is not used
    first = int(flat.n_steps)
    advance(
        work, steps.rules(), _seen(x), _seen(y), batches, keys, shares.astype(np.float64), first
    )
    n = sum(leaf.size for leaf in state.q.m)
    parts = [_taken(work, place, n) for place in _KEPT]
    if not all(np.isfinite(part).all() for part in parts):
        return Replayed(state, True)
    return Replayed(_rebuilt(state, Flat(*parts, np.int32(first + n_steps))), False)


def _by_32(work: Work) -> Float32[np.ndarray, "g k 32"]:
    return work.beliefs.reshape(-1, N_NUMBERS, 2 * LANES)


def _put(work: Work, place: int, vector: Vector) -> None:
    """Give numbers to all parameters."""
    numbers, n = _by_32(work)[:, place // (2 * LANES)], len(vector) // (2 * LANES)
    numbers[:n] = vector[: n * 2 * LANES].reshape(n, -1)
    rest = vector[n * 2 * LANES :]
    numbers[n, : len(rest)] = rest


def _taken(work: Work, place: int, n: int) -> Vector:
    """Undo `_put`."""
    return _by_32(work)[:, place // (2 * LANES)].ravel()[:n]


def _seen(array: Array) -> Float32[np.ndarray, "..."]:
    """Look at an array of the device without a copy; `np.asarray` would keep it from donation."""
    return np.from_dlpack(array)


def _sizes(state: BayesByBackpropState) -> tuple[int, ...]:
    return (state.q.m[0].shape[0] - 1, *(layer.shape[1] for layer in state.q.m))


@partial(jax.jit, static_argnames=("n_steps", "batch_size", "kl_weights"))
def _plan(
    at: Any, *, n_steps: int, batch_size: int, kl_weights: KLWeights
) -> tuple[Int[Array, "t b"], Any, Float[Array, " t"]]:
    """Rows, words of keys, and shares of the KL of all steps."""
    key, n_rows = jax.random.fold_in(jax.random.key(at[0]), at[1]), at[2].astype(jnp.int32)
    rows, keys = plan_replay(key, n_rows, n_steps=n_steps, batch_size=batch_size)
    n_batches = n_rows.astype(jnp.float32) / batch_size

    def share(place: Array) -> Array:
        return kl_share(kl_weights, place, n_batches)

    return rows, jax.vmap(words_of)(keys), jax.vmap(share)(jnp.arange(n_steps))


@jax.jit
def _flattened(state: BayesByBackpropState) -> Flat:
    adam = state.optimizer[0]

    def vector(tree: Any) -> Array:
        return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)])

    sides = (state.q, adam.mu.q, adam.nu.q)
    vectors = [vector(getattr(q, name)) for name in ("m", "rho") for q in sides]
    return Flat(*vectors, adam.count)


@jax.jit
def _rebuilt(like: BayesByBackpropState, flat: Flat) -> BayesByBackpropState:
    adam = like.optimizer[0]

    def tree(vector: Any) -> Any:
        leaves, structure = jax.tree.flatten(like.q.m)
        ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
        parts = jnp.split(vector, ends)
        shaped = [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
        return structure.unflatten(shaped)

    q, mu, nu = (
        MeanField(tree(flat[k]), tree(flat[3 + k])) for k in range(3)
    )
    moments = optax.ScaleByAdamState(
        flat.n_steps, Params(mu, like.likelihood), Params(nu, like.likelihood)
    )
    return BayesByBackpropState(q, like.likelihood, (moments, *like.optimizer[1:]))


def workspace(sizes: tuple[int, ...], batch_size: int) -> Work:
    """Make the arrays of a network of these sizes, inputs first and outputs last, all zeros."""
    layers, at, turned = [], 0, 0
    room = _Room(batch_size)
    room.take(0)
    for depth, (n_in, n_out) in enumerate(pairwise(sizes)):
        inputs, in_step = room.take(n_in + 1, ones=n_in) if depth else (0, 0)
        outputs, out_step = room.take(n_out + (depth < len(sizes) - 2))
        step = _up(n_in)
        layers.append([n_in, n_out, at, turned, step, inputs, in_step, outputs, out_step])
        at += (n_in + 1) * n_out
        turned += step * _up(n_out) if depth else 0
    n = 2 * count_pairs(at)
    behind = LANES * (max(sizes) + LANES)  # what tiles and blocks may read behind the last weight
    n_entries = batch_size * (sizes[0] + 1)
    return Work(
        beliefs=_zeros(N_NUMBERS * n),
        odds=_zeros(PIECE),
        weights=_zeros(n + behind),
        turned=_zeros(turned + behind),
        slopes=_zeros(n + LANES),
        room=room.filled(),
        index=np.zeros(n_entries + 1, np.int32),
        value=np.zeros(n_entries + 1, np.float32),
        counts=np.zeros(batch_size, np.int64),
        rows=np.zeros(n_entries, np.int32),
        values=np.zeros(n_entries, np.float32),
        lengths=np.zeros(sizes[0] + 1, np.int64),
        layers=np.array(layers),
    )


class _Room:
    """Hands out tables of a row for each row of a batch."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size, self.size = batch_size, 0
        self.ones: list[Int64[np.ndarray, " b"]] = []

    def take(self, n_columns: int, *, ones: int | None = None) -> tuple[int, int]:
        """Return place and step of a table; `ones` is the column of 1."""
        at, step = self.size, _up(n_columns)
        self.size += self.batch_size * step
        if ones is not None:
            self.ones.append(at + ones + step * np.arange(self.batch_size))
        return at, step

    def filled(self) -> Vector:
        """Make the array."""
        found = _zeros(self.size + LANES * LANES)
        for places in self.ones:
            found[places] = 1.0
        return found


def _up(n: int) -> int:
    """Round up to whole registers."""
    return -(-n // LANES) * LANES


def _zeros(size: int) -> Vector:
    """Return zeros that begin with a cache line, as all registers then do."""
    room = np.zeros(size + LANES, np.float32)
    start = -(room.ctypes.data // room.itemsize) % LANES
    return room[start : start + size]
