"""Training loops that stay on the device: one jitted loop over the mini-batches of an epoch.

`with jax.set_mesh(mesh): model.fit(X, y)` trains on all devices of a mesh: XLA partitions the step
and sums the gradients. Every device holds the table, the weights and the optimiser's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from bayesprop.numerics.machine import check_not_forked
from bayesprop.numerics.rows import Rows

N = TypeVar("N", int, Array, int | Array)
_ROWS_A_SORT = (2.0**32 - 1.0) ** (1.0 / 3.0)
"""A sort by 32 random bits shuffles so many rows: with more, ties would be felt (as in JAX)."""


def is_meshed() -> bool:
    """Whether a mesh of devices is in force."""
    return not jax.sharding.get_abstract_mesh().empty


@contextmanager
def partitioned_by_xla() -> Iterator[None]:
    """Leave it to XLA how the mesh in force is used, whatever its axes say; nothing without one.

    An axis of type `Explicit`, as `jax.make_mesh` gives it, asks for a sharding at every operation.
    """
    check_not_forked("JAX")
    mesh = jax.sharding.get_mesh()
    if mesh.empty:
        yield
        return
    with jax.set_mesh(mesh.update(axis_types=(AxisType.Auto,) * len(mesh.axis_names))):
        yield


def dealt_out(tree: PyTree) -> PyTree:
    """Deal the first axis of every array out over all devices of the mesh in force; in `jit`.

    Devices have shares of one size, filled up where it does not divide.
    """
    if not is_meshed():
        return tree
    rows = PartitionSpec(jax.sharding.get_abstract_mesh().axis_names)
    return jax.lax.with_sharding_constraint(tree, rows)


def gathered(tree: PyTree) -> PyTree:
    """Bring arrays back from the devices where a mesh is in force, to NumPy: free of any mesh."""
    return jax.tree.map(np.asarray, tree) if is_meshed() else tree


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
    y: Array
    weight: Float[Array, " b"]
    place: Int[Array, ""]
    n_batches: int | Int[Array, ""] | Float[Array, ""]
    n_total: Float[Array, ""]


Update = Callable[[PRNGKeyArray, PyTree, Batch], tuple[PyTree, PyTree]]
"""(key, state, batch) -> (state, info)."""


def count_batches(n_rows: N, batch_size: int) -> N:
    """Count the batches of an epoch; the last one may be short."""
    return (n_rows + batch_size - 1) // batch_size


def permutation(
    key: PRNGKeyArray, n_rows: int | Int[Array, ""], n_slots: int
) -> Int[Array, " n_slots"]:
    """Put 0 to n_rows - 1 in random order, and the numbers from there to n_slots after them.

    The order is that of `jax.random.permutation(key, n_rows)` whatever n_slots is, because JAX's
    default generator gives the same first bits however many are asked for.
    """
    slots = order = jnp.arange(n_slots)
    reach = 1.0
    while reach < n_slots:
        key, key_sort = jax.random.split(key)
        bits = jax.random.bits(key_sort, (n_slots,), jnp.uint32)
        last = jnp.where(slots < n_rows, bits, np.uint32(2**32 - 1))
        _, sorted_again = jax.lax.sort_key_val(last, order)
        order = jnp.where(n_rows > reach, sorted_again, order)
        reach *= _ROWS_A_SORT
    return order


def shuffled(
    key: PRNGKeyArray, n_rows: int | Int[Array, ""], batch_size: int, n_slots: int
) -> tuple[Int[Array, "c b"], Bool[Array, "c b"]]:
    """Partition all rows at random into batches; padding repeats rows and is marked not real.

    n_slots
        Room for how many rows: batches beyond `count_batches(n_rows, batch_size)` are all padding.
    """
    order = permutation(key, n_rows, n_slots)
    count = count_batches(n_slots, batch_size)
    slot = jnp.arange(count * batch_size)
    rows = order[slot % n_rows].reshape(count, batch_size)
    return rows, (slot < n_rows).reshape(count, batch_size)


@partial(jax.jit, static_argnames=("update", "batch_size"))
def epoch(
    update: Update,
    state: PyTree,
    key: PRNGKeyArray,
    data: Rows,
    n_rows: int | Int[Array, ""] | None = None,
    *,
    batch_size: int,
) -> tuple[PyTree, PyTree]:
    """Visit every row once, in random batches; return the state and the mean info of the batches.

    update
        A pure function whose identity keys the compilation: build it once for one configuration.
    n_rows
        How many rows there are, the first ones; the others only fill `data` up, are never visited
        and change nothing. None: all of them.
    """
    columns = jax.tree.map(jnp.asarray, (data.x, data.y, data.weights))
    n_slots = len(data.x)
    n_rows = n_slots if n_rows is None else n_rows
    key_order, key_steps = jax.random.split(key)
    order, is_real = shuffled(key_order, n_rows, batch_size, n_slots)
    count = count_batches(n_rows, batch_size)
    n_total = jnp.sum(data.weights)

    def step(place: Array, state: PyTree) -> tuple[PyTree, PyTree]:
        x, y, weight = jax.tree.map(lambda column: column[order[place]], columns)
        x, y, weight = dealt_out((x, y, jnp.where(is_real[place], weight, 0.0)))
        batch = Batch(x, y, weight, place, count, n_total)
        return update(jax.random.fold_in(key_steps, place), state, batch)

    def add(place: Array, sums: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        state, total = sums
        state, info = step(place, state)
        return state, jax.tree.map(jnp.add, total, info)

    _, info = jax.eval_shape(step, jnp.zeros((), int), state)
    nothing = jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), info)
    state, total = jax.lax.fori_loop(0, count, add, (state, nothing))
    return state, jax.tree.map(lambda one: jnp.mean(one) / count, total)


def once_an_epoch(batch: Batch, value: Callable[[], Float[Array, ""]]) -> Float[Array, ""]:
    """Report a costly number at the first batch, as often as there are batches, and 0 elsewhere.

    The mean over the epoch is then right. Compute it from the state after the step: what reads the
    state before it makes XLA copy the weights, every batch.
    """
    return jax.lax.cond(batch.place == 0, lambda: batch.n_batches * value(), lambda: jnp.zeros(()))


@partial(jax.jit, static_argnames=("update", "n_steps", "batch_size"))
def replay(
    update: Update,
    state: PyTree,
    key: PRNGKeyArray,
    data: Rows,
    n_rows: Int[Array, ""],
    *,
    n_steps: int,
    batch_size: int,
) -> tuple[PyTree, Bool[Array, ""]]:
    """Take n_steps, each on a batch drawn with replacement from the first n_rows rows.

    Every batch stands for those n_rows, whose weights must be one. Steps that leave the finite
    numbers are undone, all of them; also returns whether they were.
    """
    columns = jax.tree.map(jnp.asarray, (data.x, data.y, data.weights))
    n_total = n_rows.astype(jnp.float32)

    def step(at: tuple[PyTree, PRNGKeyArray], place: Int[Array, ""]) -> tuple[PyTree, None]:
        state, (key, key_rows, key_step) = at
        rows = jax.random.randint(key_rows, (batch_size,), 0, n_rows)
        x, y, weight = jax.tree.map(lambda column: column[rows], columns)
        batch = Batch(x, y, weight, place, n_total / batch_size, n_total)
        state, _ = update(key_step, state, batch)
        return (state, jax.random.split(key, 3)), None

    start = (state, jax.random.split(key, 3))
    (after, _), _ = jax.lax.scan(step, start, jnp.arange(n_steps))
    finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(after)]
    is_finite = jnp.all(jnp.stack(finite))
    kept = jax.tree.map(lambda new, old: jnp.where(is_finite, new, old), after, state)
    return kept, ~is_finite
