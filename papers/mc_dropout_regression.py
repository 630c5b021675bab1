"""The lecture's regression by MC dropout: a band that must widen where there are no points.

The lecture shows the curve x + sin(x) and a picture; points, noise and network are ours. Figures
are averaged over several draws of the data, the first of which is the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesprop.estimators.mc_dropout import MCDropoutRegressor
from bayesprop.estimators.point_network import PointNetworkRegressor
from papers import markdown, uci
from papers.protocol import Experiment, Key, draws
from papers.rows import Row
from papers.toy import Toy

NAME = "mc-dropout-regression"
BAND_STDS = 2.0
REACH = 6.0
METHODS = {"network": "one network", "mc-dropout": "MC dropout"}
_NOISE_STD = 0.5
_PICTURED = 0
_GRID = np.linspace(-12.0, 12.0, 161)
_N_NEW = 1000


@dataclass(frozen=True)
class Config:
    """Settings of the experiment; the network is 1-100-100-1."""

    seed: int = 1
    n_points: int = 100
    n_hidden: int = 100
    n_epochs: int = 400
    dropout: float = 0.05
    length_scale: float = 0.1


def truth(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Return the noise-free curve."""
    return x + np.sin(x)


def points(n: int, *, random_state: int) -> Toy:
    """Draw y = x + sin(x) + e, e of standard deviation 0.5, x uniform on [-6, 6]."""
    rng = np.random.default_rng(random_state)
    x = rng.uniform(-REACH, REACH, n)
    return Toy(x[:, None], truth(x) + _NOISE_STD * rng.standard_normal(n))


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit one method to one draw; say how wide its band is and what lies in it."""
    toy = points(config.n_points, random_state=uci.cell_seed(config.seed, key["draw"], 0))
    model = _model(config, key["method"], uci.cell_seed(config.seed, key["draw"], 1))
    model.fit(toy.X, toy.y)
    dist = model.predict_dist(_GRID[:, None])
    new = points(_N_NEW, random_state=uci.cell_seed(config.seed, key["draw"], 2))
    found = model.predict_dist(new.X)
    inside = np.abs(_GRID) <= REACH
    epistemic_std = np.sqrt(dist.epistemic_var)
    curve = {
        "mean": dist.mean,
        "std": dist.std,
        "epistemic_std": epistemic_std,
        "X_train": toy.X[:, 0],
        "y_train": toy.y,
    }
    return {
        "rmse_of_curve": np.sqrt(np.mean((dist.mean - truth(_GRID))[inside] ** 2)),
        "log_likelihood": np.mean(found.log_prob(new.y)),
        "new_points_in_band": np.mean(np.abs(new.y - found.mean) <= BAND_STDS * found.std),
        "noise_std": np.sqrt(np.mean(dist.noise_var)),
        "epistemic_std_inside": np.mean(epistemic_std[inside]),
        "epistemic_std_beyond": np.mean(epistemic_std[~inside]),
        **({"curve": curve} if key["draw"] == _PICTURED else {}),
    }


def _model(config: Config, method: str, seed: int) -> Any:
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


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw the first draw of the data, a panel a method."""
    from papers.figures import band_figure

    panels = {}
    for row in rows:
        if row.cell["draw"] == _PICTURED:
            curve = {k: np.asarray(v) for k, v in (row.result or {})["curve"].items()}
            panels[METHODS[row.cell["method"]]] = _panel(curve)
    if panels:
        names = [f"mean ± {BAND_STDS:g} std", "without the noise"]
        band_figure.draw(stem, panels=panels, line_name="predictive mean", band_names=names)


def _panel(curve: dict[str, np.ndarray]) -> Any:
    from papers.figures.band_figure import Panel

    mean = curve["mean"]
    bands = [
        (mean - BAND_STDS * curve[std], mean + BAND_STDS * curve[std])
        for std in ("std", "epistemic_std")
    ]
    return Panel(
        x=_GRID,
        line=mean,
        bands=bands,
        X_train=curve["X_train"],
        y_train=curve["y_train"],
        truth=truth(_GRID),
    )


def section(rows: Sequence[Row]) -> str:
    """Write the figures of the picture, averaged over draws of the data, a column a method."""
    finished = markdown.latest(rows)
    return markdown.section(
        NAME, rows, finished, by_method=markdown.by_method(finished, METHODS, _FIGURES)
    )


_FIGURES = {
    "rmse_of_curve": "RMSE of the mean against the curve, abs(x) <= 6",
    "log_likelihood": "log-likelihood of new points, nats a point",
    "new_points_in_band": "share of new points inside the band (ideal .9545)",
    "noise_std": "noise std (true .5)",
    "epistemic_std_inside": "epistemic std, abs(x) <= 6",
    "epistemic_std_beyond": "epistemic std, 6 < abs(x) <= 12",
}


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=METHODS,
    cells=draws(20, quick=2),
    work=fit_cell,
    section=section,
    draw=draw,
)
