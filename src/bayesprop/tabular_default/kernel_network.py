"""Forward and backward through layers of Gaussian weights, some rows at a time.

Roth & Pernkopf (2016), eq. 7-11. A layer whose inputs have mean m, variance v and second moment
q = m² + v computes, with weights N(w, s) and biases N(b, t),

    m_a = sum w m + b        v_a = sum (s q + w² v) + t

so that, with G_m and G_v the slopes of the loss in m_a and v_a,

    of m: sum w G_m + 2 m sum s G_v        of v: sum (s + w²) G_v
    of w: sum_rows m G_m + 2 w sum_rows v G_v        of s: sum_rows q G_v

`room` holds a record of every input, unit and output: so many numbers for each of the quantities
below, one a row. All loops run over rows, which are filled up to a multiple of `BLOCK`, so that
they need no remainder. `theta` holds the means of all weights and biases, `n_means` of them, layer
by layer; in the same order their log standard deviations; then log widths of kinks, and what
belongs to the likelihood. `derived` has, in the same places, squares, variances and squared widths;
`gradient` has sums over rows: of means the first of the two above, of log standard deviations the
slope in the variance, and behind all of theta, in the places of means, the second sum.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from bayesprop.numerics.compiled import called, disjoint, summing_apart
from bayesprop.numerics.float32_math import TWO, ZERO, relu_moments, soft_relu_moments

BLOCK, ROWS = 16, 128
"""Rows are so many times the one, at most the other at a time."""
_ROOM = ROWS + BLOCK  # of one quantity: with a power of two, rows of all units compete for a place
N_QUANTITIES = 9
RECORD = N_QUANTITIES * _ROOM
# Mean, variance and second moment of a unit; its slopes (of the mean by both moments before the
# rectifier, of the variance by both and by the squared width); and room. In the places of three
# slopes, in the end, those of the loss by the moments before the rectifier and the squared width.
Z_M, Z_V, Z_Q, M_BY_M, M_BY_V, V_BY_M, V_BY_V, V_BY_W, SPARE = range(0, RECORD, _ROOM)
G_M, G_V, _G_W = M_BY_M, M_BY_V, V_BY_W

N_IN, N_OUT, WEIGHTS, BIASES, IN, OUT, WIDTHS = range(7)
"""Columns of `layers`: sizes; places in theta, no biases (-1) where outputs are added to those of
the row before; records of inputs and outputs; log widths in theta, 0 without a rectifier, -1 where
its kink is sharp. The records at 0 are the inputs, which are certain."""
MOST = 2**40 - 1
"""`k & MOST` is k, and tells the compiler that it is not negative: else every innermost loop would
ask whether indices count from an array's end."""
_BLOCKS, _FOURS = MOST - BLOCK + 1, MOST - 3


@called
def combine(out, to, x, at, weights, first, by_in, by_out, n_in, n_out, n):
    """Add to each output of n rows the weighted sum of the inputs, four by four of them.

    to, at
        Of a quantity of the first output and input; the records of others follow.
    first, by_in, by_out
        Where the first weight lies, and how far from one input or output to the next.
    """
    disjoint()
    n, first, by_in, by_out = n & _BLOCKS, first & MOST, by_in & MOST, by_out & MOST
    whole_in, whole_out = n_in & _FOURS, n_out & _FOURS
    for j in range(0, whole_out, 4):
        o = (to + j * RECORD) & MOST
        for i in range(0, whole_in, 4):
            a, p = (at + i * RECORD) & MOST, (first + i * by_in + j * by_out) & MOST
            q = p + by_in
            s, t = q + by_in, q + 2 * by_in
            p1, p2, p3 = p + by_out, p + 2 * by_out, p + 3 * by_out
            q1, q2, q3 = q + by_out, q + 2 * by_out, q + 3 * by_out
            s1, s2, s3 = s + by_out, s + 2 * by_out, s + 3 * by_out
            t1, t2, t3 = t + by_out, t + 2 * by_out, t + 3 * by_out
            w00, w01, w02, w03 = weights[p], weights[p1], weights[p2], weights[p3]
            w10, w11, w12, w13 = weights[q], weights[q1], weights[q2], weights[q3]
            w20, w21, w22, w23 = weights[s], weights[s1], weights[s2], weights[s3]
            w30, w31, w32, w33 = weights[t], weights[t1], weights[t2], weights[t3]
            for r in range(n):
                x0, x1 = x[a + r], x[a + RECORD + r]
                x2, x3 = x[a + 2 * RECORD + r], x[a + 3 * RECORD + r]
                out[o + r] += w00 * x0 + w10 * x1 + w20 * x2 + w30 * x3
                out[o + RECORD + r] += w01 * x0 + w11 * x1 + w21 * x2 + w31 * x3
                out[o + 2 * RECORD + r] += w02 * x0 + w12 * x1 + w22 * x2 + w32 * x3
                out[o + 3 * RECORD + r] += w03 * x0 + w13 * x1 + w23 * x2 + w33 * x3
    for i in range(n_in):
        a = (at + i * RECORD) & MOST
        for j in range(whole_out if i < whole_in else 0, n_out):
            o, w = (to + j * RECORD) & MOST, weights[(first + i * by_in + j * by_out) & MOST]
            for r in range(n):
                out[o + r] += w * x[a + r]


