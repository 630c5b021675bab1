"""The lecture's classification by MC dropout: two moons, one network beside the average of many.

The lecture shows a picture only; points, noise and network are ours. Figures are averaged over
several draws of the data, the first of which is the picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesprop.catalogue import make
from papers import plane
from papers.plane import Plane, Points

NAME = "mc-dropout-moons"


@dataclass(frozen=True)
class Config:
    """Settings of the experiment; the network is 2-100-100-2."""

    seed: int = 1
    n_points: int = 200
    noise_std: float = 0.2
    n_hidden: int = 100
    n_epochs: int = 200
    dropout: float = 0.2
    length_scale: float = 0.5


def moons(n: int, noise_std: float, *, random_state: int) -> Points:
    """Draw two interleaved half circles of radius one, with Gaussian noise."""
    rng = np.random.default_rng(random_state)
    y = rng.integers(0, 2, n)
    angle = np.pi * rng.uniform(size=n)
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lower = np.stack([1.0 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    X = np.where(y[:, None] == 0, upper, lower)
    return Points(X + noise_std * rng.standard_normal((n, 2)), y)


def model(config: Config, method: str, seed: int) -> Any:
    """Build the network, alone or with dropout kept."""
    dropout = {"dropout": config.dropout, "length_scale": config.length_scale}
    own: dict[str, Any] = {"weight_decay": 0.1} if method == "network" else dropout
    return make(
        method,
        task="classification",
        hidden_layer_sizes=(config.n_hidden, config.n_hidden),
        n_epochs=config.n_epochs,
        random_state=seed,
        **own,
    )


PLANE = Plane(
    name=NAME,
    labels={"network": "one network", "mc-dropout": "MC dropout"},
    points=lambda config, n, seed: moons(n, config.noise_std, random_state=seed),
    model=model,
    x1=np.linspace(-3.0, 4.0, 57),
    x2=np.linspace(-2.5, 3.0, 45),
    centre=(0.5, 0.25),
)


EXPERIMENT = plane.experiment(PLANE, Config)
