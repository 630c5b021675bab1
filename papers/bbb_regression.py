"""Figure 5 of Blundell et al. (2015): a noisy curve, and what is predicted beyond the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesprop.estimators.bayes_by_backprop import BayesByBackpropRegressor
from bayesprop.estimators.point_network import PointNetworkRegressor
from papers import markdown, uci
from papers.protocol import Experiment, Key, draws
from papers.rows import Row, results

NAME = "bbb-regression"
METHODS = {"bayes-by-backprop": "Bayes by Backprop", "network": "standard network"}
NOISE_STD = 0.02
INSIDE = (0.0, 0.5)
_GRID = np.linspace(-0.2, 1.2, 141)
_PICTURED = 0


@dataclass(frozen=True)
class Config:
    """Settings of the figure; the paper gives none of them but the noise.

    likelihood_std
        Standard deviation of y in the likelihood, about that of the points around the curve. Were
        it learnt, Bayes by Backprop would take the curve for noise: 300 points do not pay for the
        weights.
    """

    seed: int = 1
    n_points: int = 300
    hidden: tuple[int, ...] = (100, 100)
    n_epochs: int = 500
    learning_rate: float = 5e-3
    prior_std: float = 1.0
    likelihood_std: float = 0.05


def curve(x: np.ndarray, noise: np.ndarray | float = 0.0) -> Float[np.ndarray, " n"]:
    """Return x + 0.3 sin(2 pi (x + e)) + 0.3 sin(4 pi (x + e)) + e (section 5.2)."""
    phase = 2.0 * np.pi * (x + noise)
    return x + 0.3 * np.sin(phase) + 0.3 * np.sin(2.0 * phase) + noise


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit one draw of the data; say how wide the interquartile range is, and what it holds."""
    rng = np.random.default_rng(uci.cell_seed(config.seed, key["draw"], 0))
    x = rng.uniform(*INSIDE, config.n_points)
    y = curve(x, NOISE_STD * rng.standard_normal(config.n_points))
    how: dict[str, Any] = {
        "n_epochs": config.n_epochs,
        "learning_rate": config.learning_rate,
        "noise": config.likelihood_std**2,
        "random_state": uci.cell_seed(config.seed, key["draw"], 1),
    }
    if key["method"] == "network":
        model = PointNetworkRegressor(config.hidden, **how)
    else:
        model = BayesByBackpropRegressor(config.hidden, prior_std=config.prior_std, **how)
    model.fit(x[:, None], y)
    low, median, high = model.predict_quantiles(_GRID[:, None], (0.25, 0.5, 0.75)).T
    new = rng.uniform(*INSIDE, 1000)
    new_y = curve(new, NOISE_STD * rng.standard_normal(1000))
    edges = model.predict_quantiles(new[:, None], (0.25, 0.75))
    inside = np.clip(_GRID, *INSIDE) == _GRID
    beyond = np.clip(_GRID, INSIDE[0] - 0.1, INSIDE[1] + 0.4) != _GRID
    picture = {"x": _GRID, "median": median, "low": low, "high": high, "X_train": x, "y_train": y}
    return {
        "width_inside": np.mean((high - low)[inside]),
        "width_beyond": np.mean((high - low)[beyond]),
        "new_points_in_range": np.mean((new_y >= edges[:, 0]) & (new_y <= edges[:, 1])),
        "rmse_of_curve": np.sqrt(np.mean((median - curve(_GRID))[inside] ** 2)),
        **({"picture": picture} if key["draw"] == _PICTURED else {}),
    }


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw the first draw of the data, a panel a method."""
    from papers.figures import band_figure

    panels = {}
    for row in rows:
        picture = (row.result or {}).get("picture")
        if picture is not None:
            part = {name: np.asarray(values) for name, values in picture.items()}
            panels[METHODS[row.cell["method"]]] = band_figure.Panel(
                x=part["x"],
                line=part["median"],
                bands=[(part["low"], part["high"])],
                X_train=part["X_train"],
                y_train=part["y_train"],
                truth=curve(part["x"]),
            )
    if panels:
        band_figure.draw(
            stem, panels=panels, line_name="median", band_names=["interquartile range"]
        )


def section(rows: Sequence[Row]) -> str:
    """Write the widths inside and beyond the data."""
    finished = markdown.latest(rows)
    lines = []
    for method, label in METHODS.items():
        if found := results(finished, method=method):
            lines.append([label, str(len(found)), *markdown.means(found, _FIGURES)])
    return markdown.section(
        NAME, rows, finished, table=markdown.table(("method", "draws", *_FIGURES.values()), lines)
    )


_FIGURES = {
    "width_inside": "width of the range, x in [0, 0.5]",
    "width_beyond": "width, x < -0.1 or x > 0.9",
    "new_points_in_range": "share of new points in it (ideal .5)",
    "rmse_of_curve": "RMSE of the median against the curve, x in [0, 0.5]",
}


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=METHODS,
    cells=draws(5, quick=1),
    work=fit_cell,
    section=section,
    draw=draw,
    quick={"hidden": (20,), "n_epochs": 20},
)
