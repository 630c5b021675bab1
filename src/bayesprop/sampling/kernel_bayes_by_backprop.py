"""Steps of Bayes by Backprop in compiled loops: what `bayes_by_backprop.update` does, by hand.

For plain networks of rectified, leaky or linear units, Gaussian noise of known variance, one draw a
step, Adam. All is float32. The parameters of the posterior lie one after another in flat vectors,
layer by layer as in `model.networks`, (n_in + 1, n_out) each; everything that belongs to a
parameter lies at the same place of other vectors. Rows of a batch lie in `room`, a table of
activations a layer, whose column behind the last one holds the 1 of the biases.

The inputs of a batch are kept as lists of what is not zero, by row and by column: contexts of
bandits are mostly zeros.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any, NamedTuple

from bayesprop.numerics.kernel_floats import at_least, at_most, exp, inverse_square_root
from bayesprop.numerics.kernel_lanes import (
    FLOATS16,
    FLOATS32,
    absolute,
    called,
    compiled,
    inlined,
    load_floats,
    load_floats32,
    polynomial,
    select,
    store,
)
from bayesprop.numerics.softplus import ODD
from bayesprop.sampling.kernel_fast_normal import pair
from bayesprop.sampling.kernel_products import (
    list_what_is_not_0,
    multiply,
    multiply_sparse,
    turn,
)

LANES, _TWICE = FLOATS16.count, FLOATS32.count
_MEAN_DECAY, _SQUARE_DECAY, _EPSILON = 0.9, 0.999, 1e-8
_FURTHEST = 60.0  # log odds beyond which the narrow part of a prior pulls no more
_artanh = polynomial(tuple(2.0 * power for power in reversed(ODD)))

# The columns of the table of layers. WEIGHTS: place in the vectors. TURNED: of the transpose,
# whose rows are TURNED_STEP apart. IN: of the inputs in `room`. OUT: of the slopes in the outputs,
# of the last layer first the outputs themselves.
N_IN, N_OUT, WEIGHTS, TURNED, TURNED_STEP, IN, IN_STEP, OUT, OUT_STEP = range(9)

# Places in `Work.beliefs`: of the posterior, with the averages of slopes and of their squares that
# Adam keeps; then the noise of the present draw, std, and the slope of std in rho.
MEAN, MEAN_SLOPE, MEAN_SQUARE, RHO, RHO_SLOPE, RHO_SQUARE, _NOISE, _STD, _STD_SLOPE = range(
    0, 9 * _TWICE, _TWICE
)
N_NUMBERS = 9
PIECE = 256


class Work(NamedTuple):
    """All that steps need, and what they change.

    beliefs
        Of every parameter the nine numbers named above, each for 32 parameters side by side: one
        stream through the memory, where nine would get in each other's way.
    odds
        Of the wide part of the prior at a piece of the weights, and 1 more.
    weights, turned
        What was drawn, and the transposes of all layers but the first.
    slopes
        Of the likelihood's share of the cost in the weights.
    room
        Activations and slopes of a batch.
    index, value, counts; rows, values, lengths
        What is not zero in the inputs of a batch, row by row, and column by column.
    layers
        See the columns above.
    """

    beliefs: Any
    odds: Any
    weights: Any
    turned: Any
    slopes: Any
    room: Any
    index: Any
    value: Any
    counts: Any
    rows: Any
    values: Any
    lengths: Any
    layers: Any


class Rules(NamedTuple):
    """What all steps obey, float64.

    leak
        Slope of the units below zero.
    is_mixture
        1: the prior is a scale mixture, and the KL sampled; 0: Gaussian, the KL in closed form.
    wide_prec, sharper, log_odds
        Precision of the prior or of its wide part; of a mixture half of what the narrow part has
        more, and the log odds of the wide part at weight 0.
    """

    step_size: float
    noise_prec: float
    leak: float
    is_mixture: int
    wide_prec: float
    sharper: float
    log_odds: float


@inlined
def _draw_some(work, begin, end, first, second):
    """Draw weights, and as many from the middle on: m + softplus(rho) e (section 3.2)."""
    half = _middle(work)
    for k in range(begin, end, _TWICE):
        cosines, sines = pair(first, second, k)
        store(work.beliefs, N_NUMBERS * k + _NOISE, cosines)
        store(work.beliefs, N_NUMBERS * (half + k) + _NOISE, sines)
    _weigh(work, begin, end)
    _weigh(work, half + begin, half + end)


@inlined
def _middle(work):
    return work.beliefs.size // (2 * N_NUMBERS)


@inlined
def _weigh(work, begin, end):
    beliefs = work.beliefs
    for k in range(begin, end, _TWICE):
        at = N_NUMBERS * k
        store(beliefs, at + _STD, exp(0.0 - absolute(load_floats32(beliefs, at + RHO))))
    for k in range(begin, end, _TWICE):
        at = N_NUMBERS * k
        rho, small = load_floats32(beliefs, at + RHO), load_floats32(beliefs, at + _STD)
        per_both = 1.0 / ((2.0 + small) * (1.0 + small))
        s = small * (1.0 + small) * per_both
        std = at_least(rho, 0.0) + s * _artanh(s * s)
        slope = select(rho > 0.0, 1.0, small) * (2.0 + small) * per_both
        store(beliefs, at + _STD, std)
        store(beliefs, at + _STD_SLOPE, slope)
        drawn = load_floats32(beliefs, at + MEAN) + std * load_floats32(beliefs, at + _NOISE)
        store(work.weights, k, drawn)


@called
def _draw(work, first, second):
    """Draw all weights, by a key of two words."""
    half = _middle(work)
    for begin in range(0, half, PIECE):
        _draw_some(work, begin, min(begin + PIECE, half), first, second)


@called
def _turn(work):
    """Write the transposes of all layers but the first."""
    for depth in range(1, work.layers.shape[0]):
        layer = work.layers[depth]
        turn(
            work.weights, layer[WEIGHTS], layer[N_IN], layer[N_OUT],
            work.turned, layer[TURNED], layer[TURNED_STEP],
        )  # fmt: skip


@called
def _gather(work, x, batch):
    """List what is not zero in the rows of a batch, and the 1 of the biases."""
    n_in, size = work.layers[0, N_IN], batch.size
    for i in range(n_in):
        work.lengths[i] = 0
    for r in range(size):
        row, begin = batch[r], r * (n_in + 1)
        end = list_what_is_not_0(x, row * n_in, n_in, work.index, work.value, begin)
        work.index[end] = n_in
        work.value[end] = 1.0
        work.counts[r] = end + 1 - begin
        for k in range(begin, end):
            i = work.index[k]
            at = i * size + work.lengths[i]
            work.rows[at] = r
            work.values[at] = work.value[k]
            work.lengths[i] += 1
        work.rows[n_in * size + r] = r
        work.values[n_in * size + r] = 1.0
    work.lengths[n_in] = size


@called
def _activate(room, at, step, n_rows, leak):
    """Replace numbers below zero; 0 and 1 stay."""
    for k in range(at, at + step * n_rows, LANES):
        z = load_floats(room, k)
        store(room, k, select(z > 0.0, z, leak * z))


@called
def _forward(work, size, leak):
    """Send a batch through the drawn network; its outputs lie where the last slopes will."""
    room, last = work.room, work.layers.shape[0] - 1
    for depth in range(last + 1):
        layer = work.layers[depth]
        n_in, n_out = layer[N_IN], layer[N_OUT]
        to, step = layer[OUT], layer[OUT_STEP]
        if depth < last:
            to, step = work.layers[depth + 1][IN], work.layers[depth + 1][IN_STEP]
        if depth == 0:
            multiply_sparse(
                room, to, step, n_out, work.index, work.value, work.counts, size, n_in + 1,
                work.weights, layer[WEIGHTS], n_out,
            )  # fmt: skip
        else:
            multiply(
                room, to, step, size, n_out, room, layer[IN], layer[IN_STEP], 1,
                work.weights, layer[WEIGHTS], n_out, n_in + 1,
            )  # fmt: skip
        if depth < last:
            _activate(room, to, step, size, leak)


@called
def _miss(work, y, batch, per_miss):
    """Replace the outputs by the slopes of the cost in them."""
    layer = work.layers[work.layers.shape[0] - 1]
    for r in range(batch.size):
        at = layer[OUT] + r * layer[OUT_STEP]
        for j in range(layer[N_OUT]):
            work.room[at + j] = per_miss * (work.room[at + j] - y[batch[r], j])


@called
def _gate(room, at, active, step, n_rows, leak):
    """Send slopes from above the units to below."""
    for k in range(0, step * n_rows, LANES):
        slope = load_floats(room, at + k)
        is_on = load_floats(room, active + k) > 0.0
        store(room, at + k, select(is_on, slope, leak * slope))


@called
def _backward(work, size, leak):
    """Write the slopes in all weights."""
    room = work.room
    for depth in range(work.layers.shape[0] - 1, 0, -1):
        layer, under = work.layers[depth], work.layers[depth - 1]
        n_in, n_out = layer[N_IN], layer[N_OUT]
        multiply(
            work.slopes, layer[WEIGHTS], n_out, n_in + 1, n_out, room, layer[IN], 1, layer[IN_STEP],
            room, layer[OUT], layer[OUT_STEP], size,
        )  # fmt: skip
        multiply(
            room, under[OUT], under[OUT_STEP], size, n_in, room, layer[OUT], layer[OUT_STEP], 1,
            work.turned, layer[TURNED], layer[TURNED_STEP], n_out,
        )  # fmt: skip
        _gate(room, under[OUT], layer[IN], layer[IN_STEP], size, leak)
    layer = work.layers[0]
    n_in, n_out = layer[N_IN], layer[N_OUT]
    multiply_sparse(
        work.slopes, layer[WEIGHTS], n_out, n_out, work.rows, work.values, work.lengths,
        n_in + 1, size, room, layer[OUT], layer[OUT_STEP],
    )  # fmt: skip


@inlined
def _average(beliefs, at, of_mean, of_rho):
    """Let Adam's averages of 32 slopes and of their squares follow (Kingma & Ba 2015)."""
    for average, square, g in ((MEAN_SLOPE, MEAN_SQUARE, of_mean), (RHO_SLOPE, RHO_SQUARE, of_rho)):
        m, s = load_floats32(beliefs, at + average), load_floats32(beliefs, at + square)
        store(beliefs, at + average, _MEAN_DECAY * m + (1.0 - _MEAN_DECAY) * g)
        store(beliefs, at + square, _SQUARE_DECAY * s + (1.0 - _SQUARE_DECAY) * g * g)


