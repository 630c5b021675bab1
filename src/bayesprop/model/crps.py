"""The continuous ranked probability score of a prediction that has none in closed form."""

from __future__ import annotations

import numpy as np

from bayesprop.model.predictive import Moments, Predictive

_FURTHEST, _PANELS = 8.0, 8
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(4)
_PLACES = ((np.arange(_PANELS)[:, None] + 0.5 * (1.0 + _NODES)) / _PANELS).ravel()
_PLACE_WEIGHTS = np.tile(0.5 * _NODE_WEIGHTS / _PANELS, _PANELS)
_TINY = float(np.finfo(np.float64).tiny)


def integrated_crps(predictive: Predictive, y: Moments) -> Moments:
    """CRPS = integral of (F(t) - 1{t >= y})² dt (Gneiting & Raftery 2007, eq. 20)."""
    crps = np.zeros(np.shape(y))
    for side in (-1.0, 1.0):
        at, width = _one_side(predictive, y, side)
        below = predictive.cdfs(at)
        tail = below if side < 0.0 else 1.0 - below
        crps = crps + np.sum(tail**2 * width, axis=0)
    return crps


def _one_side(predictive: Predictive, y: Moments, side: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, (q, n[, o]), of a quadrature over values below (-1) or above (1) y.

    Panels are even in t of values mean + std sinh(t) / 2: dense in the middle, far in the tails.
    """
    unit = 0.5 * np.maximum(predictive.std, _TINY)
    middle = np.arcsinh((y - predictive.mean) / unit)
    length = np.maximum(_FURTHEST, np.abs(middle)) - side * middle
    ahead = (slice(None),) + (None,) * np.ndim(y)
    t = middle + side * _PLACES[ahead] * length
    return predictive.mean + unit * np.sinh(t), _PLACE_WEIGHTS[ahead] * length * unit * np.cosh(t)
