"""Forward and backward through layers of Gaussian weights, sixteen rows at a time.

Roth & Pernkopf (2016), eq. 7-11. A layer whose inputs have mean m, variance v and second moment
q = m² + v computes, with weights N(w, s) and biases N(b, t),

    m_a = sum w m + b        v_a = sum (s q + w² v) + t

so that, with G_m and G_v the slopes of the loss in m_a and v_a,

    of m: sum w G_m + 2 m sum s G_v        of v: sum (s + w²) G_v
    of w: sum_rows m G_m + 2 w sum_rows v G_v        of s: sum_rows q G_v

Every array of rows lies in blocks of sixteen rows; a block holds one row of sixteen lanes for each
unit, and rows for `PADDING` units more, whose numbers mean nothing. What a step needs, and where:

theta, derived
    Parameters, and in the same places the squares of weights and the variances.
gradient
    In the places of means the first sum of their slope, in those of log standard deviations the
    slope in the variance; behind all that, in the places of weights, the second sum.
room
    Everything that has to do with rows.
few
    Room for sixteen numbers.
layer
    A `Layer`; a network is those from `first` on that come before `end`.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from typing import NamedTuple

from bayesprop.simd.floats import relu_moments, soft_relu_moments, store_quarters, totals
from bayesprop.simd.fours import four_of, load_four, plus_products, spread_four, store_four
from bayesprop.simd.lanes import FLOATS16, called, inlined, load_floats, spread_at, store
from bayesprop.simd.references import row_of

BLOCK = FLOATS16.count
PADDING = BLOCK


class Layer(NamedTuple):
    """A row of the table of layers: sizes, and offsets in theta or in room.

    n_units
        How many of the inputs are units; behind them the last layer of the mean takes x.
    w_m, w_s, b_m, b_s
        Of weights and biases.
    in_m, in_v, in_q, in_step
        Mean, variance and second moment of the inputs, and from block to block.
    out_m, out_v, out_step
        Slopes in the two moments before the rectifier; of the last layer first these moments
        themselves.
    slopes
        Of the rectifier below this layer, of one block only.
    groups
        Of the prior.
    widths, out_widths
        In theta, log widths of the kinks above this layer, their squares in derived; slopes in
        these squares, steps as those of the outputs. Both -1 where there is no kink or a sharp one.
    """

    n_in: int
    n_out: int
    n_units: int
    w_m: int
    w_s: int
    b_m: int
    b_s: int
    in_m: int
    in_v: int
    in_q: int
    in_step: int
    out_m: int
    out_v: int
    out_step: int
    slopes: int
    groups: int
    widths: int
    out_widths: int


class Job(NamedTuple):
    """Units whose products with others, summed over all rows, make a table in `gradient`.

    The first of them, their step from block to block and number; the same of the others; and where
    the table begins.
    """

    a: int
    a_step: int
    n_a: int
    b: int
    b_step: int
    n_b: int
    to: int


layer_at, job_at = row_of(Layer), row_of(Job)


@inlined
def last_layer(work):
    """Return the last of all layers."""
    return layer_at(work.layers, work.layers.shape[0] - 1)


@inlined
def least(a, b):
    """Return the lesser of two, a where b is NaN; numba's `min` is a program for every use."""
    return b if b < a else a


@called
def _certain(work, layer, at, to_m, to_v):
    """Do the first layer, whose inputs have no variance, for the block that begins at `at`."""
    theta, derived, room = work.theta, work.derived, work.room
    n_in, n_out = layer.n_in, layer.n_out
    m_from, q_from = layer.in_m + at, layer.in_q + at
    for j in range(0, n_out, 4):
        w, s = layer.w_m + j, layer.w_s + j
        m, v = spread_four(theta, layer.b_m + j, 1), spread_four(derived, layer.b_s + j, 1)
        for i in range(0, BLOCK * n_in, BLOCK):
            m = plus_products(m, load_floats(room, m_from + i), spread_four(theta, w, 1))
            v = plus_products(v, load_floats(room, q_from + i), spread_four(derived, s, 1))
            w += n_out
            s += n_out
        store_four(room, to_m + BLOCK * j, BLOCK, m)
        store_four(room, to_v + BLOCK * j, BLOCK, v)


