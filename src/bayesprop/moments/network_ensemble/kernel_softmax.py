"""The compiled loops of a network that predicts classes: steps of training, and probabilities.

The network maximises E[log softmax_y(a)] over independent logits a ~ N(m, v), by normal draws of
each logit and their negatives, fresh at every step and the same for all rows and networks. The
slopes are those of the expectation: E[1(y) - softmax] in m, and half the curvature,
-E[p (1 - p)] / 2, in v (Price 1958).

The arrays are those of `kernel_network.py`; targets are one-hot. All is float32.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from bayesprop.moments.network_ensemble.kernel_adam import derive, descend, prepare, rates_of
from bayesprop.moments.network_ensemble.kernel_member import gather
from bayesprop.moments.network_ensemble.kernel_network import (
    BLOCK,
    N_OUT,
    OUT_M,
    OUT_STEP,
    OUT_V,
    backward,
    forward,
    products,
)
from bayesprop.moments.network_ensemble.kernel_outputs import gather_inputs, scatter
from bayesprop.simd.floats import exp, log, square_root
from bayesprop.simd.lanes import called, compiled, load_floats, select, spread_at, store, total

N_PAIRS = 2
"""Of draws of every logit, a step."""
_STRIDE = 7919  # between the places in the table of normals at which steps begin


@called
def _softmax(work, block, draws_at, n_pairs):
    """Write the sums of p and of p (1 - p) over draws of the logits; two more by row.

    Of the log-likelihoods, and of the negative entropies.

    draws_at
        Where in `normals` the draws begin, a number for each class.
    """
    room, normals, places = work.room, work.normals, work.places
    last = work.layers[work.layers.shape[0] - 1]
    n_out, to = last[N_OUT], block * last[OUT_STEP]
    m_at, v_at, y_at = last[OUT_M] + to, last[OUT_V] + to, places.y + block * n_out * BLOCK
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
def _outputs(work, block, draws_at, per_row):
    """Replace the logits' moments by the slopes of the loss in them; the log-likelihoods' sum.

    per_row
        -1 / number of rows.
    """
    room, places = work.room, work.places
    last, n_draws = work.layers[work.layers.shape[0] - 1], 2.0 * N_PAIRS
    size, to = last[N_OUT] * BLOCK, block * last[OUT_STEP]
    m_at, v_at, y_at = last[OUT_M] + to, last[OUT_V] + to, places.y + block * size
    p_at, q_at = places.sums + size, places.sums + 2 * size
    likelihood, _ = _softmax(work, block, draws_at, N_PAIRS)
    weight = load_floats(room, places.weight + block * BLOCK)
    share = (per_row / n_draws) * weight
    for k in range(0, size, BLOCK):
        expected = n_draws * load_floats(room, y_at + k)
        store(room, m_at + k, share * (expected - load_floats(room, p_at + k)))
        store(room, v_at + k, (0.0 - 0.5) * share * load_floats(room, q_at + k))
    return total(weight * likelihood) / n_draws


@compiled
def advance_classes(work, rules, x, y, weight, order, size, first_step, losses):
    """Take a step of Adam for every row of `losses`; write total and data loss there, nats a row.

    order
        Row numbers, `size` for every step.
    """
    layers, n_blocks = work.layers, (size + BLOCK - 1) // BLOCK
    n_places = work.normals.shape[0] - N_PAIRS * y.shape[1]
    for s in range(losses.shape[0]):
        step = first_step + s
        kl_weight = min(1.0, step / rules.n_steps / rules.kl_warm_up)
        price = 0.0
        for depth in range(layers.shape[0]):
            kl, pull = prepare(work, layers[depth], work.spreads[depth], rules)
            work.bias_pulls[depth] = pull
            price += kl_weight * kl
        gather(work, x, y, weight, order, s * size, size)
        likelihood = 0.0
        for block in range(n_blocks):
            forward(work, layers, block)
            likelihood += _outputs(work, block, step * _STRIDE % n_places, -1.0 / size)
            backward(work, layers, block)
        for job in range(work.jobs.shape[0]):
            products(work, work.jobs[job], n_blocks)
        rates = rates_of(step, rules.n_steps, rules.step_size)
        for depth in range(layers.shape[0]):
            share = kl_weight / rules.n_total
            descend(work, layers[depth], work.bias_pulls[depth], share, rates, rules)
        losses[s, 1] = -likelihood / size
        losses[s, 0] = losses[s, 1] + price / rules.n_total


@compiled
def evaluate_classes(work, x, size, n_pairs, proba, entropy):
    """Write expected probabilities and entropies at every row, `size` rows of x at a time.

    n_pairs
        Of draws, which `normals` begin with.
    proba, entropy
        (n, c) and (n, 1).
    """
    layers, room, places = work.layers, work.room, work.places
    n_out, n_draws = layers[layers.shape[0] - 1][N_OUT], 2.0 * n_pairs
    p_at = places.sums + n_out * BLOCK
    for depth in range(layers.shape[0]):
        derive(work, layers[depth])
    for start in range(0, x.shape[0], size):
        n = min(size, x.shape[0] - start)
        gather_inputs(work, x, start, n)
        for block in range((n + BLOCK - 1) // BLOCK):
            forward(work, layers, block)
            _, negative_entropy = _softmax(work, block, 0, n_pairs)
            for k in range(0, n_out * BLOCK, BLOCK):
                store(room, p_at + k, load_floats(room, p_at + k) / n_draws)
            store(room, places.sums, (0.0 - negative_entropy) / n_draws)
            first, count = start + BLOCK * block, min(BLOCK, n - BLOCK * block)
            scatter(room, p_at, proba, first, count)
            scatter(room, places.sums, entropy, first, count)
