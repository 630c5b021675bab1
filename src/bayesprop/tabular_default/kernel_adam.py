"""Priors of the weights and steps of Adam, sixteen parameters at a time.

What `networks.py` says of the priors, whose groups' best variances need no derivative,
and Adam (Kingma & Ba 2015). The arrays are those of `kernel_network.py`, and

pull
    One over the prior variance, in the places of the weights.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math

from bayesprop.simd.floats import exp, square_root
from bayesprop.simd.lanes import called, inlined, load_floats, spread_at, store, total
from bayesprop.tabular_default.kernel_network import BLOCK, layer_at
from bayesprop.tabular_default.settings import LOG_WIDTH, SHAPE, WIDTH_PRECISION

BY_INPUT, BY_MATRIX, BY_OUTPUT, FIXED = 0, 1, 2, 3
"""Which weights share a prior variance; FIXED: it is given."""

_MEAN_DECAY, _SQUARE_DECAY, _EPSILON = 0.9, 0.999, 1e-8


@inlined
def _derive(work, m_at, s_at, n):
    """Write squares and variances of n parameters."""
    for k in range(0, n, BLOCK):
        m = load_floats(work.theta, m_at + k)
        store(work.derived, m_at + k, m * m)
        store(work.derived, s_at + k, exp(2.0 * load_floats(work.theta, s_at + k)))


@called
def _sum(values, at, n):
    """Sum of n of the values."""
    lanes = 0.0 * spread_at(values, at)
    whole = n - n % BLOCK
    for k in range(0, whole, BLOCK):
        lanes = lanes + load_floats(values, at + k)
    whole_sum = float(total(lanes))
    for k in range(at + whole, at + n):
        whole_sum += values[k]
    return whole_sum


@inlined
def _squares(work, m_at, s_at, n):
    """Sum of E[w²] of n parameters that lie side by side."""
    return _sum(work.derived, m_at, n) + _sum(work.derived, s_at, n)


@inlined
def _fill(values, at, n, value):
    """Write n or up to fifteen more."""
    lanes = 0.0 * load_floats(values, 0) + value
    for k in range(at, at + n, BLOCK):
        store(values, k, lanes)


@inlined
def _group(squares, n, mode):
    """One over the best variance of a group of n weights, and what the group costs, nats."""
    half = 0.5 * squares + (SHAPE + 1.0) * mode
    strength = 0.5 * n + SHAPE + 1.0
    return strength / half, strength * (math.log(half / strength) + 1.0)


@inlined
def _fixed(squares, n, var):
    return 1.0 / var, 0.5 * (squares / var + n * (math.log(var) - 1.0))


@inlined
def _group_by_output(work, w, s, n_in, n_out, spread):
    """Write the pull on weights from n_in inputs, a group for every output; what it costs."""
    price = 0.0
    for j in range(n_out):
        squares = 0.0
        for k in range(j, n_in * n_out, n_out):
            squares += work.derived[w + k] + work.derived[s + k]
        pull, cost = _group(squares, n_in, spread / n_in)
        for k in range(j, n_in * n_out, n_out):
            work.pull[w + k] = pull
        price += cost
    return price


@called
def derive(work, layer):
    """Write a layer's squares of means, variances and squared widths."""
    n_in, n_out, widths = layer.n_in, layer.n_out, layer.widths
    _derive(work, layer.w_m, layer.w_s, n_in * n_out)
    _derive(work, layer.b_m, layer.b_s, n_out)
    if widths >= 0:
        for k in range(widths, widths + n_out, BLOCK):
            store(work.derived, k, exp(2.0 * load_floats(work.theta, k)))


@called
def _prepare(work, layer, spread):
    """Derive, and write the pull of a layer's prior; its KL and the pull on the biases.

    spread
        Of the prior, as in `Priors`.
    """
    n_in, n_out, groups, n_units = layer.n_in, layer.n_out, layer.groups, layer.n_units
    w, s, b, t, n = layer.w_m, layer.w_s, layer.b_m, layer.b_s, layer.n_in * layer.n_out
    derive(work, layer)
    price = -_sum(work.theta, s, n) - _sum(work.theta, t, n_out)
    if layer.widths >= 0:
        of_widths = 0.0  # -log N(log width | LOG_WIDTH, 1 / WIDTH_PRECISION), but for constants
        for k in range(layer.widths, layer.widths + n_out):
            away = float(work.theta[k]) - LOG_WIDTH
            of_widths += 0.5 * WIDTH_PRECISION * away * away
        price += of_widths
    if groups == BY_INPUT:
        for i in range(n_in):
            row = i * n_out
            squares = _squares(work, w + row, s + row, n_out)
            pull, cost = _group(squares, n_out, spread / n_in)
            _fill(work.pull, w + row, n_out, pull)
            price += cost
    elif groups == BY_OUTPUT:
        price += _group_by_output(work, w, s, n_units, n_out, spread)
        if n_in > n_units:
            past = n_units * n_out
            n_direct = n_in - n_units
            price += _group_by_output(work, w + past, s + past, n_direct, n_out, spread)
    else:
        squares = _squares(work, w, s, n)
        if groups == FIXED:
            pull, cost = _fixed(squares, n, spread / n_in)
        else:
            pull, cost = _group(squares, n, spread / n_in)
        _fill(work.pull, w, n, pull)
        price += cost
    squares = _squares(work, b, t, n_out)
    if groups == FIXED:
        pull, cost = _fixed(squares, n_out, 1.0)
    else:
        pull, cost = _group(squares, n_out, 1.0)
    return price + cost, pull