@summing_apart
def products(out, to, x, at, g, by, n_in, n_out, n):
    """Add to the table out[to:] the products of inputs and outputs, summed over n rows.

    at, by
        Of a quantity of the first input and output; the records of others follow.
    """
    disjoint()
    n, whole_in, whole_out = n & _BLOCKS, n_in & _FOURS, n_out & _FOURS
    for i in range(0, whole_in, 4):
        a = (at + i * RECORD) & MOST
        for j in range(0, whole_out, 4):
            b = (by + j * RECORD) & MOST
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = ZERO
            s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = ZERO
            for r in range(n):
                x0, x1 = x[a + r], x[a + RECORD + r]
                x2, x3 = x[a + 2 * RECORD + r], x[a + 3 * RECORD + r]
                g0, g1 = g[b + r], g[b + RECORD + r]
                g2, g3 = g[b + 2 * RECORD + r], g[b + 3 * RECORD + r]
                s00, s01, s02, s03 = s00 + x0 * g0, s01 + x0 * g1, s02 + x0 * g2, s03 + x0 * g3
                s10, s11, s12, s13 = s10 + x1 * g0, s11 + x1 * g1, s12 + x1 * g2, s13 + x1 * g3
                s20, s21, s22, s23 = s20 + x2 * g0, s21 + x2 * g1, s22 + x2 * g2, s23 + x2 * g3
                s30, s31, s32, s33 = s30 + x3 * g0, s31 + x3 * g1, s32 + x3 * g2, s33 + x3 * g3
            k = (to + i * n_out + j) & MOST
            out[k] += s00
            out[k + 1] += s01
            out[k + 2] += s02
            out[k + 3] += s03
            k = (k + n_out) & MOST
            out[k] += s10
            out[k + 1] += s11
            out[k + 2] += s12
            out[k + 3] += s13
            k = (k + n_out) & MOST
            out[k] += s20
            out[k + 1] += s21
            out[k + 2] += s22
            out[k + 3] += s23
            k = (k + n_out) & MOST
            out[k] += s30
            out[k + 1] += s31
            out[k + 2] += s32
            out[k + 3] += s33
    for i in range(n_in):
        a = (at + i * RECORD) & MOST
        for j in range(whole_out if i < whole_in else 0, n_out):
            b, s = (by + j * RECORD) & MOST, ZERO
            for r in range(n):
                s += x[a + r] * g[b + r]
            out[(to + i * n_out + j) & MOST] += s


@called
def _rectify(room, at, n_units, n, derived, widths):
    """Replace moments by those of the positive part, whose kinks have these widths; add slopes."""
    disjoint()
    n = n & _BLOCKS
    for unit in range(n_units):
        first = (at + unit * RECORD) & MOST
        if widths < 0:
            for r in range(first, first + n):
                m, v, m_by_m, m_by_v, v_by_m, v_by_v = relu_moments(room[r + Z_M], room[r + Z_V])
                room[r + Z_M], room[r + Z_V], room[r + Z_Q] = m, v, m * m + v
                room[r + M_BY_M], room[r + M_BY_V] = m_by_m, m_by_v
                room[r + V_BY_M], room[r + V_BY_V] = v_by_m, v_by_v
            continue
        width = derived[(widths + unit) & MOST]
        for r in range(first, first + n):
            m, v, m_by_m, m_by_v, v_by_m, v_by_v, v_by_w = soft_relu_moments(
                room[r + Z_M], room[r + Z_V], width
            )
            room[r + Z_M], room[r + Z_V], room[r + Z_Q] = m, v, m * m + v
            room[r + M_BY_M], room[r + M_BY_V] = m_by_m, m_by_v
            room[r + V_BY_M], room[r + V_BY_V], room[r + V_BY_W] = v_by_m, v_by_v, v_by_w