@inlined
def _store_moments(room, m_at, v_at, q_at, m, v):
    store(room, m_at, m)
    store(room, v_at, v)
    store(room, q_at, m * m + v)


@called
def _uncertain(work, layer, at, to_m, to_v):
    """Do a layer above the first, one block."""
    theta, derived, room = work.theta, work.derived, work.room
    n_in, n_out = layer.n_in, layer.n_out
    m_from, v_from, q_from = layer.in_m + at, layer.in_v + at, layer.in_q + at
    for j in range(0, n_out - 1, 4):
        w, s = layer.w_m + j, layer.w_s + j
        m, v = spread_four(theta, layer.b_m + j, 1), spread_four(derived, layer.b_s + j, 1)
        for i in range(0, BLOCK * n_in, BLOCK):
            m = plus_products(m, load_floats(room, m_from + i), spread_four(theta, w, 1))
            v = plus_products(v, load_floats(room, q_from + i), spread_four(derived, s, 1))
            v = plus_products(v, load_floats(room, v_from + i), spread_four(derived, w, 1))
            w += n_out
            s += n_out
        store_four(room, to_m + BLOCK * j, BLOCK, m)
        store_four(room, to_v + BLOCK * j, BLOCK, v)
    if n_out % 4 == 1:
        j = n_out - 1
        w, s, b, t = layer.w_m + j, layer.w_s + j, layer.b_m + j, layer.b_s + j
        m_even, m_odd = spread_at(theta, b), 0.0 * spread_at(theta, b)
        q_even, q_odd, v_even, v_odd = spread_at(derived, t), m_odd, m_odd, m_odd
        for i in range(0, n_in - 1, 2):
            here, there = BLOCK * i, BLOCK * (i + 1)
            m_even = m_even + load_floats(room, m_from + here) * spread_at(theta, w)
            v_even = v_even + load_floats(room, v_from + here) * spread_at(derived, w)
            q_even = q_even + load_floats(room, q_from + here) * spread_at(derived, s)
            m_odd = m_odd + load_floats(room, m_from + there) * spread_at(theta, w + n_out)
            v_odd = v_odd + load_floats(room, v_from + there) * spread_at(derived, w + n_out)
            q_odd = q_odd + load_floats(room, q_from + there) * spread_at(derived, s + n_out)
            w += 2 * n_out
            s += 2 * n_out
        if n_in % 2 == 1:
            here = BLOCK * (n_in - 1)
            m_even = m_even + load_floats(room, m_from + here) * spread_at(theta, w)
            v_even = v_even + load_floats(room, v_from + here) * spread_at(derived, w)
            q_even = q_even + load_floats(room, q_from + here) * spread_at(derived, s)
        store(room, to_m + BLOCK * j, m_even + m_odd)
        store(room, to_v + BLOCK * j, (v_even + v_odd) + (q_even + q_odd))


@called
def _rectify(room, n_units, m_at, v_at, q_at, slopes):
    """Replace the moments of one block by those of its positive part; write the slopes."""
    size = BLOCK * n_units
    for k in range(0, size, BLOCK):
        m, v, m_by_m, m_by_v, v_by_m, v_by_v = relu_moments(
            load_floats(room, m_at + k), load_floats(room, v_at + k)
        )
        _store_moments(room, m_at + k, v_at + k, q_at + k, m, v)
        store_four(room, slopes + k, size, (m_by_m, m_by_v, v_by_m, v_by_v))