@inlined
def _learn_closed(work, begin, end, rules, share):
    """Take slopes; the prior is Gaussian, its KL in closed form."""
    beliefs, pull = work.beliefs, share * rules.wide_prec
    for k in range(begin, end, _TWICE):
        at = N_NUMBERS * k
        slope, std = load_floats32(work.slopes, k), load_floats32(beliefs, at + _STD)
        of_mean = slope + pull * load_floats32(beliefs, at + MEAN)
        of_std = slope * load_floats32(beliefs, at + _NOISE) + pull * std - share / std
        _average(beliefs, at, of_mean, of_std * load_floats32(beliefs, at + _STD_SLOPE))


@inlined
def _learn_sampled(work, begin, end, rules, share):
    """Take slopes; the prior is a scale mixture, at the drawn weights (eq. 3, 4 and 7)."""
    beliefs, weights = work.beliefs, work.weights
    for k in range(begin, end, _TWICE):
        w = load_floats32(weights, k)
        # Not further: a quotient below the normal numbers costs a hundred times one above.
        log_odds = at_most(rules.log_odds + rules.sharper * w * w, _FURTHEST)
        store(work.odds, k - begin, 1.0 + exp(log_odds))
    for k in range(begin, end, _TWICE):
        at = N_NUMBERS * k
        std, odds = load_floats32(beliefs, at + _STD), load_floats32(work.odds, k - begin)
        per_both = share / (std * odds)
        of_w = load_floats32(work.slopes, k) + load_floats32(weights, k) * (
            share * rules.wide_prec + 2.0 * rules.sharper * (std * per_both)
        )
        of_std = of_w * load_floats32(beliefs, at + _NOISE) - odds * per_both
        _average(beliefs, at, of_w, of_std * load_floats32(beliefs, at + _STD_SLOPE))


