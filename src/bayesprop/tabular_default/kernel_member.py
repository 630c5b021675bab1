"""The compiled loop that trains one member: two losses in one sum, their slopes by hand.

The mean network maximises a bound of its expected log-likelihood of Student-t noise under the
noise own_log_noise + noise_weight h, h what the noise network says, with tails no heavier than
those of mean_least_dof: with heavy ones it would leave far rows alone that a better mean can reach.
The bound is Jensen's inequality on -log(1 + e): with e = exp(-l_m + l_v / 2) E[(y - f)²],

    E[log t(y | f, exp(l), dof)] >= log G((dof + 1) / 2) - log G(dof / 2)
                                    - [log(pi dof) + l_m + (dof + 1) log(1 + e / dof)] / 2

for l ~ N(l_m, l_v). dof -> infinity gives the Gaussian expectation, which is exact.
The noise network explains (m - y)², without v: the predictive adds v again, and noise that holds it
too is counted twice. Neither sends slopes to the other. The prior of the noise network has its
whole weight from the first step, that of the mean network grows to it.

The arrays are those of `kernel_network.py`; `ensemble_training.py` lays them out. All is
float32 but what is summed up once a step.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math
from typing import Any, NamedTuple

from bayesprop.simd.floats import at_most, exp, log1p, log_add_exp
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
    descend,
    descend_plainly,
    prepare,
    rates_of,
)
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
from bayesprop.tabular_default.kernel_outputs import gather_inputs
from bayesprop.tabular_default.settings import LEAST_DOF, TILT_LIMIT

_LOG_PI = math.log(math.pi)
N_NUMBERS, N_SUMS = 7, 5
_OWN, _SHARED, _OF_DOF, _OF_MEAN, _OF_NOISE = 0, 1, 2, 3, 4  # the sums over rows, by output


class Work(NamedTuple):
    """All that a member needs between calls and within a step.

    layers
        Each a `Layer`; of the mean network, then of the noise network.
    spreads
        Of the priors of these layers' weights: variances times the fan-in, see `Priors`.
    jobs
        What `products` has to do, each a `Job`.
    places
        See the `Places` below.
    numbers
        What a step says of each output, see `_constants_of_noise`.
    """

    theta: Any
    slope: Any
    slope_square: Any
    derived: Any
    gradient: Any
    pull: Any
    room: Any
    few: Any
    numbers: Any
    log_floor: Any
    normals: Any
    layers: Any
    spreads: Any
    bias_pulls: Any
    jobs: Any
    places: Any


class Places(NamedTuple):
    """Number of the mean network's layers and of thresholds; offsets in theta, and in room.

    In theta those of the noise and of the thresholds of ordered classes, see `kernel_classes`.
    """

    n_mean_layers: int
    n_thresholds: int
    log_noise: int
    own_log_noise: int
    raw_dof: int
    thresholds: int
    y: int
    weight: int
    sums: int
    ends: int


class Rules(NamedTuple):
    """Settings of a training run, float64. See `EnsembleSettings`."""

    n_steps: float
    step_size: float
    kl_warm_up: float
    noise_warm_up: float
    noise_share: float
    n_total: float
    mean_least_dof: float


@called
def gather(work, x, y, weight, order, start, size):
    """Copy a batch; lanes of the last block that are too many stay 0."""
    room, places, n_out = work.room, work.places, y.shape[1]
    gather_inputs(work, x, order, start, size)
    for r in range(size):
        row, at = order[start + r], places.y + r // BLOCK * n_out * BLOCK + r % BLOCK
        for j in range(n_out):
            room[at + BLOCK * j] = y[row, j]
        room[places.weight + r] = weight[row]


@inlined
def _log_gamma_ratio(a):
    """Log Gamma(a + 1/2) - log Gamma(a), a >= 1, to 3e-7, and its slope.

    The asymptotic series in 1 / (a + 3), carried down by the recurrence of the gamma function: no
    difference of large numbers.
    """
    r = 1.0 / (a + 3.0)
    shift = a * (a + 1.0) * (a + 2.0) / ((a + 0.5) * (a + 1.5) * (a + 2.5))
    r_2, r_4 = r * r, r * r * (r * r)
    value = math.log(shift) - 0.5 * math.log(r) - r / 8.0 + r * r_2 / 192.0 - r * r_4 / 640.0
    slope = 0.5 * r + r_2 / 8.0 - r_4 / 64.0 + r_2 * r_4 / 128.0
    slope += 1.0 / a - 1.0 / (a + 0.5)
    slope += 1.0 / (a + 1.0) - 1.0 / (a + 1.5)
    slope += 1.0 / (a + 2.0) - 1.0 / (a + 2.5)
    return value, slope


@inlined
def _constants_of_noise(work, j, rules):
    """Write what the bound needs of output j; its constant term, the slope of that in dof, ...

    ... and the constant term of the mean network's bound.

    One over the degrees of freedom, half of one more than they are, the two log noise variances,
    the floor; the first two once more, as the mean network takes them.
    """
    theta, numbers, places = work.theta, work.numbers, work.places
    raw = float(theta[places.raw_dof + j])
    dof = LEAST_DOF + (0.0 if raw < 0.0 else raw) + math.log1p(math.exp(-abs(raw)))
    at = N_NUMBERS * j
    numbers[at] = 1.0 / dof
    numbers[at + 1] = 0.5 * (dof + 1.0)
    numbers[at + 2] = theta[places.own_log_noise + j]
    numbers[at + 3] = theta[places.log_noise + j]
    numbers[at + 4] = work.log_floor[j]
    seen = rules.mean_least_dof if rules.mean_least_dof > dof else dof
    numbers[at + 5] = 1.0 / seen
    numbers[at + 6] = 0.5 * (seen + 1.0)
    ratio, slope = _log_gamma_ratio(0.5 * dof)
    constant = ratio - 0.5 * (_LOG_PI + math.log(dof))
    ratio, _ = _log_gamma_ratio(0.5 * seen)
    return constant, 0.5 * slope - 0.5 / dof, ratio - 0.5 * (_LOG_PI + math.log(seen))


@inlined
def _bound(square, log_var, tilt, per_dof, half):
    """Bound but for its constant, and its slopes in the square, l_m and tilt; ...

    ... then the log term, and the share u / (1 + u) of the tail.
    """
    scale = exp(tilt - log_var)
    u = scale * square * per_dof
    rest = 1.0 / (1.0 + u)
    share, log_term = u * rest, log1p(u)
    of_tilt = 0.0 - half * share
    of_square = (0.0 - half) * per_dof * scale * rest
    value = (0.0 - 0.5) * log_var - half * log_term
    return value, of_square, (0.0 - 0.5) - of_tilt, of_tilt, log_term, share


@inlined
def _add(room, at, value):
    store(room, at, load_floats(room, at) + value)


@called
def _outputs(work, block, noise_weight, per_row):
    """Replace the outputs' moments by the slopes of the loss in them; add to the sums.

    per_row
        -1 / number of rows.
    """
    room, numbers, places = work.room, work.numbers, work.places
    mean, noise = layer_at(work.layers, places.n_mean_layers - 1), last_layer(work)
    to, n_out = block * mean.out_step, mean.n_out
    weight = load_floats(room, places.weight + block * BLOCK)
    share_of_row = per_row * weight
    for j in range(n_out):
        m_at, v_at = mean.out_m + to + BLOCK * j, mean.out_v + to + BLOCK * j
        h_m_at, h_v_at = noise.out_m + to + BLOCK * j, noise.out_v + to + BLOCK * j
        h_m, h_v = load_floats(room, h_m_at), load_floats(room, h_v_at)
        error = load_floats(room, m_at) - load_floats(room, places.y + (block * n_out + j) * BLOCK)
        at, sums = N_NUMBERS * j, places.sums + N_SUMS * BLOCK * j
        per_dof, half = spread_at(numbers, at), spread_at(numbers, at + 1)
        floor = spread_at(numbers, at + 4)

        own = noise_weight * h_m + spread_at(numbers, at + 2)
        seen = log_add_exp(own, floor)
        tilt = at_most((0.5 * noise_weight * noise_weight) * h_v, TILT_LIMIT)
        square = error * error + load_floats(room, v_at)
        per_dof_seen, half_seen = spread_at(numbers, at + 5), spread_at(numbers, at + 6)
        value, of_square, of_l, _, _, _ = _bound(square, seen, tilt, per_dof_seen, half_seen)
        store(room, m_at, share_of_row * of_square * (2.0 * error))
        store(room, v_at, share_of_row * of_square)
        _add(room, sums + BLOCK * _OWN, share_of_row * of_l * exp(own - seen))
        _add(room, sums + BLOCK * _OF_MEAN, weight * value)

        shared = h_m + spread_at(numbers, at + 3)
        l_m = log_add_exp(shared, floor)
        tilt = at_most(0.5 * h_v, TILT_LIMIT)
        value, _, of_l, of_tilt, log_term, share = _bound(error * error, l_m, tilt, per_dof, half)
        slope = share_of_row * of_l * exp(shared - l_m)
        store(room, h_m_at, slope)
        # The limit has no slope; a NaN keeps its own.
        of_v = select(0.5 * h_v > TILT_LIMIT, 0.0 * h_v, 0.5 * of_tilt)
        store(room, h_v_at, share_of_row * of_v)
        _add(room, sums + BLOCK * _SHARED, slope)
        _add(room, sums + BLOCK * _OF_DOF, weight * (half * per_dof * share - 0.5 * log_term))
        _add(room, sums + BLOCK * _OF_NOISE, weight * value)


@inlined
def _slopes_of_noise(work, j, weights, constant_slope, per_row):
    """Write the slopes of the noise parameters of output j, from the sums over all rows."""
    gradient, places = work.gradient, work.places
    at = places.sums + N_SUMS * BLOCK * j
    gradient[places.own_log_noise + j] = total(load_floats(work.room, at + BLOCK * _OWN))
    gradient[places.log_noise + j] = total(load_floats(work.room, at + BLOCK * _SHARED))
    of_dof = float(total(load_floats(work.room, at + BLOCK * _OF_DOF)))
    sigmoid = 1.0 / (1.0 + math.exp(-float(work.theta[places.raw_dof + j])))
    gradient[places.raw_dof + j] = per_row * sigmoid * (of_dof + constant_slope * weights)


@called
def _both_networks(work, order, start, x, y, weight, size, noise_weight, rules):
    """Write the slopes of the data's share of the loss; that share of the two networks."""
    room, places, n_layers = work.room, work.places, work.layers.shape[0]
    n_mean, n_out = places.n_mean_layers, y.shape[1]
    n_blocks = (size + BLOCK - 1) // BLOCK
    per_row = -1.0 / size
    gather(work, x, y, weight, order, start, size)
    nothing = 0.0 * load_floats(work.theta, 0)
    for k in range(0, N_SUMS * BLOCK * n_out, BLOCK):
        store(room, places.sums + k, nothing)
    for j in range(n_out):
        _constants_of_noise(work, j, rules)
    for block in range(n_blocks):
        forward(work, 0, n_mean, block)
        forward(work, n_mean, n_layers, block)
        _outputs(work, block, noise_weight, per_row)
        backward(work, 0, n_mean, block)
        backward(work, n_mean, n_layers, block)
    for job in range(work.jobs.shape[0]):
        products(work, job_at(work.jobs, job), n_blocks)
    weights, of_mean, of_noise = 0.0, 0.0, 0.0
    for r in range(size):
        weights += room[places.weight + r]
    for j in range(n_out):
        at = places.sums + N_SUMS * BLOCK * j
        constant, slope, constant_seen = _constants_of_noise(work, j, rules)
        of_mean += constant_seen * weights + total(load_floats(room, at + BLOCK * _OF_MEAN))
        of_noise += constant * weights + total(load_floats(room, at + BLOCK * _OF_NOISE))
        _slopes_of_noise(work, j, weights, slope, per_row)
    return per_row * of_mean, per_row * of_noise


@compiled
def advance(work, rules, x, y, weight, order, size, first_step, losses):
    """Take a step of Adam for every row of `losses`; write total and data loss there, nats a row.

    order
        Row numbers, `size` for every step.
    """
    work, before = reference_to(work), flush_subnormals()
    for s in range(losses.shape[0]):
        step = first_step + s
        done = step / rules.n_steps
        kl_weight = least(1.0, done / rules.kl_warm_up)
        warmth = least(1.0, done / rules.noise_warm_up)
        noise_weight = 0.5 + (rules.noise_share - 0.5) * warmth
        price = prepare(work, kl_weight)
        of_mean, of_noise = _both_networks(
            work, order, s * size, x, y, weight, size, noise_weight, rules
        )
        rates = rates_of(step, rules.n_steps, rules.step_size)
        descend(work, kl_weight, rates, rules)
        for at in (work.places.log_noise, work.places.own_log_noise, work.places.raw_dof):
            descend_plainly(work, at, y.shape[1], rates)
        losses[s, 0] = of_mean + of_noise + price / rules.n_total
        losses[s, 1] = of_noise
    restore(before)
