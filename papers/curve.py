"""What the lecture's pictures of a curve share: points, cells, bands, figures averaged over draws.

The lecture shows the curve x + sin(x) and a picture; points, noise and models are ours. The first
of several draws of the data is the picture. An experiment brings its methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from papers import markdown, uci
from papers.protocol import Experiment, Key, draws
from papers.rows import Row
from papers.toy import Toy

BAND_STDS = 2.0
REACH = 6.0
_NOISE_STD = 0.5
_PICTURED = 0
_GRID = np.linspace(-12.0, 12.0, 161)
_N_NEW = 1000


@dataclass(frozen=True, eq=False)
class Curve:
    """An experiment on points about the curve.

    labels
        Method -> its name in the picture.
    model
        (config, method, seed) -> an unfitted regressor.
    """

    name: str
    labels: Mapping[str, str]
    model: Callable[[Any, str, int], Any]


def truth(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Return the noise-free curve."""
    return x + np.sin(x)


def points(n: int, *, random_state: int) -> Toy:
    """Draw y = x + sin(x) + e, e of standard deviation 0.5, x uniform on [-6, 6]."""
    rng = np.random.default_rng(random_state)
    x = rng.uniform(-REACH, REACH, n)
    return Toy(x[:, None], truth(x) + _NOISE_STD * rng.standard_normal(n))


def experiment(curve: Curve, config: type) -> Experiment:
    """Describe the experiment; its parts are the methods."""
    return Experiment(
        name=curve.name,
        config=config,
        parts=curve.labels,
        cells=draws(20, quick=2),
        work=partial(fit_cell, curve),
        section=partial(markdown.section_by_method, curve.name, curve.labels, _FIGURES),
        draw=partial(draw, curve),
    )


def fit_cell(curve: Curve, config: Any, key: Key) -> dict[str, Any]:
    """Fit one method to one draw; say how wide its band is and what lies in it.

    config
        Has a seed and n_points.
    """
    seeds = [uci.cell_seed(config.seed, key["draw"], k) for k in range(3)]
    toy = points(config.n_points, random_state=seeds[0])
    model = curve.model(config, key["method"], seeds[1]).fit(toy.X, toy.y)
    dist = model.predict_dist(_GRID[:, None])
    new = points(_N_NEW, random_state=seeds[2])
    found = model.predict_dist(new.X)
    inside = np.abs(_GRID) <= REACH
    epistemic_std = np.sqrt(dist.epistemic_var)
    picture = {
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
        **({"curve": picture} if key["draw"] == _PICTURED else {}),
    }


def draw(curve: Curve, rows: Sequence[Row], stem: Path) -> None:
    """Draw the first draw of the data, a panel a method."""
    from papers.figures import band_figure

    panels = {}
    for row in rows:
        if row.cell["draw"] == _PICTURED:
            picture = {k: np.asarray(v) for k, v in (row.result or {})["curve"].items()}
            mean, stds = picture["mean"], (picture["std"], picture["epistemic_std"])
            panels[curve.labels[row.cell["method"]]] = band_figure.Panel(
                x=_GRID,
                line=mean,
                bands=[(mean - BAND_STDS * std, mean + BAND_STDS * std) for std in stds],
                X_train=picture["X_train"],
                y_train=picture["y_train"],
                truth=truth(_GRID),
            )
    panels = {name: panels[name] for name in curve.labels.values() if name in panels}
    if panels:
        names = [f"mean ± {BAND_STDS:g} std", "without the noise"]
        band_figure.draw(stem, panels=panels, line_name="predictive mean", band_names=names)


_FIGURES = {
    "rmse_of_curve": "RMSE of the mean against the curve, abs(x) <= 6",
    "log_likelihood": "log-likelihood of new points, nats a point",
    "new_points_in_band": "share of new points inside the band (ideal .9545)",
    "noise_std": "noise std (true .5)",
    "epistemic_std_inside": "epistemic std, abs(x) <= 6",
    "epistemic_std_beyond": "epistemic std, 6 < abs(x) <= 12",
}
