"""VI and BP of Figure 1 of Hernández-Lobato & Adams (2015), tuned on the 20 points as they were.

Without chains, which take an hour: the truth is that of `pbp-toy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from papers import markdown, pbp_toy, tuned_network, uci
from papers.protocol import Cell, Experiment, Key, Scratch, Selection, draws
from papers.tuned_network import tuned

NAME = "pbp-toy-tuned"
METHODS = {"vi": "VI", "vi-rmse": "VI by RMSE from a quarter-wide start", "bp": "BP"}


@dataclass(frozen=True)
class Config(tuned_network.Config):
    """Settings of the searches, and of the figure."""

    n_points: int = 20
    n_hidden: int = 100


def cells(config: Config, asked: Selection) -> list[Cell]:
    """List searches on draws of the data, 20 of them; quick: two, with fewer trials."""
    tuned_network.check_optuna()
    return draws(20, quick=2)(config, asked)


def fit_cell(config: Config, key: Key, scratch: Scratch) -> dict[str, Any]:
    """Tune a method on four of the points, fit it to all, and say what its band holds."""
    toy = pbp_toy.points(config.seed, key["draw"], config.n_points)
    seeds = [uci.cell_seed(config.seed, key["draw"], place) for place in range(3, 7)]
    model = tuned(config, key, scratch, toy.X, toy.y, (config.n_hidden,), seeds)
    return {
        **pbp_toy.figures(model, config.seed, key["draw"]),
        "settings_diverged": model.n_diverged,
        **model.chosen.settings,
    }


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=METHODS,
    cells=cells,
    work=fit_cell,
    section=partial(markdown.section_by_method, NAME, METHODS, pbp_toy.FIGURES),
    draw=partial(pbp_toy.draw, titles=METHODS),
    quick={"n_trials": 3},
    scratch=True,
)
