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

from bayesprop.simd.floats import exp, log, log1p, square_root
from bayesprop.simd.lanes import (
    called,
    compiled,
    inlined,
    load_floats,
    select,
    spread_at,
    store,
    total,
)
from bayesprop.simd.references import reference_to
from bayesprop.simd.subnormals import flush_subnormals, restore
from bayesprop.tabular_default.kernel_adam import (
    derive,
    descend,
    descend_plainly,
    prepare,
    rates_of,
)
from bayesprop.tabular_default.kernel_member import gather
from bayesprop.tabular_default.kernel_network import (
    BLOCK,
    backward,
    forward,
    job_at,
    last_layer,
    layer_at,
    least,
    products,
)
from bayesprop.tabular_default.kernel_outputs import gather_inputs, scatter
from bayesprop.tabular_default.settings import LEAST_GAP

N_PAIRS = 2
"""Of draws of every logit, a step."""

_STRIDE = 7919  # between the places in the table of normals at which steps begin
_NONE = 1e30  # where the last class ends


@called
def _softmax(work, block, draws_at, n_pairs):
    """Write the sums of p and of p (1 - p) over draws of the logits; two more by row.

    Of the log-likelihoods, and of the negative entropies.

    draws_at
        Where in `normals` the draws begin, a number for each class.
    """
    room, normals, places = work.room, work.normals, work.places
    last = last_layer(work)
    n_out, to = last.n_out, block * last.out_step
    m_at, v_at, y_at = last.out_m + to, last.out_v + to, places.y + block * n_out * BLOCK
    size = n_out * BLOCK
    a_at, p_at, q_at = places.sums, places.sums + size, places.sums + 2 * size
    nothing = 0.0 * load_floats(room, places.weight)
    for k in range(0, size, BLOCK):
        store(room, p_at + k, nothing)
        store(room, q_at + k, nothing)
    likelihood, negative_entropy = nothing, nothing
    for draw in range(2 * n_pairs):
        e_at, sign = draws_at + draw // 2 * n_out, 1.0 - 2.0 * (draw % 2)
        top = nothing - 1e30
        for j in range(n_out):
            k = BLOCK * j
            std = square_root(load_floats(room, v_at + k))
            a = load_floats(room, m_at + k) + (sign * spread_at(normals, e_at + j)) * std
            store(room, a_at + k, a)
            top = select(a > top, a, top)
        whole, chosen, weighted = nothing, nothing, nothing
        for k in range(0, size, BLOCK):
            a = load_floats(room, a_at + k) - top
            p = exp(a)
            chosen = chosen + a * load_floats(room, y_at + k)
            whole = whole + p
            weighted = weighted + p * a
            store(room, a_at + k, p)
        per_whole, log_whole = 1.0 / whole, log(whole)
        likelihood = likelihood + (chosen - log_whole)
        negative_entropy = negative_entropy + (weighted * per_whole - log_whole)
        for k in range(0, size, BLOCK):
            p = load_floats(room, a_at + k) * per_whole
            store(room, p_at + k, load_floats(room, p_at + k) + p)
            store(room, q_at + k, load_floats(room, q_at + k) + p * (1.0 - p))
    return likelihood, negative_entropy


@called
def _categorical(work, block, draws_at, per_row):
    """Replace the logits' moments by the slopes of the loss in them; the log-likelihoods' sum.

    per_row
        -1 / number of rows.
    """
    room, places = work.room, work.places
    last, n_draws = last_layer(work), 2.0 * N_PAIRS
    size, to = last.n_out * BLOCK, block * last.out_step
    m_at, v_at, y_at = last.out_m + to, last.out_v + to, places.y + block * size
    p_at, q_at = places.sums + size, places.sums + 2 * size
    likelihood, _ = _softmax(work, block, draws_at, N_PAIRS)
    weight = load_floats(room, places.weight + block * BLOCK)
    share = (per_row / n_draws) * weight
    for k in range(0, size, BLOCK):
        expected = n_draws * load_floats(room, y_at + k)
        store(room, m_at + k, share * (expected - load_floats(room, p_at + k)))
        store(room, v_at + k, (0.0 - 0.5) * share * load_floats(room, q_at + k))
    return total(weight * likelihood) / n_draws


