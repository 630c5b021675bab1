"""Four times sixteen float32 as one value."""

from __future__ import annotations

import numpy as np

from bayesprop.simd.fours import four_of, load_four, plus_products, spread_four, store_four
from bayesprop.simd.lanes import compiled, load_floats


@compiled
def _products(x, values, at, step, out):
    """Write x times four numbers, then x times four rows of sixteen."""
    lanes = load_floats(x, 0)
    nothing = four_of(0.0 * lanes)
    store_four(out, 0, 16, plus_products(nothing, lanes, spread_four(values, at, step)))
    store_four(out, 64, 16, plus_products(nothing, lanes, load_four(values, at, step)))


def test_products_are_those_of_arrays():
    rng = np.random.default_rng(0)
    x, values = (rng.standard_normal(n).astype(np.float32) for n in (16, 200))
    out, at, step = np.zeros(128, np.float32), 3, 17
    _products(x, values, at, step, out)
    places = at + step * np.arange(4)
    spread, rows = values[places][:, None], values[places[:, None] + np.arange(16)]
    np.testing.assert_array_equal(out.reshape(2, 4, 16), [x * spread, x * rows])


@compiled
def _sums(x, values, n, out):
    """Add up n products of each of four with sixteen lanes."""
    sums = four_of(0.0 * load_floats(x, 0))
    for i in range(n):
        sums = plus_products(sums, load_floats(x, 16 * i), spread_four(values, 4 * i, 1))
    store_four(out, 0, 16, sums)


def test_sums_of_products_are_a_product_of_matrices():
    rng = np.random.default_rng(1)
    x, values = (rng.standard_normal((9, n)).astype(np.float32) for n in (16, 4))
    out = np.zeros((4, 16), np.float32)
    _sums(x.ravel(), values.ravel(), 9, out.ravel())
    np.testing.assert_allclose(out, values.T.astype(float) @ x.astype(float), rtol=1e-5, atol=1e-6)
