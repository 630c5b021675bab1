"""Training loops that stay on the device: one jitted scan over the mini-batches of an epoch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from bayesprop.numerics.threefry import unrolled


class Batch(NamedTuple):
    """Some rows of a data set, and their place in the epoch.

    x, y
        Rows, first axis b.
    weight
        Weight of every row; 0 for the padding of the last batch. (b,)
    place, n_batches
        Which batch of the epoch this is, from 0, and how many there are; of batches drawn with
        replacement a share may be left over.
    n_total
        Sum of the weights of all rows: what the batch stands for.
    """

    x: Float[Array, "b ..."]
    y: Any
    weight: Float[Array, " b"]
    place: Int[Array, ""]
    n_batches: int | Float[Array, ""]
    n_total: Float[Array, ""]


class Rows(NamedTuple):
    """A data set on the device; `weight` is one for every row unless the user weighted them."""

    x: Float[Array, "n ..."]
    y: Any
    weight: Float[Array, " n"]


Update = Callable[[Any, Any, Batch], tuple[Any, Any]]


class _Order(NamedTuple):
    rows: Int[Array, "c b"]
    is_real: Bool[Array, "c b"]


def count_batches(n_rows: int, batch_size: int) -> int:
    """Count the batches of an epoch; the last one may be short."""
    return -(-n_rows // batch_size)


def shuffled(key: PRNGKeyArray, n_rows: int, batch_size: int) -> _Order:
    """Partition all rows at random into batches; padding repeats rows and is marked not real."""
    count = count_batches(n_rows, batch_size)
    order = jax.random.permutation(key, n_rows)
    slot = jnp.arange(count * batch_size)
    rows = order[slot % n_rows].reshape(count, batch_size)
    return _Order(rows, (slot < n_rows).reshape(count, batch_size))


@partial(jax.jit, static_argnames=("update", "batch_size"))
def epoch(
    update: Update, state: Any, key: PRNGKeyArray, data: Rows, *, batch_size: int
) -> tuple[Any, Any]:
    """Visit every row once, in random batches; return the state and the mean info of the batches.

    update
        (key, state, batch) -> (state, info); a pure function whose identity keys the compilation:
        build it once for one configuration.
    """
    n_rows = data.weight.shape[0]
    key_order, key_steps = jax.random.split(key)
    order = shuffled(key_order, n_rows, batch_size)
    count = count_batches(n_rows, batch_size)
    n_total = jnp.sum(data.weight)

    def step(state: Any, at: tuple[Array, Array, Array]) -> tuple[Any, Any]:
        place, rows, is_real = at
        batch = Batch(
            x=data.x[rows],
            y=jax.tree.map(lambda y: y[rows], data.y),
            weight=jnp.where(is_real, data.weight[rows], 0.0),
            place=place,
            n_batches=count,
            n_total=n_total,
        )
        return update(jax.random.fold_in(key_steps, place), state, batch)

    places = (jnp.arange(count), order.rows, order.is_real)
    state, infos = jax.lax.scan(step, state, places)
    return state, jax.tree.map(jnp.mean, infos)


class Plan(NamedTuple):
    """What the steps of a `replay` see: row numbers, and a key each."""

    rows: Int[Array, "t b"]
    keys: PRNGKeyArray


def plan_replay(
    key: PRNGKeyArray, n_rows: Int[Array, ""], *, n_steps: int, batch_size: int
) -> Plan:
    """Say beforehand which rows and keys `replay` would take."""

    def step(keys: PRNGKeyArray, _: None) -> tuple[PRNGKeyArray, PRNGKeyArray]:
        return jax.random.split(keys[0], 3), keys[1:]

    _, keys = jax.lax.scan(step, jax.random.split(unrolled(key), 3), None, n_steps)
    rows = jax.vmap(lambda key: jax.random.randint(key, (batch_size,), 0, n_rows))(keys[:, 0])
    return Plan(rows, keys[:, 1])


class Replayed(NamedTuple):
    """The state after some steps, the mean info of them, and whether they were undone."""

    state: Any
    info: Any
    is_undone: Bool[Array, ""]


@partial(jax.jit, static_argnames=("update", "n_steps", "batch_size"))
def replay(
    update: Update,
    state: Any,
    key: PRNGKeyArray,
    data: Rows,
    n_rows: Int[Array, ""],
    *,
    n_steps: int,
    batch_size: int,
) -> Replayed:
    """Take n_steps, each on a batch drawn with replacement from the first n_rows rows.

    Every batch stands for those n_rows, whose weights must be one. Steps that leave the finite
    numbers are undone, all of them.
    """
    n_total = n_rows.astype(jnp.float32)

    def step(at: tuple[Any, PRNGKeyArray], place: Int[Array, ""]) -> tuple[Any, Any]:
        state, (key, key_rows, key_step) = at
        rows = jax.random.randint(key_rows, (batch_size,), 0, n_rows)
        batch = Batch(
            x=data.x[rows],
            y=jax.tree.map(lambda y: y[rows], data.y),
            weight=data.weight[rows],
            place=place,
            n_batches=n_total / batch_size,
            n_total=n_total,
        )
        state, info = update(key_step, state, batch)
        return (state, jax.random.split(key, 3)), info

    start = (state, jax.random.split(unrolled(key), 3))
    (after, _), infos = jax.lax.scan(step, start, jnp.arange(n_steps))
    finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(after)]
    is_finite = jnp.all(jnp.stack(finite))
    kept = jax.tree.map(lambda new, old: jnp.where(is_finite, new, old), after, state)
    return Replayed(kept, jax.tree.map(jnp.mean, infos), ~is_finite)