@called
def gather(room, x, y, weight, order, start, count, n, to):
    """Copy a batch into records; rows beyond the count repeat the first, with a weight of 0.

    to
        Place of the first target; in the places of variances lie the weights of the rows.
    """
    for r in range(n):
        row = order[start + (r if r < count else 0)]
        for i in range(x.shape[1]):
            at, value = (i * RECORD + r) & MOST, x[row, i]
            room[at + Z_M], room[at + Z_Q] = value, value * value
        for j in range(y.shape[1]):
            at = (to + j * RECORD + r) & MOST
            room[at + Z_M], room[at + Z_V] = y[row, j], weight[row] if r < count else ZERO


@called
def forward(layers, theta, derived, room, n_means, n):
    """Send n rows through all layers; the moments of outputs are then in their records."""
    n = n & _BLOCKS
    for depth in range(layers.shape[0]):
        n_in, n_out, w = layers[depth, N_IN], layers[depth, N_OUT], layers[depth, WEIGHTS]
        at, to, biases = layers[depth, IN], layers[depth, OUT], layers[depth, BIASES]
        for j in range(n_out if biases >= 0 else 0):
            o, m, v = (to + j * RECORD) & MOST, theta[biases + j], derived[n_means + biases + j]
            for r in range(o, o + n):
                room[r + Z_M], room[r + Z_V] = m, v
        combine(room, to + Z_M, room, at + Z_M, theta, w, n_out, 1, n_in, n_out, n)
        combine(room, to + Z_V, room, at + Z_Q, derived, n_means + w, n_out, 1, n_in, n_out, n)
        if at > 0:
            combine(room, to + Z_V, room, at + Z_V, derived, w, n_out, 1, n_in, n_out, n)
        if layers[depth, WIDTHS] != 0:
            _rectify(room, to, n_out, n, derived, layers[depth, WIDTHS])


@summing_apart
def backward(layers, theta, derived, gradient, room, n_means, n):
    """Send the slopes of outputs down through all layers; add those of parameters to `gradient`."""
    n, n_theta = n & _BLOCKS, theta.shape[0] & MOST
    for depth in range(layers.shape[0] - 1, -1, -1):
        n_in, n_out, w = layers[depth, N_IN], layers[depth, N_OUT], layers[depth, WEIGHTS]
        at, to, biases = layers[depth, IN], layers[depth, OUT], layers[depth, BIASES]
        widths = layers[depth, WIDTHS]
        for j in range(n_out if biases >= 0 else 0):
            o = (to + j * RECORD) & MOST
            of_m = of_v = of_w = ZERO
            for r in range(o, o + n):
                of_m += room[r + G_M]
                of_v += room[r + G_V]
                of_w += room[r + _G_W]
            gradient[biases + j] += of_m
            gradient[n_means + biases + j] += of_v
            if widths > 0:
                gradient[widths + j] += of_w
        products(gradient, w, room, at + Z_M, room, to + G_M, n_in, n_out, n)
        products(gradient, n_means + w, room, at + Z_Q, room, to + G_V, n_in, n_out, n)
        if at == 0:
            continue
        products(gradient, n_theta + w, room, at + Z_V, room, to + G_V, n_in, n_out, n)
        for i in range(n_in):
            o = (at + i * RECORD) & MOST
            for r in range(o, o + n):
                room[r + SPARE], room[r + Z_Q], room[r + Z_V] = ZERO, ZERO, ZERO
        combine(room, at + SPARE, room, to + G_M, theta, w, 1, n_out, n_out, n_in, n)
        combine(room, at + Z_Q, room, to + G_V, derived, n_means + w, 1, n_out, n_out, n_in, n)
        combine(room, at + Z_V, room, to + G_V, derived, w, 1, n_out, n_out, n_in, n)
        for i in range(n_in):
            o = (at + i * RECORD) & MOST
            for r in range(o, o + n):
                by_s = room[r + Z_Q]
                of_m, of_v = room[r + SPARE] + TWO * room[r + Z_M] * by_s, by_s + room[r + Z_V]
                through = of_m * room[r + M_BY_V]
                by_m = of_m * room[r + M_BY_M] + of_v * room[r + V_BY_M]
                by_v = through + of_v * room[r + V_BY_V]
                room[r + _G_W] = through + of_v * room[r + V_BY_W]
                room[r + G_M], room[r + G_V] = by_m, by_v
