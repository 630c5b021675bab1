"""Products of Gaussian posteriors: natural parameters add."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayesprop.linear.logistic import GaussianWeights, inverse_root, prior_of


def product(
    parts: Sequence[GaussianWeights], powers: Sequence[float]
) -> tuple[GaussianWeights, float] | None:
    """Multiply Gaussians to powers that add up to 1; None where that is no distribution.

    Also returns the log of the product's integral, nats.

    Natural parameters add; the mass is A(product) - sum of power times A(part), with the log
    partition A(m, P) = (m'P m - log det P) / 2 (Minka 2005, "Divergence measures and message
    passing"; Bui et al. 2018, "Partitioned variational inference", section 2).
    """
    priors = [prior_of(part) for part in parts]
    pairs = list(zip(priors, powers, strict=True))
    prec = np.sum([power * one.prec for one, power in pairs], axis=0)
    slope = np.sum([power * one.prec @ one.mean for one, power in pairs], axis=0)
    try:
        root = inverse_root(0.5 * (prec + prec.T))
    except np.linalg.LinAlgError:
        return None
    posterior = GaussianWeights(root @ (root.T @ slope), root)
    log_mass = _log_partition(posterior) - np.dot(powers, [*map(_log_partition, parts)])
    return posterior, float(log_mass)


def _log_partition(one: GaussianWeights) -> float:
    whitened = np.linalg.solve(one.root, one.mean)
    return 0.5 * float(whitened @ whitened) + float(np.linalg.slogdet(one.root)[1])
