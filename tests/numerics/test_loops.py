"""The loop over mini-batches: every row once an epoch, padding without weight, fresh keys."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesprop.numerics import loops
from bayesprop.numerics.filling import filled
from bayesprop.numerics.rows import Rows


class Seen(NamedTuple):
    rows: jax.Array
    weight: jax.Array
    n_total: jax.Array
    place: jax.Array
    key: jax.Array


def watch(key, state, batch):
    """Count the batches, and report each of them through a history of fixed size."""
    at = batch.place
    n = batch.x.shape[0]
    history = Seen(
        state.rows.at[at].set(batch.x[:, 0]),
        state.weight.at[at].set(batch.weight),
        state.n_total.at[at].set(batch.n_total),
        state.place.at[at].set(at + 100 * batch.n_batches),
        state.key.at[at].set(jax.random.bits(key, (), jnp.uint32)),
    )
    return history, {"first": batch.x[0, 0], "size": jnp.float32(n)}


def nothing_seen(count, batch_size):
    each = jnp.full((count, batch_size), -1.0)
    whole = jnp.zeros(count, jnp.int32), jnp.zeros(count, jnp.uint32)
    return Seen(each, jnp.zeros_like(each), jnp.zeros(count), *whole)


def run(n, batch_size, weight=None, seed=0, n_slots=None):
    data = Rows(
        np.arange(n, dtype=np.float32)[:, None],
        {"a": np.arange(n)},
        np.ones(n, np.float32) if weight is None else np.asarray(weight, np.float32),
    )
    if n_slots is not None:
        data = filled(data, n_slots)._replace(x=jnp.arange(n_slots, dtype=jnp.float32)[:, None])
    count = -(-n // batch_size)
    empty = nothing_seen(count, batch_size)
    n_rows = None if n_slots is None else n
    key = jax.random.key(seed)
    seen, info = loops.epoch(watch, empty, key, data, n_rows, batch_size=batch_size)
    return jax.tree.map(np.asarray, seen), info


@pytest.mark.parametrize(("n", "batch_size"), [(10, 3), (12, 4), (5, 5), (3, 7), (1, 1), (7, 1)])
def test_every_row_once_and_padding_without_weight(n, batch_size):
    seen, _ = run(n, batch_size)
    real = seen.rows[seen.weight > 0.0]
    np.testing.assert_array_equal(np.sort(real), np.arange(n))
    assert (seen.rows >= 0.0).all()
    count = -(-n // batch_size)
    assert seen.rows.shape[0] == count == loops.count_batches(n, batch_size)
    assert (seen.weight[:-1] > 0.0).all()
    assert (seen.weight[-1] > 0.0).sum() == n - (count - 1) * batch_size
    np.testing.assert_array_equal(seen.place, np.arange(count) + 100 * count)


def test_epochs_differ_and_the_same_key_repeats():
    first, again, other = run(20, 6), run(20, 6), run(20, 6, seed=1)
    np.testing.assert_array_equal(first[0].rows, again[0].rows)
    np.testing.assert_array_equal(first[0].key, again[0].key)
    assert (first[0].rows != other[0].rows).any()
    assert len(set(first[0].key.tolist())) == len(first[0].key)


@pytest.mark.parametrize("n", [1, 2, 5, 100, 1625, 1626, 3000])
def test_an_order_is_that_of_jax_however_much_room_there_is(n):
    key = jax.random.key(n)
    for n_slots in (n, n + 1, 4096):
        order = np.asarray(loops.permutation(key, n, n_slots))
        np.testing.assert_array_equal(order[:n], jax.random.permutation(key, n))
        np.testing.assert_array_equal(order[n:], np.arange(n, n_slots))


@pytest.mark.parametrize(("n", "batch_size"), [(10, 3), (12, 4), (5, 5), (3, 7), (1, 1)])
def test_rows_that_fill_a_table_up_change_nothing_and_compile_nothing(n, batch_size):
    weight = np.random.default_rng(n).uniform(0.5, 2.0, n)
    wanted, info = run(n, batch_size, weight)
    seen, filled_info = run(n, batch_size, weight, n_slots=32)
    np.testing.assert_allclose(seen.n_total, weight.sum(), rtol=1e-6)
    alike = seen._replace(n_total=wanted.n_total)
    jax.tree.map(np.testing.assert_array_equal, alike, wanted)
    assert filled_info == info


def replayed(n_rows, *, key=0, spoil=-1, n_steps=60, batch_size=8):
    """Replay the first of ten rows; at one step the state may be spoilt."""
    empty = nothing_seen(n_steps, batch_size)._replace(place=jnp.zeros(n_steps))
    rows = Rows(jnp.arange(10.0)[:, None], {"a": jnp.arange(10.0)}, jnp.ones(10))

    def update(key, state, batch):
        history, info = watch(key, state[1], batch)
        gap = jnp.sum((batch.x[:, 0] - batch.y["a"]) ** 2)
        spoilt = jnp.where(batch.place == state[0], jnp.nan, gap)
        return (state[0], history._replace(weight=history.weight + spoilt)), info

    args = jax.random.key(key), rows, jnp.asarray(n_rows)
    start = (jnp.asarray(spoil), empty)
    return loops.replay(update, start, *args, n_steps=n_steps, batch_size=batch_size)


def test_replay_draws_evenly_from_the_first_rows_alone():
    (_, seen), is_undone = replayed(6)
    seen = jax.tree.map(np.asarray, seen)
    assert not is_undone
    shares = np.bincount(seen.rows.astype(int).ravel(), minlength=10) / 480
    assert (shares[6:] == 0.0).all()
    assert (np.abs(shares[:6] - 1 / 6) < 4.0 * np.sqrt(1 / 6 * 5 / 6 / 480)).all()
    assert (seen.weight == 1.0).all()
    assert (seen.n_total == 6.0).all()
    np.testing.assert_allclose(seen.place, np.arange(60) + 100 * 6 / 8, rtol=1e-6)
    assert len(set(seen.key.tolist())) == 60
    np.testing.assert_array_equal(seen.rows, replayed(6)[0][1].rows)
    assert (seen.rows != np.asarray(replayed(6, key=1)[0][1].rows)).any()


def test_replay_undoes_steps_that_leave_the_finite_numbers():
    (_, seen), is_undone = replayed(6, spoil=40)
    assert is_undone
    jax.tree.map(np.testing.assert_array_equal, seen, nothing_seen(60, 8))