@inlined
def _move(work, begin, end, rates):
    """Take a step of Adam; one division for mean and rho, and no root."""
    beliefs, (size, correction) = work.beliefs, rates
    for k in range(begin, end, _TWICE):
        at = N_NUMBERS * k
        s = correction * load_floats32(beliefs, at + MEAN_SQUARE)
        t = correction * load_floats32(beliefs, at + RHO_SQUARE)
        a = s * inverse_square_root(s) + _EPSILON
        b = t * inverse_square_root(t) + _EPSILON
        sized = size / (a * b)
        of_mean = sized * b * load_floats32(beliefs, at + MEAN_SLOPE)
        of_rho = sized * a * load_floats32(beliefs, at + RHO_SLOPE)
        store(beliefs, at + MEAN, load_floats32(beliefs, at + MEAN) - of_mean)
        store(beliefs, at + RHO, load_floats32(beliefs, at + RHO) - of_rho)


def _descender(learn: Any) -> Any:
    """Make the loop that moves all parameters and draws the next weights.

    In pieces that stay close, and in short loops: a processor looks ahead so many instructions, and
    finds independent ones only where few depend on each other.
    """

    @called
    def descend_and_draw(work, rules, share, rates, first, second, is_back):
        half = _middle(work)
        last = (half - 1) // PIECE
        for piece in range(last + 1):
            begin = PIECE * (last - piece if is_back else piece)
            end = min(begin + PIECE, half)
            for shift in (0, half):
                learn(work, shift + begin, shift + end, rules, share)
                _move(work, shift + begin, shift + end, rates)
            _draw_some(work, begin, end, first, second)

    return descend_and_draw


_closed, _sampled = _descender(_learn_closed), _descender(_learn_sampled)


@compiled
def advance(work, rules, x, y, batches, keys, shares, first_step):
    """Take a step for every row of `batches`, row numbers of x, which is flat, and y.

    keys
        Two words a step, of which its weights are drawn, and two more.
    shares
        Of the KL in each step's cost.
    first_step
        Steps of Adam that were taken before.
    """
    size = batches.shape[1]
    _draw(work, keys[0, 0], keys[0, 1])
    for s in range(batches.shape[0]):
        batch = batches[s]
        _turn(work)
        _gather(work, x, batch)
        _forward(work, size, rules.leak)
        _miss(work, y, batch, rules.noise_prec / size)
        _backward(work, size, rules.leak)
        done = first_step + s + 1.0
        corrected = rules.step_size / (1.0 - _MEAN_DECAY**done)
        rates = corrected, 1.0 / (1.0 - _SQUARE_DECAY**done)
        share, first, second = shares[s] / size, keys[s + 1, 0], keys[s + 1, 1]
        is_back = s % 2 == 1  # what was seen last is still close
        if rules.is_mixture:
            _sampled(work, rules, share, rates, first, second, is_back)
        else:
            _closed(work, rules, share, rates, first, second, is_back)
