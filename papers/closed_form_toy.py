"""Figure 2a of Roth & Pernkopf (2016): 20 points of sin(2 pi x) with noise, fitted by L-BFGS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesprop.estimators.closed_form_vi import ClosedFormVIRegressor
from papers import markdown, uci
from papers.protocol import Cell, Experiment, Key, Selection
from papers.rows import Row, results

NAME = "closed-form-toy"
_PICTURED = 0
_GRID = np.linspace(-0.5, 1.5, 201)


@dataclass(frozen=True)
class Config:
    """Settings of the figure; the paper states neither size, noise nor prior.

    noise_std
        Of the data, and known to the model.
    prior_scale
        Standard deviation of every weight under the prior, for standardised data.
    """

    seed: int = 1
    n_points: int = 20
    noise_std: float = 0.1
    n_hidden: int = 50
    prior_scale: float = 1.0
    n_steps: int = 5000


def cells(_config: Config, asked: Selection) -> list[Cell]:
    """List fits to 20 draws of the data (quick: 2)."""
    return [Cell({"dataset": "sine", "draw": draw}) for draw in range(2 if asked.quick else 20)]


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit one draw of the data; compare the standard deviation near and far from the points."""
    rng = np.random.default_rng(uci.cell_seed(config.seed, key["draw"], 0))
    x = rng.uniform(0.0, 1.0, config.n_points)
    y = _truth(x) + config.noise_std * rng.standard_normal(config.n_points)
    model = ClosedFormVIRegressor(
        (config.n_hidden,),
        config.n_steps,
        noise=config.noise_std**2,
        optimizer="lbfgs",
        kl_warm_up=0.0,
        prior_scale=config.prior_scale,
        random_state=uci.cell_seed(config.seed, key["draw"], 1),
    ).fit(x[:, None], y)
    found = model.predict_dist(_GRID[:, None])
    std = np.sqrt(found.epistemic_var)
    inside = np.clip(_GRID, x.min(), x.max()) == _GRID
    curve = {"x": _GRID, "mean": found.mean, "std": std, "X_train": x, "y_train": y}
    return {
        "rmse_of_curve": np.sqrt(np.mean((found.mean - _truth(_GRID))[inside] ** 2)),
        "std_inside": np.mean(std[inside]),
        "std_beyond": np.mean(std[~inside]),
        "converged": float(not model.fit_report_.guards["not_converged"]),
        "n_steps": model.n_iter_,
        "dead_units": model.fit_report_.guards["dead_units"],
        **({"curve": curve} if key["draw"] == _PICTURED else {}),
    }


def _truth(x: np.ndarray) -> np.ndarray:
    return np.sin(2.0 * np.pi * x)


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw the first draw of the data."""
    from papers.figures import band_figure

    kept = [result["curve"] for result in results(rows) if "curve" in result]
    if not kept:
        return
    curve = {name: np.asarray(values) for name, values in kept[0].items()}
    mean, std = curve["mean"], curve["std"]
    panel = band_figure.Panel(
        curve["x"],
        mean,
        [(mean - std, mean + std)],
        curve["X_train"],
        curve["y_train"],
        _truth(curve["x"]),
    )
    band_figure.draw(
        stem, panels={"": panel}, line_name="mean output", band_names=["± std of the output"]
    )


def section(rows: Sequence[Row]) -> str:
    """Write the figures of the picture, averaged over draws of the data."""
    finished = markdown.latest(rows)
    found = results(finished)
    lines = [(label, *markdown.means(found, [name])) for name, label in _FIGURES.items()]
    settings = finished[0].config if finished else vars(Config())
    return markdown.section(
        NAME,
        rows,
        finished,
        n_points=settings["n_points"],
        noise_std=settings["noise_std"],
        n_hidden=settings["n_hidden"],
        prior_scale=settings["prior_scale"],
        table=markdown.table((f"mean ± s.e. over {len(finished)} draws of the data", ""), lines),
    )


_FIGURES = {
    "rmse_of_curve": "RMSE of the mean against the curve, among the points",
    "std_inside": "std of the output, among the points",
    "std_beyond": "std of the output, beyond them, -0.5 <= x <= 1.5",
    "converged": "share of fits whose gradient vanished (largest derivative a row <= 1e-4)",
    "n_steps": "steps of L-BFGS",
    "dead_units": "dead hidden units",
}


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=("sine",),
    cells=cells,
    work=fit_cell,
    section=section,
    draw=draw,
)
