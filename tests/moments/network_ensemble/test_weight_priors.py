"""What the weights of the recipe's mean network learnt, and which hidden units sleep."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from bayesprop.moments.network_ensemble.gaussian_network import GaussianLayer
from bayesprop.moments.network_ensemble.weight_priors import SHAPE, dead_units, weight_information

SPREAD = 4.0


def layer(mean, std) -> GaussianLayer:
    mean, std = np.float32(mean), np.float32(std)
    bias = np.zeros(mean.shape[1], np.float32)
    return GaussianLayer(mean, np.log(std), bias, bias - 1.0)


def best_prior(mean: np.ndarray, std: np.ndarray) -> stats.rv_continuous:
    """The prior of a group whose cost, that of its variance included, is least."""
    costs = stats.invgamma(SHAPE, scale=(SHAPE + 1.0) * SPREAD / 4)

    def price(log_v: float) -> float:
        expected = -0.5 * (log_v + (mean**2 + std**2) / np.exp(log_v))
        return -np.sum(expected) - costs.logpdf(np.exp(log_v))

    log_v = optimize.minimize_scalar(price, bounds=(-5, 5), method="bounded").x
    return stats.norm(0.0, np.exp(0.5 * log_v))


def information(m: float, s: float, prior: stats.rv_continuous) -> float:
    q = stats.norm(m, s)
    return integrate.quad(
        lambda w: q.pdf(w) * (q.logpdf(w) - prior.logpdf(w)), m - 9 * s, m + 9 * s
    )[0]


def test_information_is_the_divergence_from_the_best_prior():
    rng = np.random.default_rng(0)
    mean, std = rng.standard_normal((4, 1)), rng.uniform(0.1, 1.5, (4, 1))
    layers = layer(rng.standard_normal((2, 4)), np.full((2, 4), 0.5)), layer(mean, std)
    prior = best_prior(mean, std)
    expected = [information(m, s, prior) for m, s in zip(mean[:, 0], std[:, 0], strict=True)]
    found = np.asarray(weight_information(layers, SPREAD)[1])
    assert found[:, 0] == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_units_whose_outgoing_weights_keep_their_prior_are_dead():
    mean, std = np.array([[3.0], [0.0], [-2.0], [0.0]]), np.full((4, 1), 0.1)
    for _ in range(50):  # the best prior depends on those who keep it
        std[[1, 3]] = best_prior(mean, std).std()
    layers = layer(np.ones((2, 4)), np.full((2, 4), 0.5)), layer(mean, std)
    assert dead_units(layers, SPREAD) == [False, True, False, True]
