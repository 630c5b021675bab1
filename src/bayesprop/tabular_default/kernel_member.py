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

The arrays are those of `kernel_network.py`; `kernel_layout.py` lays them out. All is
float32 but what is summed up once a step.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math
from typing import NamedTuple

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
from bayesprop.numerics.float32_math import HALF, ONE, TWO, ZERO, exp, log1p, log_add_exp
from bayesprop.tabular_default.kernel_adam import descend, prepare
from bayesprop.tabular_default.kernel_network import (
    BLOCK,
    G_M,
    G_V,
    MOST,
    RECORD,
    ROWS,
    Z_M,
    Z_V,
    backward,
    forward,
    gather,
)
from bayesprop.tabular_default.settings import LEAST_DOF, TILT_LIMIT

_LOG_PI = math.log(math.pi)
_TILT_LIMIT = np.float32(TILT_LIMIT)


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
def _constant(dof):
    """Log of the constant factor of a Student-t's density of scale 1, and its slope in dof >= 2.

    log Gamma(a + 1/2) - log Gamma(a), a = dof / 2, to 3e-7, by the asymptotic series in 1 / (a + 3)
    carried down by the recurrence of the gamma function: no difference of large numbers.
    """
    a = 0.5 * dof
    r = 1.0 / (a + 3.0)
    shift = a * (a + 1.0) * (a + 2.0) / ((a + 0.5) * (a + 1.5) * (a + 2.5))
    r_2, r_4 = r * r, r * r * (r * r)
    value = math.log(shift) - 0.5 * math.log(r) - r / 8.0 + r * r_2 / 192.0 - r * r_4 / 640.0
    slope = 0.5 * r + r_2 / 8.0 - r_4 / 64.0 + r_2 * r_4 / 128.0
    for k in range(3):
        slope += 1.0 / (a + k) - 1.0 / (a + k + 0.5)
    return value - 0.5 * (_LOG_PI + math.log(dof)), 0.5 * slope - 0.5 / dof


@inlined
def _bound(square, log_var, tilt, per_dof, half):
    """Bound but for its constant, and its slopes in the square and in tilt; ...

    ... then the log term, and the share u / (1 + u) of the tail.
    """
    scale = exp(tilt - log_var)
    u = scale * square * per_dof
    rest = ONE / (ONE + u)
    share, log_term = u * rest, log1p(u)
    of_square = -half * per_dof * scale * rest
    return -HALF * log_var - half * log_term, of_square, -half * share, log_term, share


