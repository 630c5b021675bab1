"""The compiled loops of a network that predicts classes: steps of training, and probabilities.

The likelihood is categorical, E[log softmax_y(a)], a ~ N(m, v), by normal draws of each independent
logit and their negatives, fresh at every step and the same for all rows and networks. The slopes
are those of the expectation: E[1(y) - softmax] in m, and half the curvature, -E[p (1 - p)] / 2, in
v (Price 1958).

Of ordered classes it is cumulative, P(y <= k) = sigmoid(b_k - a): one latent number a row, and
increasing thresholds b that all rows share (McCullagh 1980). With the gaps d_k = b_k - b_{k-1} a
class has the probability

    P(y = k) = sigmoid(b_k - a) sigmoid(a - b_{k-1}) (1 - exp(-d_k)),

in which nothing cancels; the first class lacks what is of b_{k-1}, the last what is of b_k. With
p = sigmoid(b_k - a) and q = sigmoid(b_{k-1} - a) the slope of log P in a is p + q - 1, and its
curvature -p (1 - p) - q (1 - q). Thresholds are learnt without a prior: theta holds b_0, and of the
others log(d_k - LEAST_GAP).

The arrays are those of `kernel_network.py`; targets are one-hot. All is float32.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math

import numpy as np

from bayesprop.numerics.compiled import (
    called,
    compiled,
    disjoint,
    flush_subnormals,
    inlined,
    restore,
    summing_apart,
)
from bayesprop.numerics.float32_math import HALF, ONE, ZERO, exp, log, log1p
from bayesprop.tabular_default.kernel_adam import derive, descend, prepare
from bayesprop.tabular_default.kernel_member import ramp
from bayesprop.tabular_default.kernel_network import (
    BLOCK,
    G_M,
    G_V,
    MOST,
    RECORD,
    ROWS,
    SPARE,
    V_BY_M,
    V_BY_V,
    V_BY_W,
    Z_M,
    Z_Q,
    Z_V,
    backward,
    forward,
    gather,
)
from bayesprop.tabular_default.settings import LEAST_GAP

N_PAIRS = 2
"""Of draws of every logit, a step."""

_STRIDE = 7919  # between the places in the table of normals at which steps begin
_NONE = np.float32(1e30)  # where the last class ends
_WHOLE = MOST - BLOCK + 1
# Of a class: its standard deviation, a draw of it, sums of p and of p (1 - p).
_STD, _DRAW, _P, _Q = Z_Q, V_BY_M, V_BY_V, V_BY_W
# Of a row, in `few`: of one draw the largest logit, the sum of exponentials, the logit of the row's
# class, the mean logit; of all draws log-likelihoods and entropies. Behind them lie ends of ordered
# classes, log(1 - exp(-d)) and how many rows each has.
_TOP, _SUM, _CHOSEN, _MEAN, _LIKELIHOOD, _ENTROPY = Z_M, Z_V, SPARE, V_BY_M, V_BY_V, V_BY_W
_SLOPE, _CURVE = _CHOSEN, _MEAN  # of the log-likelihood in a latent number
_ABOVE, _LOG_ABOVE = _CHOSEN, _MEAN  # probability of lying above the class before, its logarithm


@called
def _softmax(room, few, normals, places, n_out, n, draws_at, n_pairs):
    """Write the sums of p and of p (1 - p) over draws of the logits, and of rows.

    draws_at
        Where in `normals` the draws begin, a number for each class.
    """
    disjoint()
    n, first = n & _WHOLE, places.mean & MOST
    for r in range(n):
        few[r + _LIKELIHOOD], few[r + _ENTROPY] = ZERO, ZERO
    for j in range(n_out):
        o = (first + j * RECORD) & MOST
        for r in range(o, o + n):
            room[r + _STD] = math.sqrt(room[r + Z_V])
            room[r + _P], room[r + _Q] = ZERO, ZERO
    for draw in range(2 * n_pairs):
        e_at, sign = draws_at + draw // 2 * n_out, ONE if draw % 2 == 0 else -ONE
        for r in range(n):
            few[r + _TOP], few[r + _SUM] = -_NONE, ZERO
            few[r + _CHOSEN], few[r + _MEAN] = ZERO, ZERO
        for j in range(n_out):
            o, e = (first + j * RECORD) & MOST, sign * normals[e_at + j]
            for r in range(n):
                a, top = room[o + Z_M + r] + e * room[o + _STD + r], few[r + _TOP]
                room[o + _DRAW + r], few[r + _TOP] = a, a if a > top else top
        for j in range(n_out):
            o, y = (first + j * RECORD) & MOST, (places.targets + j * RECORD) & MOST
            for r in range(n):
                a = room[o + _DRAW + r] - few[r + _TOP]
                p = exp(a)
                few[r + _CHOSEN] += a * room[y + r]
                few[r + _SUM] += p
                few[r + _MEAN] += p * a
                room[o + _DRAW + r] = p
        for r in range(n):
            per_sum, log_sum = ONE / few[r + _SUM], log(few[r + _SUM])
            few[r + _SUM] = per_sum
            few[r + _LIKELIHOOD] += few[r + _CHOSEN] - log_sum
            few[r + _ENTROPY] += log_sum - few[r + _MEAN] * per_sum
        for j in range(n_out):
            o = (first + j * RECORD) & MOST
            for r in range(n):
                p = room[o + _DRAW + r] * few[r + _SUM]
                room[o + _P + r] += p
                room[o + _Q + r] += p * (ONE - p)


@summing_apart
def _categorical(room, few, normals, places, n_out, n, draws_at, size):
    """Replace the logits' moments by the slopes of the loss in them; the log-likelihoods' sum."""
    disjoint()
    _softmax(room, few, normals, places, n_out, n, draws_at, N_PAIRS)
    n, n_draws, likelihood = n & _WHOLE, np.float32(2 * N_PAIRS), ZERO
    share = np.float32(-0.5 / N_PAIRS / size)
    for j in range(n_out):
        o = (places.mean + j * RECORD) & MOST
        y = (places.targets + j * RECORD) & MOST
        for r in range(n):
            of_row = share * room[y + Z_V + r]
            expected, q = n_draws * room[y + Z_M + r] - room[o + _P + r], room[o + _Q + r]
            room[o + G_M + r], room[o + G_V + r] = of_row * expected, -HALF * of_row * q
    weights = (places.targets + Z_V) & MOST
    for r in range(n):
        likelihood += room[weights + r] * few[r + _LIKELIHOOD]
    return likelihood / n_draws


@called
def _place_thresholds(theta, few, places):
    """Write what a step needs of every class: its upper end, log(1 - exp(-d)), and no row yet."""
    at, n, end = places.likelihood, places.n_thresholds, 0.0
    ends, log_gaps, counts = RECORD, RECORD + n + 1, RECORD + 2 * (n + 1)
    for k in range(n + 1):
        few[ends + k], few[log_gaps + k], few[counts + k] = _NONE, ZERO, ZERO
    for k in range(n):
        gap = math.exp(theta[at + k]) + LEAST_GAP
        end = end + gap if k > 0 else float(theta[at])
        few[ends + k] = end
        if k > 0:
            few[log_gaps + k] = math.log(-math.expm1(-gap))


@inlined
def _sides(a, end):
    """Probabilities of lying below and above an end, and their logarithms."""
    away = a - end
    odds = exp(away)
    below, log_below = ONE / (ONE + odds), -log1p(odds)
    return below, odds * below, log_below, away + log_below


@summing_apart
def _cumulative(gradient, room, few, normals, places, n, draws_at, size):
    """Replace the latent's moments by the slopes of the loss in them; the log-likelihoods' sum.

    draws_at
        Where in `normals` the draws begin.
    """
    disjoint()
    n, o, y = n & _WHOLE, places.mean & MOST, places.targets & MOST
    c, share = places.n_thresholds + 1, np.float32(-0.5 / N_PAIRS / size)
    likelihood, in_all = ZERO, 0.0
    for r in range(n):
        few[r + _STD] = math.sqrt(room[o + Z_V + r])
        few[r + _SLOPE], few[r + _CURVE], few[r + _LIKELIHOOD] = ZERO, ZERO, ZERO
    for draw in range(2 * N_PAIRS):
        e = normals[draws_at + draw // 2 * c] * (ONE if draw % 2 == 0 else -ONE)
        for k in range(c - 1):
            end, class_k, of_end = few[RECORD + k], (y + k * RECORD) & MOST, ZERO
            for r in range(n):
                a = room[o + Z_M + r] + e * few[r + _STD]
                below, above, log_below, log_above = _sides(a, end)
                ends, begins = room[class_k + r], room[class_k + RECORD + r]
                pull = ends * above - begins * below
                few[r + _LIKELIHOOD] += ends * log_below + begins * log_above
                few[r + _CURVE] += (ends + begins) * below * above
                few[r + _SLOPE] += pull
                of_end += room[class_k + Z_V + r] * pull
            gradient[places.likelihood + k] += share * of_end
    for r in range(n):
        weight = room[y + Z_V + r]
        likelihood += weight * few[r + _LIKELIHOOD]
        room[o + G_M + r] = -share * weight * few[r + _SLOPE]
        room[o + G_V + r] = -HALF * share * weight * few[r + _CURVE]
    for k in range(c):
        class_k, count = (y + k * RECORD) & MOST, ZERO
        for r in range(n):
            count += room[class_k + Z_V + r] * room[class_k + r]
        few[RECORD + 2 * c + k] += count
        in_all += count * few[RECORD + c + k]
    return likelihood / (2 * N_PAIRS) + in_all


@called
def _slopes_of_thresholds(theta, gradient, few, places, size):
    """Turn the slopes in thresholds, which all rows have left, into those of their parameters."""
    at, n, of_later = places.likelihood, places.n_thresholds, 0.0
    for k in range(n - 1, 0, -1):
        of_later += gradient[at + k]
        width, count = math.exp(theta[at + k]), few[RECORD + 2 * (n + 1) + k]
        gradient[at + k] = width * (of_later - count / size / math.expm1(width + LEAST_GAP))
    gradient[at] += of_later


@called
def _expected_of_cumulative(room, few, normals, places, n, n_pairs):
    """Write sums over draws of probabilities, next to the targets, and of entropies.

    n_pairs
        Of draws, which `normals` begin with, a number for each class; the first is the latent's.
    """
    disjoint()
    n, o, y, c = n & _WHOLE, places.mean & MOST, places.targets & MOST, places.n_thresholds + 1
    for r in range(n):
        few[r + _STD], few[r + _ENTROPY] = math.sqrt(room[o + Z_V + r]), ZERO
    for k in range(c):
        class_k = (y + k * RECORD + _P) & MOST
        for r in range(class_k, class_k + n):
            room[r] = ZERO
    for draw in range(2 * n_pairs):
        e = normals[draw // 2 * c] * (ONE if draw % 2 == 0 else -ONE)
        for r in range(n):
            few[r + _ABOVE], few[r + _LOG_ABOVE] = ONE, ZERO
        for k in range(c):
            class_k, end, log_gap = (y + k * RECORD) & MOST, few[RECORD + k], few[RECORD + c + k]
            gap = exp(log_gap)
            for r in range(n):
                a = room[o + Z_M + r] + e * few[r + _STD]
                below, next_above, log_below, log_next = _sides(a, end)
                p = few[r + _ABOVE] * below * gap
                few[r + _ENTROPY] -= p * (few[r + _LOG_ABOVE] + log_below + log_gap)
                room[class_k + _P + r] += p
                few[r + _ABOVE], few[r + _LOG_ABOVE] = next_above, log_next


@compiled
def advance_classes(work, rules, x, y, weight, order, size, first_step, losses):
    """Take a step of Adam for every row of `losses`; write total and data loss there, nats a row.

    order
        Row numbers, `size` for every step.
    """
    before, n_means, places = flush_subnormals(), work.sizes[0], work.places
    theta, derived, gradient, room = work.theta, work.derived, work.gradient, work.room
    normals, few, c = work.normals, work.few, y.shape[1]
    n_places = normals.shape[0] - N_PAIRS * c
    for s in range(losses.shape[0]):
        step = first_step + s
        kl_weight, likelihood = ramp(step / rules.n_steps, rules.kl_warm_up), 0.0
        price = prepare(theta, derived, work.pull, work.groups, work.modes, work.sizes, kl_weight)
        if places.n_thresholds > 0:
            _place_thresholds(theta, few, places)
        draws_at = step * _STRIDE % n_places
        for start in range(0, size, ROWS):
            count = size - start if size - start < ROWS else ROWS
            n = count + (-count & (BLOCK - 1))
            gather(room, x, y, weight, order, s * size + start, count, n, places.targets)
            forward(work.layers, theta, derived, room, n_means, n)
            if places.n_thresholds > 0:
                likelihood += _cumulative(gradient, room, few, normals, places, n, draws_at, size)
            else:
                likelihood += _categorical(room, few, normals, places, c, n, draws_at, size)
            backward(work.layers, theta, derived, gradient, room, n_means, n)
        if places.n_thresholds > 0:
            _slopes_of_thresholds(theta, gradient, few, places, size)
        descend(
            theta, work.slope, work.square, derived, gradient, work.pull, work.sizes, kl_weight,
            rules.n_total, (float(step), rules.n_steps, rules.step_size),
        )  # fmt: skip
        losses[s, 1] = -likelihood / size
        losses[s, 0] = -likelihood / size + price / rules.n_total
    restore(before)


@compiled
def evaluate_classes(work, x, y, weight, order, n_pairs, proba, entropy):
    """Write expected probabilities and entropies at every row.

    y, weight
        Of no columns and no rows.
    order
        Numbers of the rows, one after another.
    n_pairs
        Of draws, which `normals` begin with.
    proba, entropy
        (n, c) and (n, 1).
    """
    before, places, room, few = flush_subnormals(), work.places, work.room, work.few
    c, per_draw, is_ordered = proba.shape[1], 0.5 / n_pairs, places.n_thresholds > 0
    derive(work.theta, work.derived, work.sizes)
    if is_ordered:
        _place_thresholds(work.theta, few, places)
    first = places.targets if is_ordered else places.mean
    for start in range(0, x.shape[0], ROWS):
        count = x.shape[0] - start
        count = count if count < ROWS else ROWS
        n = count + (-count & (BLOCK - 1))
        gather(room, x, y, weight, order, start, count, n, places.targets)
        forward(work.layers, work.theta, work.derived, room, work.sizes[0], n)
        if is_ordered:
            _expected_of_cumulative(room, few, work.normals, places, n, n_pairs)
        else:
            _softmax(room, few, work.normals, places, c, n, 0, n_pairs)
        for r in range(count):
            entropy[start + r, 0] = per_draw * few[r + _ENTROPY]
            for k in range(c):
                proba[start + r, k] = per_draw * room[first + k * RECORD + _P + r]
    restore(before)
