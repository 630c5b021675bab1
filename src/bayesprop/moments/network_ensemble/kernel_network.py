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
    A row of a table whose columns are named below: sizes, and offsets in theta or in room.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from bayesprop.simd.floats import (
    first_quarter,
    last_quarter,
    relu_moments,
    second_quarter,
    soft_relu_moments,
    third_quarter,
    totals,
)
from bayesprop.simd.fours import four_of, load_four, plus_products, spread_four, store_four
from bayesprop.simd.lanes import FLOATS16, called, inlined, load_floats, spread_at, store

BLOCK = FLOATS16.count
PADDING = BLOCK

# The columns of the table of layers. Inputs: mean, variance, second moment. OUT: slopes in the two
# moments before the rectifier, of the last layer first these moments themselves. STEP: from block
# to block. SLOPES: of the rectifier below this layer, of one block only. GROUPS: of the prior.
# N_UNITS: how many of the inputs are units; behind them the last layer of the mean takes x.
# WIDTHS: in theta, log widths of the kinks above this layer, their squares in derived; OUT_WIDTHS:
# slopes in these squares, steps as OUT. Both -1 where there is no kink or a sharp one.
N_IN, N_OUT, W_M, W_S, B_M, B_S = 0, 1, 2, 3, 4, 5
IN_M, IN_V, IN_Q, IN_STEP, OUT_M, OUT_V, OUT_STEP, SLOPES = 6, 7, 8, 9, 10, 11, 12, 13
GROUPS, N_UNITS, WIDTHS, OUT_WIDTHS = 14, 15, 16, 17


@inlined
def least(a, b):
    """Return the lesser of two, a where b is NaN; numba's `min` is a program for every use."""
    return b if b < a else a


@called
def _certain(work, layer, at, to_m, to_v):
    """Do the first layer, whose inputs have no variance, for the block that begins at `at`."""
    theta, derived, room = work.theta, work.derived, work.room
    n_in, n_out = layer[N_IN], layer[N_OUT]
    m_from, q_from = layer[IN_M] + at, layer[IN_Q] + at
    for j in range(0, n_out, 4):
        w, s = layer[W_M] + j, layer[W_S] + j
        m, v = spread_four(theta, layer[B_M] + j, 1), spread_four(derived, layer[B_S] + j, 1)
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
    n_in, n_out = layer[N_IN], layer[N_OUT]
    m_from, v_from, q_from = layer[IN_M] + at, layer[IN_V] + at, layer[IN_Q] + at
    for j in range(0, n_out - 1, 4):
        w, s = layer[W_M] + j, layer[W_S] + j
        m, v = spread_four(theta, layer[B_M] + j, 1), spread_four(derived, layer[B_S] + j, 1)
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
        w, s, b, t = layer[W_M] + j, layer[W_S] + j, layer[B_M] + j, layer[B_S] + j
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
    n_units, by = last[N_UNITS], block * first[IN_STEP]
    x, q, to = first[IN_M] + by, first[IN_Q] + by, block * last[IN_STEP] + BLOCK * n_units
    for k in range(0, BLOCK * (last[N_IN] - n_units), BLOCK):
        value = load_floats(room, x + k)
        store(room, last[IN_M] + to + k, value)
        store(room, last[IN_V] + to + k, 0.0 * value)
        store(room, last[IN_Q] + to + k, load_floats(room, q + k))


@called
def forward(work, layers, block):
    """Send one block of rows through a network; its outputs' moments lie in OUT_M, OUT_V."""
    last = layers.shape[0] - 1
    for depth in range(last):
        layer, above = layers[depth], layers[depth + 1]
        at, to = block * layer[IN_STEP], block * above[IN_STEP]
        to_m, to_v, to_q = above[IN_M] + to, above[IN_V] + to, above[IN_Q] + to
        if depth == 0:
            _certain(work, layer, at, to_m, to_v)
        else:
            _uncertain(work, layer, at, to_m, to_v)
        n_units, widths, slopes = above[N_UNITS], layer[WIDTHS], above[SLOPES]
        if widths < 0:
            _rectify(work.room, n_units, to_m, to_v, to_q, slopes)
        else:
            _rectify_softly(work, n_units, widths, to_m, to_v, to_q, slopes)
    layer = layers[last]
    _pass_on(work.room, layers[0], layer, block)
    to = block * layer[OUT_STEP]
    _uncertain(work, layer, block * layer[IN_STEP], layer[OUT_M] + to, layer[OUT_V] + to)


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
    n_units, n_out, slopes = layer[N_UNITS], layer[N_OUT], layer[SLOPES]
    m_at, size = layer[IN_M] + block * layer[IN_STEP], BLOCK * n_units
    from_m = layer[OUT_M] + block * layer[OUT_STEP]
    from_v = layer[OUT_V] + block * layer[OUT_STEP]
    for i in range(0, n_units, 4):
        w, s = layer[W_M] + i * n_out, layer[W_S] + i * n_out
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
def backward(work, layers, block):
    """Send one block's slopes down to the first layer's outputs."""
    for depth in range(layers.shape[0] - 1, 0, -1):
        under = layers[depth - 1]
        at = block * under[OUT_STEP]
        of_widths = under[OUT_WIDTHS] + at if under[OUT_WIDTHS] >= 0 else -1
        _below(work, layers[depth], block, (under[OUT_M] + at, under[OUT_V] + at, of_widths))


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
    """Write a table of the products of some units with others, summed over all rows.

    job
        First unit of the former, their step from block to block and number; the same of the
        latter; and where the table begins in `gradient`.
    """
    few, out = work.few, work.gradient
    a, a_step, n_a, b, b_step, n_b, to = job[0], job[1], job[2], job[3], job[4], job[5], job[6]
    for j in range(0, n_b - 1, 4):
        n_columns = least(4, n_b - j)
        for i in range(0, n_a, 4):
            sums = _square(work, a + BLOCK * i, a_step, b + BLOCK * j, b_step, n_blocks)
            at = to + i * n_b + j
            if n_columns == 4 and i + 4 <= n_a:
                store(out, at, first_quarter(sums))
                store(out, at + n_b, second_quarter(sums))
                store(out, at + 2 * n_b, third_quarter(sums))
                store(out, at + 3 * n_b, last_quarter(sums))
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