@called
def _rectify_softly(work, n_units, widths, m_at, v_at, q_at, slopes):
    """Do that where kinks have these widths, counted from one unit to the next."""
    room, derived, size = work.room, work.derived, BLOCK * n_units
    for unit in range(n_units):
        k = BLOCK * unit
        m, v, m_by_m, m_by_v, v_by_m, v_by_v, v_by_width = soft_relu_moments(
            load_floats(room, m_at + k),
            load_floats(room, v_at + k),
            spread_at(derived, widths + unit),
        )
        _store_moments(room, m_at + k, v_at + k, q_at + k, m, v)
        store_four(room, slopes + k, size, (m_by_m, m_by_v, v_by_m, v_by_v))
        store(room, slopes + 4 * size + k, v_by_width)


@inlined
def _pass_on(room, first, last, block):
    """Copy a block of inputs behind the units that the last layer takes."""
    n_units, by = last.n_units, block * first.in_step
    x, q, to = first.in_m + by, first.in_q + by, block * last.in_step + BLOCK * n_units
    for k in range(0, BLOCK * (last.n_in - n_units), BLOCK):
        value = load_floats(room, x + k)
        store(room, last.in_m + to + k, value)
        store(room, last.in_v + to + k, 0.0 * value)
        store(room, last.in_q + to + k, load_floats(room, q + k))


@called
def forward(work, first, end, block):
    """Send one block of rows through a network; its outputs' moments lie in out_m, out_v."""
    for depth in range(first, end - 1):
        layer, above = layer_at(work.layers, depth), layer_at(work.layers, depth + 1)
        at, to = block * layer.in_step, block * above.in_step
        to_m, to_v, to_q = above.in_m + to, above.in_v + to, above.in_q + to
        if depth == first:
            _certain(work, layer, at, to_m, to_v)
        else:
            _uncertain(work, layer, at, to_m, to_v)
        n_units, widths, slopes = above.n_units, layer.widths, above.slopes
        if widths < 0:
            _rectify(work.room, n_units, to_m, to_v, to_q, slopes)
        else:
            _rectify_softly(work, n_units, widths, to_m, to_v, to_q, slopes)
    layer = layer_at(work.layers, end - 1)
    _pass_on(work.room, layer_at(work.layers, first), layer, block)
    to = block * layer.out_step
    _uncertain(work, layer, block * layer.in_step, layer.out_m + to, layer.out_v + to)


@inlined
def _through(room, unit, m_at, to, slopes, size, direct, by_s, by_w):
    """Write the slopes of the loss before the rectifier of one unit, from the three sums.

    to
        Where those in means, variances and squared widths go.
    """
    g_m, g_v, g_width = to
    at = BLOCK * unit
    of_m = direct + 2.0 * load_floats(room, m_at + at) * by_s
    of_v = by_s + by_w
    m_by_m, m_by_v = load_floats(room, slopes + at), load_floats(room, slopes + size + at)
    v_by_m = load_floats(room, slopes + 2 * size + at)
    v_by_v = load_floats(room, slopes + 3 * size + at)
    store(room, g_m + at, of_m * m_by_m + of_v * v_by_m)
    store(room, g_v + at, of_m * m_by_v + of_v * v_by_v)
    if g_width >= 0:
        v_by_width = load_floats(room, slopes + 4 * size + at)
        store(room, g_width + at, of_m * m_by_v + of_v * v_by_width)


@called
def _below(work, layer, block, to):
    """Send one block's slopes from a layer's outputs to before the rectifier below it."""
    theta, derived, room = work.theta, work.derived, work.room
    n_units, n_out, slopes = layer.n_units, layer.n_out, layer.slopes
    m_at, size = layer.in_m + block * layer.in_step, BLOCK * n_units
    from_m = layer.out_m + block * layer.out_step
    from_v = layer.out_v + block * layer.out_step
    for i in range(0, n_units, 4):
        w, s = layer.w_m + i * n_out, layer.w_s + i * n_out
        nothing = four_of(0.0 * load_floats(theta, 0))
        direct, by_s, by_w = nothing, nothing, nothing
        for j in range(n_out):
            m, v = load_floats(room, from_m + BLOCK * j), load_floats(room, from_v + BLOCK * j)
            direct = plus_products(direct, m, spread_four(theta, w + j, n_out))
            by_s = plus_products(by_s, v, spread_four(derived, s + j, n_out))
            by_w = plus_products(by_w, v, spread_four(derived, w + j, n_out))
        a0, a1, a2, a3 = direct
        b0, b1, b2, b3 = by_s
        c0, c1, c2, c3 = by_w
        _through(room, i, m_at, to, slopes, size, a0, b0, c0)
        _through(room, i + 1, m_at, to, slopes, size, a1, b1, c1)
        _through(room, i + 2, m_at, to, slopes, size, a2, b2, c2)
        _through(room, i + 3, m_at, to, slopes, size, a3, b3, c3)


