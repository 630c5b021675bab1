"""The cumulative likelihood of ordered classes: P(y <= k) = sigmoid(b_k - a), a ~ N(m, v).

One latent number a row, and increasing thresholds b that all rows share (McCullagh 1980). With the
gaps d_k = b_k - b_{k-1} a class has the probability

    P(y = k) = sigmoid(b_k - a) sigmoid(a - b_{k-1}) (1 - exp(-d_k)),

in which nothing cancels; the first class lacks what is of b_{k-1}, the last what is of b_k. With
p = sigmoid(b_k - a) and q = sigmoid(b_{k-1} - a) the slope of log P in a is p + q - 1, and its
curvature -p (1 - p) - q (1 - q); half of that is the slope in v (Price 1958). Expectations are over
normal draws and their negatives, as in `kernel_softmax`.

Thresholds are learnt without a prior: theta holds b_0, and of the others log(d_k - LEAST_GAP).
The arrays are those of `kernel_network.py`; targets are one-hot. All is float32.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math

from bayesprop.moments.network_ensemble.kernel_adam import descend_plainly
from bayesprop.moments.network_ensemble.kernel_network import BLOCK, last_layer
from bayesprop.moments.network_ensemble.kernel_softmax import N_PAIRS
from bayesprop.simd.floats import exp, log1p, square_root
from bayesprop.simd.lanes import called, inlined, load_floats, spread_at, store, total

LEAST_GAP = 1e-4
_NONE = 1e30  # where the last class ends


@called
def place(work):
    """Write what a step needs of every class: its upper end, log(1 - exp(-d)), and no row yet."""
    theta, room, places = work.theta, work.room, work.places
    at, n = places.thresholds, places.n_thresholds
    ends, log_gaps, counts = places.ends, places.ends + n + 1, places.ends + 2 * (n + 1)
    end = 0.0
    for k in range(n + 1):
        room[ends + k], room[log_gaps + k], room[counts + k] = _NONE, 0.0, 0.0
    for k in range(n):
        gap = math.exp(theta[at + k]) + LEAST_GAP
        end = end + gap if k > 0 else theta[at]
        room[ends + k] = end
        if k > 0:
            room[log_gaps + k] = math.log(-math.expm1(-gap))
        work.gradient[at + k] = 0.0


@inlined
def _sides(a, room, end):
    """Probabilities of lying below and above an end, and their logarithms."""
    away = a - spread_at(room, end)
    odds = exp(away)
    below, log_below = 1.0 / (1.0 + odds), 0.0 - log1p(odds)
    return below, odds * below, log_below, away + log_below


@called
def outputs(work, block, draws_at, per_row):
    """Replace the latent's moments by the slopes of the loss in them; the log-likelihoods' sum.

    draws_at
        Where in `normals` the draws begin.
    per_row
        -1 / number of rows.
    """
    room, places, normals = work.room, work.places, work.normals
    last, n, n_draws = last_layer(work), places.n_thresholds, 2.0 * N_PAIRS
    to, log_gaps, counts = block * last.out_step, places.ends + n + 1, places.ends + 2 * (n + 1)
    m_at, v_at, y_at = last.out_m + to, last.out_v + to, places.y + block * (n + 1) * BLOCK
    m, std = load_floats(room, m_at), square_root(load_floats(room, v_at))
    weight, nothing = load_floats(room, places.weight + block * BLOCK), 0.0 * m
    for k in range(0, n * BLOCK, BLOCK):
        store(room, places.sums + k, nothing)
    likelihood, curvature = nothing, nothing
    for draw in range(2 * N_PAIRS):
        sign = 1.0 - 2.0 * (draw % 2)
        a = m + (sign * spread_at(normals, draws_at + draw // 2 * (n + 1))) * std
        for k in range(n):
            below, above, log_below, log_above = _sides(a, room, places.ends + k)
            at = y_at + BLOCK * k
            ends, begins = load_floats(room, at), load_floats(room, at + BLOCK)
            likelihood = likelihood + ends * log_below + begins * log_above
            curvature = curvature + (ends + begins) * below * above
            at = places.sums + BLOCK * k
            store(room, at, load_floats(room, at) + ends * above - begins * below)
    share, slope, in_all = weight / n_draws, nothing, 0.0
    for k in range(n):
        pull = share * load_floats(room, places.sums + BLOCK * k)
        slope = slope + pull
        work.gradient[places.thresholds + k] += per_row * total(pull)
    store(room, m_at, (0.0 - per_row) * slope)
    store(room, v_at, (0.0 - 0.5) * per_row * share * curvature)
    for k in range(n + 1):
        count = total(weight * load_floats(room, y_at + BLOCK * k))
        room[counts + k] += count
        in_all += count * room[log_gaps + k]
    return total(share * likelihood) + in_all


@called
def descend(work, per_row, rates):
    """Move the thresholds, by the slopes that all blocks have left."""
    theta, gradient, places = work.theta, work.gradient, work.places
    at, n = places.thresholds, places.n_thresholds
    counts, of_later = places.ends + 2 * (n + 1), 0.0
    for k in range(n - 1, 0, -1):
        of_later += gradient[at + k]
        width = math.exp(theta[at + k])
        of_gap = per_row * work.room[counts + k] / math.expm1(width + LEAST_GAP)
        gradient[at + k] = width * (of_later + of_gap)
    gradient[at] += of_later
    descend_plainly(work, at, n, rates)


@called
def expectations(work, block, n_pairs):
    """Write expected probabilities, from `sums` on by one number a class, and before them entropy.

    n_pairs
        Of draws, which `normals` begin with, a number for each class; the first is the latent's.
    """
    room, places = work.room, work.places
    last, c = last_layer(work), places.n_thresholds + 1
    to, p_at, log_gaps = block * last.out_step, places.sums + c * BLOCK, places.ends + c
    m, std = load_floats(room, last.out_m + to), square_root(load_floats(room, last.out_v + to))
    nothing, per_draw = 0.0 * m, 0.5 / n_pairs
    for k in range(0, c * BLOCK, BLOCK):
        store(room, p_at + k, nothing)
    entropy = nothing
    for draw in range(2 * n_pairs):
        sign = 1.0 - 2.0 * (draw % 2)
        a = m + (sign * spread_at(work.normals, draw // 2 * c)) * std
        above, log_above = nothing + 1.0, nothing
        for k in range(c):
            below, next_above, log_below, log_next = _sides(a, room, places.ends + k)
            log_gap = spread_at(room, log_gaps + k)
            p = per_draw * (above * below * exp(log_gap))
            entropy = entropy - p * (log_above + log_below + log_gap)
            store(room, p_at + BLOCK * k, load_floats(room, p_at + BLOCK * k) + p)
            above, log_above = next_above, log_next
    store(room, places.sums, entropy)
