"""Figure 1 of Hernández-Lobato & Adams (2015), PBP's panel: 20 points of a cubic with noise.

The paper shows one draw of the data. Here the first draw is the picture, and figures are averaged
over several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bayesprop.data.toy import CUBIC_RANGE, cubic, cubic_mean
from bayesprop.estimators.pbp import PBPRegressor
from bayesprop.experiments import markdown, protocol, uci
from bayesprop.experiments.compare import Estimate
from bayesprop.experiments.protocol import Cell, Key, Progress
from bayesprop.experiments.rows import Row

NAME = "pbp-toy"
BAND_STDS = 3.0
_PICTURED = 0
_GRID = np.linspace(-6.0, 6.0, 121)
_N_NEW = 1000


@dataclass(frozen=True)
class Config:
    """Settings of the figure."""

    seed: int = 1
    n_points: int = 20
    n_hidden: int = 100
    n_epochs: int = 40
    engine: Literal["auto", "kernel", "jax"] = "auto"


def run(
    *,
    quick: bool,
    jobs: int,
    out: Path,
    only: list[str] | None,
    seed: int,
    progress: Progress,
) -> None:
    """Fit 20 draws of the data (quick: 2) and draw the first; the only part is "cubic"."""
    protocol.chosen(only, ("cubic",))
    fits = [Cell({"dataset": "cubic", "draw": draw}) for draw in range(2 if quick else 20)]
    how = {"out": out, "jobs": jobs, "progress": progress}
    rows = protocol.run_cells(NAME, fit_cell, Config(seed=seed), fits, **how)
    finished = protocol.all_rows(out, NAME)
    protocol.write_section(out, NAME, section(finished))
    if rows[_PICTURED].is_done:
        _draw(rows[_PICTURED], out / NAME)
    protocol.check_all_done(rows)


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit one draw; say how wide the band of ± 3 std is, and whether the truth lies in it."""
    data_seed = uci.cell_seed(config.seed, key["draw"], 0)
    toy = cubic(config.n_points, random_state=data_seed)
    model = PBPRegressor(
        (config.n_hidden,),
        n_epochs=config.n_epochs,
        reference=True,
        engine=config.engine,
        random_state=uci.cell_seed(config.seed, key["draw"], 1),
    ).fit(toy.X, toy.y)
    mean, std = model.predict(_GRID[:, None], return_std=True)
    new = cubic(_N_NEW, random_state=uci.cell_seed(config.seed, key["draw"], 2))
    new_mean, new_std = model.predict(new.X, return_std=True)
    inside = np.clip(_GRID, *CUBIC_RANGE) == _GRID
    holds_curve = np.abs(cubic_mean(_GRID) - mean) <= BAND_STDS * std
    curve = {"x": _GRID, "mean": mean, "std": std, "X_train": toy.X[:, 0], "y_train": toy.y}
    return {
        "curve_in_band": np.mean(holds_curve[inside]),
        "curve_in_band_beyond": np.mean(holds_curve[~inside]),
        "new_points_in_band": np.mean(np.abs(new.y - new_mean) <= BAND_STDS * new_std),
        "std_inside": np.mean(std[inside]),
        "std_beyond": np.mean(std[~inside]),
        "rmse_of_curve": np.sqrt(np.mean((mean - cubic_mean(_GRID))[inside] ** 2)),
        **({"curve": curve} if key["draw"] == _PICTURED else {}),
    }


def _draw(row: Row, stem: Path) -> None:
    from bayesprop.report import band_figure

    curve = {name: np.asarray(values) for name, values in (row.result or {})["curve"].items()}
    half = BAND_STDS * curve["std"]
    band = (curve["mean"] - half, curve["mean"] + half)
    panel = band_figure.Panel(
        curve["x"], curve["mean"], [band], curve["X_train"], curve["y_train"], cubic_mean(_GRID)
    )
    band_figure.draw(
        stem,
        panels={"": panel},
        line_name="predictive mean",
        band_names=[f"mean ± {BAND_STDS:g} std"],
    )


def section(rows: Sequence[Row]) -> str:
    """Write the figures of the picture, averaged over draws of the data."""
    finished = markdown.latest(rows)
    results = [row.result or {} for row in finished]
    lines = [
        (label, markdown.estimate(Estimate.of([result[name] for result in results])))
        for name, label in _FIGURES.items()
    ]
    return "\n\n".join(
        (
            "## PBP on a cubic (PBP paper, Figure 1)",
            "20 points, x uniform on [-4, 4], y = x³ + e with e ~ N(0, 9) (a variance), 100 hidden "
            "units, 40 epochs, `PBPRegressor(reference=True)`. The band is mean ± 3 predictive "
            "standard deviations, noise included.",
            f"![Points, x³, predictive mean and band]({NAME}.svg)",
            markdown.table((f"mean ± s.e. over {len(finished)} draws of the data", ""), lines),
            "The paper prints no figures for this experiment, so there is nothing to compare but "
            "the picture: the band must hold the curve where there are data, and widen where there "
            "are none.",
            markdown.origin(finished) if finished else "Nothing has been run.",
        )
    ) + markdown.failures(rows)


_FIGURES = {
    "curve_in_band": "share of x³ inside the band, x in [-4, 4]",
    "curve_in_band_beyond": "share of x³ inside the band, 4 < abs(x) <= 6",
    "new_points_in_band": "share of new noisy points inside the band, x in [-4, 4] (ideal .9973)",
    "std_inside": "predictive std, x in [-4, 4] (the noise alone is 3)",
    "std_beyond": "predictive std, 4 < abs(x) <= 6",
    "rmse_of_curve": "RMSE of the mean against x³, x in [-4, 4]",
}