@called
def prepare(work, kl_weight):
    """Do so with all layers; the sum of their KL, that of the mean network's times its weight."""
    price = 0.0
    for depth in range(work.layers.shape[0]):
        kl, pull = _prepare(work, layer_at(work.layers, depth), work.spreads[depth])
        work.bias_pulls[depth] = pull
        price += (kl_weight if depth < work.places.n_mean_layers else 1.0) * kl
    return price


@inlined
def rates_of(step, n_steps, step_size):
    """Size of a step of Adam, which falls by a cosine to 1 %, and its two corrections in it."""
    cosine = math.cos(math.pi * step / n_steps)
    size = step_size * (0.01 + 0.495 * (1.0 + cosine))
    return size / (1.0 - _MEAN_DECAY ** (step + 1.0)), 1.0 / (1.0 - _SQUARE_DECAY ** (step + 1.0))


@inlined
def _adam(state, at, g, rates):
    """Move sixteen parameters: theta, slopes and their squares are read once, ahead of the loop."""
    theta, slope, slope_square = state
    size, correction = rates
    m = _MEAN_DECAY * load_floats(slope, at) + (1.0 - _MEAN_DECAY) * g
    s = _SQUARE_DECAY * load_floats(slope_square, at) + (1.0 - _SQUARE_DECAY) * g * g
    store(slope, at, m)
    store(slope_square, at, s)
    moved = size * m / (square_root(correction * s) + _EPSILON)
    store(theta, at, load_floats(theta, at) - moved)


@called
def _descend(work, layer, bias_pull, weight, rates):
    """Move the parameters of a layer; `weight` is that of its KL in the loss."""
    theta, gradient, pull, derived = work.theta, work.gradient, work.pull, work.derived
    state = theta, work.slope, work.slope_square
    w, s, b, t, n = layer.w_m, layer.w_s, layer.b_m, layer.b_s, layer.n_in * layer.n_out
    cross = w + theta.size
    for k in range(0, n, BLOCK):
        m, var, toward_0 = (
            load_floats(theta, w + k),
            load_floats(derived, s + k),
            weight * load_floats(pull, w + k),
        )
        of_m = load_floats(gradient, w + k) + m * (
            2.0 * load_floats(gradient, cross + k) + toward_0
        )
        of_s = var * (2.0 * load_floats(gradient, s + k) + toward_0) - weight
        _adam(state, w + k, of_m, rates)
        _adam(state, s + k, of_s, rates)
    toward_0 = weight * bias_pull
    for k in range(0, layer.n_out, BLOCK):
        of_m = load_floats(gradient, b + k) + toward_0 * load_floats(theta, b + k)
        of_s = load_floats(derived, t + k) * (2.0 * load_floats(gradient, t + k) + toward_0)
        _adam(state, b + k, of_m, rates)
        _adam(state, t + k, of_s - weight, rates)
    if layer.widths >= 0:
        for k in range(layer.widths, layer.widths + layer.n_out, BLOCK):
            away = load_floats(theta, k) - LOG_WIDTH
            of_width = 2.0 * load_floats(derived, k) * load_floats(gradient, k)
            _adam(state, k, of_width + (weight * WIDTH_PRECISION) * away, rates)


@called
def descend(work, kl_weight, rates, rules):
    """Move the parameters of all layers, the mean network's by a share of its KL."""
    for depth in range(work.layers.shape[0]):
        share = (kl_weight if depth < work.places.n_mean_layers else 1.0) / rules.n_total
        _descend(work, layer_at(work.layers, depth), work.bias_pulls[depth], share, rates)


@inlined
def descend_plainly(work, at, n, rates):
    """Move n parameters by their slopes alone."""
    state = work.theta, work.slope, work.slope_square
    for k in range(at, at + n, BLOCK):
        _adam(state, k, load_floats(work.gradient, k), rates)
