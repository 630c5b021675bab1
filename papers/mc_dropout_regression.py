"""The lecture's regression by MC dropout: a band that must widen where there are no points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayesprop.catalogue import make
from papers import curve
from papers.curve import Curve

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


def model(config: Config, method: str, seed: int) -> Any:
    """Build one of both."""
    dropout = {"dropout": config.dropout, "length_scale": config.length_scale}
    own: dict[str, Any] = {"weight_decay": 1.0} if method == "network" else dropout
    return make(
        method,
        hidden_layer_sizes=(config.n_hidden, config.n_hidden),
        n_epochs=config.n_epochs,
        random_state=seed,
        **own,
    )


CURVE = Curve(NAME, {"network": "one network", "mc-dropout": "MC dropout"}, model)
EXPERIMENT = curve.experiment(CURVE, Config)
