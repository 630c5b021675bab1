"""Who is compared on the UCI sets, and what a fit of each is expected to cost."""

from __future__ import annotations

from bayesprop.catalogue import METHODS, REGRESSION, make
from bayesprop.datasets import registry
from papers import uci
from papers.peers import PEERS, Forecaster

DATASETS = tuple(name for name in uci.DATASETS if name != "year")
OURS = tuple(method.name for method in METHODS.values() if REGRESSION in method.homes)
CONTESTANTS = (*OURS, *PEERS)
BUDGET = 600.0
"""Processor seconds that a fit may be expected to take."""
# Of a fit, by method: some seconds, and seconds a thousand rows; measured on one core.
_SECONDS = {
    "mlp": (4.0, 0.5),
    "closed-form-vi": (1.0, 4.0),
    "pbp": (0.1, 0.1),
    "batch-ep": (0.0, 90.0),
    "linear": (0.1, 0.0),
    "bayes-by-backprop": (2.5, 2.0),
    "graves-vi": (3.0, 1.2),
    "laplace": (1.0, 1.5),
    "mc-dropout": (1.0, 0.8),
    "deep-ensemble": (1.5, 1.2),
    "mcmc": (25.0, 180.0),
    "network": (0.5, 0.8),
    "NGBoost": (3.0, 10.0),
    "Gaussian process": (6.0, 1.5),
    "quantile boosting": (5.0, 1.0),
}


def forecaster(method: str, seed: int) -> Forecaster:
    """Build a model at its defaults, unfitted."""
    return PEERS[method].make(seed) if method in PEERS else make(method, random_state=seed)


def has_density(method: str) -> bool:
    """Whether its predictions have a log-likelihood."""
    return method not in PEERS or PEERS[method].has_density


def expected_seconds(method: str, dataset: str) -> float:
    """Processor seconds that a fit is expected to take, to a factor of two or so."""
    fixed, a_thousand = _SECONDS[method]
    return fixed + a_thousand * registry.describe(dataset).n / 1000.0


def is_too_slow(method: str, dataset: str) -> bool:
    """Whether a fit is expected to take more than the budget."""
    return expected_seconds(method, dataset) > BUDGET
