"""Figure 1 of Roth & Pernkopf (2016): Gaussians behind a ReLU, and their Gaussian approximation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesprop.numerics import activation_moments
from papers import markdown
from papers.protocol import Cell, Experiment, Key, Selection
from papers.rows import Row

NAME = "closed-form-relu"
CASES = ((-1.0, 0.25), (0.0, 0.25), (1.0, 0.25), (-1.0, 4.0), (0.0, 4.0), (2.0, 1.0))
_N_DRAWS = 1_000_000


@dataclass(frozen=True)
class Config:
    """Settings of the figure."""

    seed: int = 1


def cells(_config: Config, _asked: Selection) -> list[Cell]:
    """List all cases; quick is the whole."""
    return [Cell({"mean": m, "var": v}) for m, v in CASES]


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Moments of one case, in closed form and by draws."""
    m, v = key["mean"], key["var"]
    found = activation_moments.relu(jnp.asarray(m), jnp.asarray(v))
    draws = np.random.default_rng(config.seed).normal(m, np.sqrt(v), _N_DRAWS)
    kept = np.maximum(draws, 0.0)
    return {
        "relu_mean": float(found.m),
        "relu_var": float(found.v),
        "drawn_mean": kept.mean(),
        "drawn_var": kept.var(),
        "share_at_zero": np.mean(draws <= 0.0),
    }


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw every case."""
    from papers.figures import relu_figure
    from papers.figures.relu_figure import Rectified

    results = [(row.cell, row.result or {}) for row in rows]
    cases = [
        Rectified(cell["mean"], cell["var"], found["relu_mean"], found["relu_var"])
        for cell, found in results
    ]
    relu_figure.draw(stem, cases=cases)


def section(rows: Sequence[Row]) -> str:
    """Write the moments in closed form beside those of draws."""
    finished = markdown.latest(rows)
    lines = [
        [
            f"N({row.cell['mean']:g}, {row.cell['var']:g})",
            *(f"{(row.result or {})[name]:.4f}" for name in _COLUMNS),
        ]
        for row in finished
    ]
    return markdown.section(
        NAME,
        rows,
        finished,
        table=markdown.table(("before", *_COLUMNS.values()), lines),
        n_draws=_N_DRAWS,
    )


_COLUMNS = {
    "relu_mean": "mean after",
    "drawn_mean": "by draws",
    "relu_var": "variance after",
    "drawn_var": "by draws",
    "share_at_zero": "share at zero",
}


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=("relu",),
    cells=cells,
    work=fit_cell,
    section=section,
    draw=draw,
)
