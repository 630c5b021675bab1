"""The categorical likelihood of classes without order: E[log softmax_y(a)], a ~ N(m, v).

By normal draws of each independent logit and their negatives, fresh at every step and the same for
all rows and networks. The slopes are those of the expectation: E[1(y) - softmax] in m, and half the
curvature, -E[p (1 - p)] / 2, in v (Price 1958).

The arrays are those of `kernel_network.py`; targets are one-hot. All is float32.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from bayesprop.moments.network_ensemble.kernel_network import BLOCK, last_layer
from bayesprop.simd.floats import exp, log, square_root
from bayesprop.simd.lanes import called, load_floats, select, spread_at, store, total

N_PAIRS = 2
"""Of draws of every logit, a step."""


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
def outputs(work, block, draws_at, per_row):
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
def expectations(work, block, n_pairs):
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