@summing_apart
def _outputs(theta, gradient, room, log_floor, places, n_out, n, noise_weight, rules, size):
    """Replace the outputs' moments by the slopes of the loss in them; add to those of the noise.

    Returns the losses of the two networks, a share of the whole batch's.
    """
    disjoint()
    n, per_row, of_mean, of_noise = n & (MOST - BLOCK + 1), np.float32(-1.0 / size), 0.0, 0.0
    by_h = np.float32(noise_weight)
    for j in range(n_out):
        at = places.likelihood + j
        raw = float(theta[at + 2 * n_out])
        dof = LEAST_DOF + (0.0 if raw < 0.0 else raw) + math.log1p(math.exp(-abs(raw)))
        seen_dof = rules.mean_least_dof if rules.mean_least_dof > dof else dof
        constant, of_constant = _constant(dof)
        constant_seen, _ = _constant(seen_dof)
        per_dof, half = np.float32(1.0 / dof), np.float32(0.5 * (dof + 1.0))
        per_seen, half_seen = np.float32(1.0 / seen_dof), np.float32(0.5 * (seen_dof + 1.0))
        log_noise, own_log_noise, floor = theta[at], theta[at + n_out], log_floor[j]
        mean, noise = (places.mean + j * RECORD) & MOST, (places.noise + j * RECORD) & MOST
        y = (places.targets + j * RECORD) & MOST
        of_own = of_shared = of_dof = in_mean = in_noise = weights = ZERO
        for r in range(n):
            h_m, h_v, weight = room[noise + Z_M + r], room[noise + Z_V + r], room[y + Z_V + r]
            error, share_of_row = room[mean + Z_M + r] - room[y + Z_M + r], per_row * weight

            own = by_h * h_m + own_log_noise
            seen = log_add_exp(own, floor)
            tilt = HALF * by_h * by_h * h_v
            tilt = _TILT_LIMIT if tilt > _TILT_LIMIT else tilt
            square = error * error + room[mean + Z_V + r]
            value, of_square, of_tilt, _, _ = _bound(square, seen, tilt, per_seen, half_seen)
            room[mean + G_M + r] = share_of_row * of_square * (TWO * error)
            room[mean + G_V + r] = share_of_row * of_square
            of_own += share_of_row * (-HALF - of_tilt) * exp(own - seen)
            in_mean += weight * value

            shared = h_m + log_noise
            l_m, tilt = log_add_exp(shared, floor), HALF * h_v
            is_far = tilt > _TILT_LIMIT
            tilt = _TILT_LIMIT if is_far else tilt
            value, _, of_tilt, log_term, share = _bound(error * error, l_m, tilt, per_dof, half)
            slope = share_of_row * (-HALF - of_tilt) * exp(shared - l_m)
            room[noise + G_M + r] = slope
            # The limit has no slope; a NaN keeps its own.
            room[noise + G_V + r] = share_of_row * (ZERO * h_v if is_far else HALF * of_tilt)
            of_shared += slope
            of_dof += weight * (half * per_dof * share - HALF * log_term)
            in_noise += weight * value
            weights += weight
        gradient[at] += of_shared
        gradient[at + n_out] += of_own
        sigmoid = 1.0 / (1.0 + math.exp(-raw))
        gradient[at + 2 * n_out] += per_row * sigmoid * (of_dof + of_constant * weights)
        of_mean += per_row * (constant_seen * weights + in_mean)
        of_noise += per_row * (constant * weights + in_noise)
    return of_mean, of_noise


@inlined
def ramp(done, warm_up):
    """Return a weight that rises from 0 to 1 over the first share of the steps."""
    return done / warm_up if done < warm_up else 1.0


@compiled
def advance(work, rules, x, y, weight, order, size, first_step, losses):
    """Take a step of Adam for every row of `losses`; write total and data loss there, nats a row.

    order
        Row numbers, `size` for every step.
    """
    before, n_means = flush_subnormals(), work.sizes[0]
    theta, derived, gradient, room = work.theta, work.derived, work.gradient, work.room
    for s in range(losses.shape[0]):
        step = first_step + s
        done = step / rules.n_steps
        kl_weight, warmth = ramp(done, rules.kl_warm_up), ramp(done, rules.noise_warm_up)
        noise_weight = 0.5 + (rules.noise_share - 0.5) * warmth
        price = prepare(theta, derived, work.pull, work.groups, work.modes, work.sizes, kl_weight)
        of_mean, of_noise = 0.0, 0.0
        for start in range(0, size, ROWS):
            count = size - start if size - start < ROWS else ROWS
            n = count + (-count & (BLOCK - 1))
            gather(room, x, y, weight, order, s * size + start, count, n, work.places.targets)
            forward(work.layers, theta, derived, room, n_means, n)
            parts = _outputs(
                theta, gradient, room, work.log_floor, work.places, y.shape[1], n, noise_weight,
                rules, size,
            )  # fmt: skip
            of_mean, of_noise = of_mean + parts[0], of_noise + parts[1]
            backward(work.layers, theta, derived, gradient, room, n_means, n)
        descend(
            theta, work.slope, work.square, derived, gradient, work.pull, work.sizes, kl_weight,
            rules.n_total, (float(step), rules.n_steps, rules.step_size),
        )  # fmt: skip
        losses[s, 0] = of_mean + of_noise + price / rules.n_total
        losses[s, 1] = of_noise
    restore(before)
