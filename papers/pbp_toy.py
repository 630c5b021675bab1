"""Figure 1 of Hernández-Lobato & Adams (2015): 20 points of a cubic with noise, four methods.

The paper shows one draw of the data. Here the first draw is the picture, and figures are averaged
over several, each method beside the truth of the same draw: Hamiltonian Monte Carlo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesprop.catalogue import make
from papers import ground_truth, markdown, uci
from papers.compare import Estimate
from papers.ground_truth import TRUTH, VAGUE
from papers.protocol import Experiment, Key, draws
from papers.published_pbp import PublishedPBP
from papers.rows import Row, results
from papers.toy import CUBIC_RANGE, Toy, cubic, cubic_mean

NAME = "pbp-toy"
PANELS = {
    "graves-vi": "VI",
    "network": "BP",
    "pbp": "PBP",
    VAGUE: "HMC",
    TRUTH: "HMC, priors of PBP",
}
BAND_STDS = 3.0
_PICTURED = 0
GRID = np.linspace(-6.0, 6.0, 121)
_INSIDE = np.clip(GRID, *CUBIC_RANGE) == GRID
_N_NEW = 1000


@dataclass(frozen=True)
class Config:
    """Settings of the figure; 4 chains of 7500 are the paper's 30 000 draws."""

    seed: int = 1
    n_points: int = 20
    n_hidden: int = 100
    n_epochs: int = 40
    n_chains: int = 4
    n_warmup: int = 1000
    n_draws: int = 7500
    engine: str = "auto"


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit one draw; say how wide the band of ± 3 std is, and whether the truth lies in it."""
    toy = points(config.seed, key["draw"], config.n_points)
    seed = uci.cell_seed(config.seed, key["draw"], 1)
    model = _model(config, key["method"], seed).fit(toy.X, toy.y)
    return {**figures(model, config.seed, key["draw"]), **ground_truth.chains_of(model)}


def figures(model: Any, seed: int, draw: int) -> dict[str, Any]:
    """Say how wide the band of a fitted model is, and whether the truth lies in it."""
    found = model.predict_dist(GRID[:, None])
    mean, std = found.mean, found.std
    new = cubic(_N_NEW, random_state=uci.cell_seed(seed, draw, 2))
    of_new = model.predict_dist(new.X)
    holds_curve = np.abs(cubic_mean(GRID) - mean) <= BAND_STDS * std
    return {
        "curve_in_band": np.mean(holds_curve[_INSIDE]),
        "curve_in_band_beyond": np.mean(holds_curve[~_INSIDE]),
        "new_points_in_band": np.mean(np.abs(new.y - of_new.mean) <= BAND_STDS * of_new.std),
        "std_inside": np.mean(std[_INSIDE]),
        "std_beyond": np.mean(std[~_INSIDE]),
        "rmse_of_curve": np.sqrt(np.mean((mean - cubic_mean(GRID))[_INSIDE] ** 2)),
        **ground_truth.predicted(found),
    }


def points(seed: int, draw: int, n: int) -> Toy:
    """Draw the rows that every method learns."""
    return cubic(n, random_state=uci.cell_seed(seed, draw, 0))


def _model(config: Config, method: str, seed: int) -> Any:
    """Build a method as the paper ran it; the truth as `ground-truth` has it."""
    if method in (TRUTH, VAGUE):
        return ground_truth.estimator(config, method, config.n_hidden, seed)
    sizes = (config.n_hidden,)
    if method == "pbp":
        return PublishedPBP(sizes, config.n_epochs, seed)
    how = {"batch_size": 1, **ground_truth.SETTINGS.get(method, {})}
    return make(
        method, hidden_layer_sizes=sizes, n_epochs=config.n_epochs, random_state=seed, **how
    )


def draw(rows: Sequence[Row], stem: Path, titles: Mapping[str, str] = PANELS) -> None:
    """Draw the first draw of the data, a panel a method."""
    from papers.figures import band_figure

    config, found = rows[0].config, {}
    toy = points(config["seed"], _PICTURED, config["n_points"])
    for row in rows:
        if row.cell["draw"] == _PICTURED:
            mean, std = (np.asarray((row.result or {})[name]) for name in ("mean", "std"))
            band = (mean - BAND_STDS * std, mean + BAND_STDS * std)
            found[titles[row.cell["method"]]] = band_figure.Panel(
                GRID, mean, [band], toy.X[:, 0], toy.y, cubic_mean(GRID)
            )
    panels = {title: found[title] for title in titles.values() if title in found}
    if panels:
        band_figure.draw(
            stem,
            panels=panels,
            line_name="predictive mean",
            band_names=[f"mean ± {BAND_STDS:g} std"],
        )


def section(rows: Sequence[Row]) -> str:
    """Write the figures of the picture, averaged over draws of the data, a column a method."""
    finished = markdown.latest(rows)
    by_method = {m: results(finished, method=m) for m in PANELS}
    lines = [
        (label, *(markdown.means(by_method[m], [name])[0] for m in PANELS))
        for name, label in FIGURES.items()
    ]
    for truth in (VAGUE, TRUTH):
        off = ground_truth.distances(finished, ("draw", "method"), truth)
        for name, label in _DISTANCES.items():
            values = {
                method: [getattr(d, name) for key, d in off.items() if key[-1] == method]
                for method in PANELS
            }
            label = label.replace("HMC", PANELS[truth])
            means = (markdown.estimate(Estimate.of(values[method])) for method in PANELS)
            lines.append((label, *means))
    lines.insert(0, ("draws of the data", *(str(len(found)) for found in by_method.values())))
    header = ("mean ± s.e. over draws of the data", *PANELS.values())
    return markdown.section(
        NAME,
        rows,
        finished,
        chains_line=ground_truth.chains_line(finished),
        table=markdown.table(header, lines),
    )


FIGURES = {
    "curve_in_band": "share of x³ inside the band, x in [-4, 4]",
    "curve_in_band_beyond": "share of x³ inside the band, 4 < abs(x) <= 6",
    "new_points_in_band": "share of new noisy points inside the band, x in [-4, 4] (ideal .9973)",
    "std_inside": "predictive std, x in [-4, 4] (the noise alone is 3)",
    "std_beyond": "predictive std, 4 < abs(x) <= 6",
    "rmse_of_curve": "RMSE of the mean against x³, x in [-4, 4]",
}
_DISTANCES = {
    "mean": "from HMC: RMS of difference of means / its std",
    "std": "from HMC: RMS of log(std / its std)",
    "std_ratio": "from HMC: geometric mean of std / its std",
}


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=PANELS,
    cells=draws(20, quick=2),
    work=fit_cell,
    section=section,
    draw=draw,
    quick={"n_warmup": 200, "n_draws": 100},
)
