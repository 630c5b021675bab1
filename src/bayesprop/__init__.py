"""Bayesian neural networks with calibrated predictions, fast and without tuning.

Public names are loaded on first use, so that ``import bayesprop`` stays instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bayesprop.estimators.pbp import PBPRegressor
    from bayesprop.model.predictive import GaussianPredictive, Predictive
    from bayesprop.store import load

_HOMES = {
    "PBPRegressor": "bayesprop.estimators.pbp",
    "Predictive": "bayesprop.model.predictive",
    "GaussianPredictive": "bayesprop.model.predictive",
    "load": "bayesprop.store",
}

__all__ = ["GaussianPredictive", "PBPRegressor", "Predictive", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """Import a public name where it lives, the first time it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'bayesprop' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names without importing them."""
    return sorted({*globals(), *_HOMES})