@called
def backward(work, first, end, block):
    """Send one block's slopes down to the first layer's outputs."""
    for depth in range(end - 1, first, -1):
        layer, under = layer_at(work.layers, depth), layer_at(work.layers, depth - 1)
        at = block * under.out_step
        of_widths = under.out_widths + at if under.out_widths >= 0 else -1
        _below(work, layer, block, (under.out_m + at, under.out_v + at, of_widths))


@called
def _column(work, a, a_step, b, b_step, n_blocks):
    """Products, summed over all rows, of sixteen units from a on with the unit b."""
    room = work.room
    t0 = four_of(0.0 * load_floats(work.theta, 0))
    t1, t2, t3 = t0, t0, t0
    for _ in range(n_blocks):
        y = load_floats(room, b)
        t0 = plus_products(t0, y, load_four(room, a, BLOCK))
        t1 = plus_products(t1, y, load_four(room, a + 4 * BLOCK, BLOCK))
        t2 = plus_products(t2, y, load_four(room, a + 8 * BLOCK, BLOCK))
        t3 = plus_products(t3, y, load_four(room, a + 12 * BLOCK, BLOCK))
        a += a_step
        b += b_step
    return totals(t0, t1, t2, t3)


@called
def _square(work, a, a_step, b, b_step, n_blocks):
    """Products, summed over all rows, of four units from a on with four from b on."""
    room = work.room
    t0 = four_of(0.0 * load_floats(work.theta, 0))
    t1, t2, t3 = t0, t0, t0
    for _ in range(n_blocks):
        others = load_four(room, b, BLOCK)
        t0 = plus_products(t0, load_floats(room, a), others)
        t1 = plus_products(t1, load_floats(room, a + BLOCK), others)
        t2 = plus_products(t2, load_floats(room, a + 2 * BLOCK), others)
        t3 = plus_products(t3, load_floats(room, a + 3 * BLOCK), others)
        a += a_step
        b += b_step
    return totals(t0, t1, t2, t3)


@inlined
def _spill(few, out, at, step, n_rows, n_columns):
    """Write part of four rows of four."""
    for row in range(least(4, n_rows)):
        for column in range(n_columns):
            out[at + row * step + column] = few[4 * row + column]


@called
def products(work, job, n_blocks):
    """Do a `Job`."""
    few, out = work.few, work.gradient
    a, a_step, n_a, b, b_step, n_b, to = (
        job.a, job.a_step, job.n_a, job.b, job.b_step, job.n_b, job.to,
    )  # fmt: skip
    for j in range(0, n_b - 1, 4):
        n_columns = least(4, n_b - j)
        for i in range(0, n_a, 4):
            sums = _square(work, a + BLOCK * i, a_step, b + BLOCK * j, b_step, n_blocks)
            at = to + i * n_b + j
            if n_columns == 4 and i + 4 <= n_a:
                store_quarters(out, at, n_b, sums)
            else:
                store(few, 0, sums)
                _spill(few, out, at, n_b, n_a - i, n_columns)
    if n_b % 4 == 1:
        j = n_b - 1
        for i in range(0, n_a, BLOCK):
            sums = _column(work, a + BLOCK * i, a_step, b + BLOCK * j, b_step, n_blocks)
            at = to + i * n_b + j
            if n_b == 1 and i + BLOCK <= n_a:
                store(out, at, sums)
            else:
                store(few, 0, sums)
                for k in range(least(BLOCK, n_a - i)):
                    out[at + k * n_b] = few[k]
