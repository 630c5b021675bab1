"""Figure 1 of Roth & Pernkopf (2016): Gaussians behind a ReLU, and their Gaussian approximation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesprop.experiments import markdown, protocol
from bayesprop.experiments.protocol import Cell, Key, Progress
from bayesprop.experiments.rows import Row
from bayesprop.numerics import activation_moments

NAME = "closed-form-relu"
CASES = ((-1.0, 0.25), (0.0, 0.25), (1.0, 0.25), (-1.0, 4.0), (0.0, 4.0), (2.0, 1.0))
_N_DRAWS = 1_000_000


@dataclass(frozen=True)
class Config:
    """Settings of the figure."""

    seed: int = 1


def run(
    *,
    quick: bool,
    jobs: int,
    out: Path,
    only: list[str] | None,
    seed: int,
    progress: Progress,
) -> None:
    """Compute and draw all cases; the only part is "relu", and quick is the whole."""
    del quick
    protocol.chosen(only, ("relu",))
    cells = [Cell({"mean": m, "var": v}) for m, v in CASES]
    how = {"out": out, "jobs": jobs, "progress": progress}
    rows = protocol.run_cells(NAME, fit_cell, Config(seed=seed), cells, **how)
    protocol.write_section(out, NAME, section(protocol.all_rows(out, NAME)))
    protocol.check_all_done(rows)
    _draw(rows, out / NAME)


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


def _draw(rows: Sequence[Row], stem: Path) -> None:
    from bayesprop.report import relu_figure
    from bayesprop.report.relu_figure import Rectified

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
    return "\n\n".join(
        (
            "## A Gaussian through the ReLU (Roth & Pernkopf, Figure 1)",
            f"![True distributions and their Gaussian approximations]({NAME}.svg)",
            markdown.table(("before", *_COLUMNS.values()), lines),
            f"The draws are {_N_DRAWS} a case. Variances are variances: N(m, v). The paper prints "
            "no figures to compare with.",
            markdown.origin(finished) if finished else "Nothing has been run.",
        )
    ) + markdown.failures(rows)


_COLUMNS = {
    "relu_mean": "mean after",
    "drawn_mean": "by draws",
    "relu_var": "variance after",
    "drawn_var": "by draws",
    "share_at_zero": "share at zero",
}
