"""The lecture's regression by MC dropout: a band that must widen where there are no points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayesprop.estimators.mc_dropout import MCDropoutRegressor
from bayesprop.estimators.point_network import PointNetworkRegressor
from papers import curve
from papers.curve import Curve
from papers.protocol import Key

NAME = "mc-dropout-regression"


@dataclass(frozen=True)
class Config:
    """Settings of the experiment; the network is 1-100-100-1."""

    seed: int = 1
    n_points: int = 100
    n_hidden: int = 100
    n_epochs: int = 400
    dropout: float = 0.05
    length_scale: float = 0.1


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit one method to one draw, and look at its band."""
    return curve.fit_cell(CURVE, config, key)


def model(config: Config, method: str, seed: int) -> Any:
    """Build one of both."""
    sizes = (config.n_hidden, config.n_hidden)
    if method == "network":
        return PointNetworkRegressor(sizes, config.n_epochs, weight_decay=1.0, random_state=seed)
    return MCDropoutRegressor(
        sizes,
        config.n_epochs,
        dropout=config.dropout,
        length_scale=config.length_scale,
        random_state=seed,
    )


CURVE = Curve(NAME, {"network": "one network", "mc-dropout": "MC dropout"}, model)
EXPERIMENT = curve.experiment(CURVE, Config, fit_cell)
