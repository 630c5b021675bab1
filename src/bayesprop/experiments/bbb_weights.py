"""Figure 3 of Blundell et al. (2015): the weights that SGD, dropout and BBB learn on MNIST."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayesprop.experiments import digit_networks, markdown, protocol
from bayesprop.experiments.bbb_curves import METHODS
from bayesprop.experiments.digit_networks import Config
from bayesprop.experiments.protocol import Cell, Key, Progress
from bayesprop.experiments.rows import Row

NAME = "bbb-weights"
_NEAR_ZERO = 0.01
_QUANTILES = 2001


def run(
    *,
    quick: bool,
    jobs: int,
    out: Path,
    only: list[str] | None,
    seed: int,
    progress: Progress,
) -> None:
    """Look at the networks of Table 1, trained here if need be; parts: their units."""
    config = digit_networks.quick(Config(seed=seed)) if quick else Config(seed=seed)
    cells = [
        Cell({"method": kind, "units": units}, units**2 * config.epochs_of(kind))
        for units in digit_networks.chosen_units(config, only)
        for kind in METHODS
    ]
    work = partial(fit_cell, out=out, progress=progress)
    rows = protocol.run_cells(NAME, work, config, cells, out=out, jobs=jobs, progress=progress)
    finished = protocol.all_rows(out, NAME)
    protocol.write_section(out, NAME, section(finished))
    _draw(digit_networks.largest(markdown.latest(finished)), out / NAME)
    protocol.check_all_done(rows)


def fit_cell(
    config: Config, key: Key, *, out: Path, progress: Progress | None = None
) -> dict[str, Any]:
    """Describe the weights of the last epoch; of a posterior, one draw of them."""
    network = digit_networks.trained(config, key["method"], key["units"], out, progress=progress)
    drawn = network.method.sample(jax.random.key(config.seed), network.state).weights
    weights = digit_networks.flat(drawn).astype(np.float64)
    return {
        "std": weights.std(),
        "near_zero": np.mean(np.abs(weights) < _NEAR_ZERO),
        "reach": np.quantile(np.abs(weights), 0.999),
        "quantiles": np.quantile(weights, np.linspace(0.0, 1.0, _QUANTILES)),
    }


def _draw(rows: Sequence[Row], stem: Path) -> None:
    from bayesprop.report import weights_figure

    weights = {
        label: np.asarray((row.result or {})["quantiles"])
        for kind, label in METHODS.items()
        for row in rows
        if row.cell["method"] == kind
    }
    if weights:
        weights_figure.draw(stem, weights=weights)


def section(rows: Sequence[Row]) -> str:
    """Write the widths of the distributions."""
    finished = digit_networks.largest(markdown.latest(rows))
    lines = [
        (
            METHODS[row.cell["method"]],
            f"{result['std']:.4f}",
            f"{100 * result['near_zero']:.1f}",
            f"{result['reach']:.3f}",
        )
        for row in finished
        if (result := row.result or {})
    ]
    units = finished[0].cell["units"] if finished else ""
    return "\n\n".join(
        (
            "## Distribution of the weights (BBB paper, Figure 3)",
            f"All weights and biases of the networks of {units} units after the last epoch: as "
            "they are for SGD and dropout, one draw from the posterior for Bayes by Backprop.",
            f"![Densities of the weights]({NAME}.svg)",
            markdown.table(_HEADER, lines),
            "In the paper the weights of Bayes by Backprop have the greatest range and those of "
            "SGD the smallest.",
            markdown.origin(finished) if finished else "Nothing has been run.",
        )
    ) + markdown.failures(rows)


_HEADER = ("method", "std", f"% below {_NEAR_ZERO} in size", "99.9 % are below, in size")
