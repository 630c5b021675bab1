"""The refresh of the prior's factors, compiled: expectation propagation (supplement section 6)."""

from __future__ import annotations

import math

import numpy as np

from bayesprop.moments.pbp.kernel_factors import absorb_gamma, is_valid
from bayesprop.moments.pbp.kernel_workspace import BLOCK
from bayesprop.moments.pbp.state import LARGEST_CAVITY_VAR, MOST_FROM_ONE_WEIGHT
from bayesprop.simd.lanes import compiled


@compiled
def refresh(weights, sites, variational, start_counts, least_information, guarded):
    """Refresh every prior factor in turn.

    Returns how many could not be refreshed or were too large, and how many the data say next to
    nothing about. The factor is a Gaussian in the weight, so its refreshed self is
    N(0, rate / (shape - 1)) of the cavity exactly, and needs no division of the new marginal by the
    cavity.

    variational
        Whether q(lambda) hears what variational Bayes says of every weight, a half for the shape
        and half of E[w²] for the rate, instead of eq. 9-10. Guarded, it hears that anyway of a
        weight that would multiply E[1 / lambda] by more than `MOST_FROM_ONE_WEIGHT`.
    start_counts
        Whether the random start is in q as pseudo-data: a factor exp(h w), h the first prior
        precision times a mean from N(0, 1 / inputs). In a cavity of variance v it is a mean of
        h v, which without data grows beyond all bounds. Guarded, q(lambda) hears what variational
        Bayes says where the expected square of that is beyond the variance v + 1 / lambda.
    least_information
        Share of its prior that the data must say about a weight for its factor to be refreshed.
    guarded
        False: the authors' code.
    """
    shape, rate = sites.prior[0], sites.prior[1]
    start_prec = (shape - np.sum(sites.shape) - 1.0) / (rate - np.sum(sites.rate))
    start_pull = start_prec * start_prec if guarded and start_counts else 0.0
    kept = uninformed = 0
    for t in range(sites.places.size):
        at = sites.places[t]
        inverse = 1.0 / weights[at + BLOCK]
        prec = inverse - sites.prec[t]
        v = 1.0 / prec
        m = v * (weights[at] * inverse - sites.prec_mean[t])
        cavity_shape, cavity_rate = shape - sites.shape[t], rate - sites.rate[t]
        is_proper = cavity_rate > 0.0 and cavity_shape > 1.0
        site_prec = (cavity_shape - 1.0) / cavity_rate
        if guarded and is_proper and abs(prec) < least_information * site_prec:
            uninformed += 1
            continue
        if not (is_proper and 0.0 < v < LARGEST_CAVITY_VAR):
            kept += 1
            continue
        share = 1.0 / (1.0 + v * site_prec)
        new_m, new_v = m * share, v * share
        pull = start_pull * sites.start_var[t] * site_prec
        is_start = prec * (prec + site_prec) < pull
        is_large, by_square = False, guarded and (variational or is_start)
        new_shape, new_rate = shape, rate
        if not by_square:
            new_shape, new_rate = absorb_gamma(cavity_shape, cavity_rate, v, m * m)
            is_small = new_rate * site_prec < MOST_FROM_ONE_WEIGHT * (new_shape - 1.0)
            is_large = guarded and not (is_small and is_valid(new_shape, new_rate))
        if by_square or is_large:
            new_shape, new_rate = cavity_shape + 0.5, cavity_rate + 0.5 * (new_m * new_m + new_v)
        is_sound = is_valid(new_shape, new_rate) and math.isfinite(new_m) and new_v > 0.0
        if guarded and not is_sound:
            kept += 1
            continue
        uninformed += is_start
        kept += is_large
        weights[at], weights[at + BLOCK] = new_m, new_v
        shape, rate = new_shape, new_rate
        sites.shape[t], sites.rate[t] = shape - cavity_shape, rate - cavity_rate
        sites.prec[t], sites.prec_mean[t] = site_prec, 0.0
    sites.prior[0], sites.prior[1] = shape, rate
    return kept, uninformed
