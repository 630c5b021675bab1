"""The compiled loops of a network that predicts classes: steps of training, and probabilities.

The likelihood is categorical (`kernel_softmax`), or of ordered classes cumulative
(`kernel_cumulative`). Either has `outputs`, the slopes of the expected loss in the moments of what
the network says, and `expectations`, probabilities and entropies.

The arrays are those of `kernel_network.py`; targets are one-hot. All is float32.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from bayesprop.moments.network_ensemble import kernel_cumulative, kernel_softmax
from bayesprop.moments.network_ensemble.kernel_adam import derive, descend, prepare, rates_of
from bayesprop.moments.network_ensemble.kernel_member import gather
from bayesprop.moments.network_ensemble.kernel_network import (
    BLOCK,
    backward,
    forward,
    job_at,
    layer_at,
    least,
    products,
)
from bayesprop.moments.network_ensemble.kernel_outputs import gather_inputs, scatter
from bayesprop.moments.network_ensemble.kernel_softmax import N_PAIRS
from bayesprop.simd.lanes import compiled
from bayesprop.simd.references import reference_to
from bayesprop.simd.subnormals import flush_subnormals, restore

_STRIDE = 7919  # between the places in the table of normals at which steps begin

_categorical, _expected_of_categorical = kernel_softmax.outputs, kernel_softmax.expectations
_cumulative, _expected_of_cumulative = kernel_cumulative.outputs, kernel_cumulative.expectations
_place_thresholds = kernel_cumulative.place
_descend_thresholds = kernel_cumulative.descend


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