@called
def _expected_of_categorical(work, block, n_pairs):
    """Write expected probabilities, from `sums` on by one number a class, and before them entropy.

    n_pairs
        Of draws, which `normals` begin with.
    """
    room, sums, n_draws = work.room, work.places.sums, 2.0 * n_pairs
    size = last_layer(work).n_out * BLOCK
    _, negative_entropy = _softmax(work, block, 0, n_pairs)
    for k in range(sums + size, sums + 2 * size, BLOCK):
        store(room, k, load_floats(room, k) / n_draws)
    store(room, sums, (0.0 - negative_entropy) / n_draws)


@called
def _place_thresholds(work):
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
def _cumulative(work, block, draws_at, per_row):
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
def _descend_thresholds(work, per_row, rates):
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
def _expected_of_cumulative(work, block, n_pairs):
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


@compiled
def advance_classes(work, rules, x, y, weight, order, size, first_step, losses):
    """Take a step of Adam for every row of `losses`; write total and data loss there, nats a row.

    order
        Row numbers, `size` for every step.
    """
    work, before = reference_to(work), flush_subnormals()
    n_layers, n_blocks = work.layers.shape[0], (size + BLOCK - 1) // BLOCK
    is_ordered = work.places.n_thresholds > 0
    n_places = work.normals.shape[0] - N_PAIRS * y.shape[1]
    for s in range(losses.shape[0]):
        step = first_step + s
        kl_weight = least(1.0, step / rules.n_steps / rules.kl_warm_up)
        price = prepare(work, kl_weight)
        gather(work, x, y, weight, order, s * size, size)
        if is_ordered:
            _place_thresholds(work)
        likelihood = 0.0
        for block in range(n_blocks):
            forward(work, 0, n_layers, block)
            draws_at = step * _STRIDE % n_places
            if is_ordered:
                likelihood += _cumulative(work, block, draws_at, -1.0 / size)
            else:
                likelihood += _categorical(work, block, draws_at, -1.0 / size)
            backward(work, 0, n_layers, block)
        for job in range(work.jobs.shape[0]):
            products(work, job_at(work.jobs, job), n_blocks)
        rates = rates_of(step, rules.n_steps, rules.step_size)
        descend(work, kl_weight, rates, rules)
        if is_ordered:
            _descend_thresholds(work, -1.0 / size, rates)
        losses[s, 1] = -likelihood / size
        losses[s, 0] = losses[s, 1] + price / rules.n_total
    restore(before)


@compiled
def evaluate_classes(work, x, size, n_pairs, proba, entropy):
    """Write expected probabilities and entropies at every row, `size` rows of x at a time.

    n_pairs
        Of draws, which `normals` begin with.
    proba, entropy
        (n, c) and (n, 1).
    """
    work, before = reference_to(work), flush_subnormals()
    n_layers, room, sums = work.layers.shape[0], work.room, work.places.sums
    is_ordered = work.places.n_thresholds > 0
    for depth in range(n_layers):
        derive(work, layer_at(work.layers, depth))
    if is_ordered:
        _place_thresholds(work)
    for start in range(0, x.shape[0], size):
        n = least(size, x.shape[0] - start)
        gather_inputs(work, x, None, start, n)
        for block in range((n + BLOCK - 1) // BLOCK):
            forward(work, 0, n_layers, block)
            if is_ordered:
                _expected_of_cumulative(work, block, n_pairs)
            else:
                _expected_of_categorical(work, block, n_pairs)
            first, count = start + BLOCK * block, least(BLOCK, n - BLOCK * block)
            scatter(room, sums + BLOCK * proba.shape[1], proba, first, count)
            scatter(room, sums, entropy, first, count)
    restore(before)
