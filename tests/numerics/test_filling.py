"""Filling of tables: room for them, and rows of weight zero."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bayesprop.numerics.filling import blocks, filled, slots
from bayesprop.numerics.rows import Rows


def test_room_is_enough_and_little_more():
    n = np.unique(np.geomspace(1, 1e6, 2000).astype(int))
    room = np.array([slots(int(one)) for one in n])
    assert (np.diff(room) >= 0).all()
    assert (room >= n).all()
    assert (room < np.maximum(n + 64, 1.125 * n)).all()
    assert len(set(room[n > 1024].tolist())) <= 80  # eight a doubling


def test_room_in_blocks():
    assert [blocks(n) for n in (1, 16, 17)] == [16, 16, 32]
    assert blocks(65, 64) == 128


def test_filling_weighs_nothing_and_keeps_types():
    rows = Rows(np.ones((3, 2), "f4"), np.array([2, 1, 0], np.int32), np.full(3, 0.5, "f4"))
    found = filled(rows, 5)
    assert found.y.dtype == jnp.int32
    np.testing.assert_array_equal(found.x, [[1, 1]] * 3 + [[0, 0]] * 2)
    np.testing.assert_array_equal(found.y, [2, 1, 0, 0, 0])
    np.testing.assert_array_equal(found.weight, [0.5] * 3 + [0.0] * 2)
