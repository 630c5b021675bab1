"""Priors of the weights and steps of Adam.

What `networks.py` says of the priors, whose groups' best variances need no derivative,
and Adam (Kingma & Ba 2015). Theta, derived and gradient: see `kernel_network.py`; and

pull
    One over the prior variance, in the places of the means.
groups, modes
    Of a table's rows each says, of so many groups of weights or biases that share a prior variance:
    where the first begins; how many there are; how far from one to the next; how many numbers each
    has; how far from one to the next; whether their variance is given. That, or the mode of its
    prior.
sizes
    How many means there are, how many of them the mean network has, and how many kinks have widths.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math

import numpy as np

from bayesprop.numerics.compiled import called, disjoint, summing_apart
from bayesprop.numerics.float32_math import TWO, ZERO, exp
from bayesprop.tabular_default.kernel_network import MOST
from bayesprop.tabular_default.settings import LOG_WIDTH, SHAPE, WIDTH_PRECISION

_MEAN_DECAY, _SQUARE_DECAY, _EPSILON = np.float32(0.9), np.float32(0.999), np.float32(1e-8)
_MEAN_NEW, _SQUARE_NEW = np.float32(1.0 - 0.9), np.float32(1.0 - 0.999)
_CENTRE, _PRECISION = np.float32(LOG_WIDTH), np.float32(WIDTH_PRECISION)


@called
def derive(theta, derived, sizes):
    """Write squares of means, variances and squared widths."""
    disjoint()
    n_means, n_widths = sizes[0] & MOST, sizes[2] & MOST
    for k in range(n_means):
        derived[k] = theta[k] * theta[k]
    for k in range(n_means, 2 * n_means + n_widths):
        derived[k] = exp(TWO * theta[k])


@summing_apart
def prepare(theta, derived, pull, groups, modes, sizes, kl_weight):
    """Derive, and write the pull of the priors; the sum of KL, the mean network's times a weight.

    The best variance of a group of n is that of `networks.group_variance`.
    """
    disjoint()
    derive(theta, derived, sizes)
    n_means, n_widths = sizes[0] & MOST, sizes[2] & MOST
    of_widths = ZERO
    for k in range(2 * n_means, 2 * n_means + n_widths):
        away = theta[k] - _CENTRE
        of_widths += away * away
    price = kl_weight * 0.5 * WIDTH_PRECISION * of_widths
    for row in range(groups.shape[0]):
        first, between, n = groups[row, 0], groups[row, 2], groups[row, 3] & MOST
        step, is_given, mode, of_groups = groups[row, 4], groups[row, 5], modes[row], 0.0
        for group in range(groups[row, 1]):
            at, squares, logs = (first + group * between) & MOST, ZERO, ZERO
            for k in range(at, at + n if step == 1 else at):
                squares += derived[k] + derived[n_means + k]
                logs += theta[n_means + k]
            for i in range(0 if step == 1 else n):
                k = (at + i * step) & MOST
                squares += derived[k] + derived[n_means + k]
                logs += theta[n_means + k]
            half, strength = 0.5 * squares + (SHAPE + 1.0) * mode, 0.5 * n + SHAPE + 1.0
            if is_given:
                half, strength = 0.5 * squares, 0.5 * n
                var, cost = mode, half / mode + strength * (math.log(mode) - 1.0)
            else:
                var = half / strength
                cost = strength * (math.log(var) + 1.0)
            of_groups += cost - logs
            one_over = np.float32(1.0 / var)
            for k in range(at, at + n if step == 1 else at):
                pull[k] = one_over
            for i in range(0 if step == 1 else n):
                pull[(at + i * step) & MOST] = one_over
        price += (kl_weight if first < sizes[1] else 1.0) * of_groups
    return price


@called
def descend(theta, slope, square, derived, gradient, pull, sizes, kl_weight, n_total, progress):
    """Move all parameters by the slopes that all rows have left, and leave none.

    kl_weight
        Share of the KL of the mean network, of n_total rows, in the loss.
    progress
        Number of the step; of how many; size of the first, which falls by a cosine to 1 %.
    """
    disjoint()
    step, n_steps, step_size = progress
    n_theta, n_means = theta.shape[0] & MOST, sizes[0] & MOST
    n_of_mean, n_widths = sizes[1] & MOST, sizes[2] & MOST
    of_mean, of_noise = np.float32(kl_weight / n_total), np.float32(1.0 / n_total)
    for network in range(2):
        weight = of_mean if network == 0 else of_noise
        for k in range(network * n_of_mean, n_of_mean if network == 0 else n_means):
            toward_0, var = weight * pull[k], derived[n_means + k]
            gradient[k] += theta[k] * (TWO * gradient[n_theta + k] + toward_0)
            gradient[n_means + k] = var * (TWO * gradient[n_means + k] + toward_0) - weight
    for k in range(2 * n_means, 2 * n_means + n_widths):
        away = of_mean * _PRECISION * (theta[k] - _CENTRE)
        gradient[k] = TWO * derived[k] * gradient[k] + away
    size = step_size * (0.01 + 0.495 * (1.0 + math.cos(math.pi * step / n_steps)))
    size = np.float32(size / (1.0 - 0.9 ** (step + 1.0)))
    correction = np.float32(1.0 / (1.0 - 0.999 ** (step + 1.0)))
    for k in range(n_theta):
        g = gradient[k]
        m = _MEAN_DECAY * slope[k] + _MEAN_NEW * g
        s = _SQUARE_DECAY * square[k] + _SQUARE_NEW * g * g
        slope[k], square[k] = m, s
        theta[k] -= size * m / (math.sqrt(correction * s) + _EPSILON)
    for k in range(gradient.shape[0]):
        gradient[k] = ZERO
