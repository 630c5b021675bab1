"""Figure 3 of Blundell et al. (2015): the weights that SGD, dropout and BBB learn on MNIST."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import jax
import numpy as np

from papers import digit_networks, markdown
from papers.bbb_curves import METHODS
from papers.digit_networks import Config
from papers.protocol import Key, Scratch
from papers.rows import Row

NAME = "bbb-weights"
_NEAR_ZERO = 0.01
_N_BINS = 160
_QUANTILES = 2001


def fit_cell(config: Config, key: Key, scratch: Scratch) -> dict[str, Any]:
    """Describe the weights of the last epoch; of a posterior, one draw of them."""
    network = digit_networks.trained(config, key["method"], key["units"], scratch)
    drawn = network.method.sample(jax.random.key(config.seed), network.state).weights
    weights = digit_networks.flat(drawn).astype(np.float64)
    return {
        "std": weights.std(),
        "near_zero": np.mean(np.abs(weights) < _NEAR_ZERO),
        "reach": np.quantile(np.abs(weights), 0.999),
        "quantiles": np.quantile(weights, np.linspace(0.0, 1.0, _QUANTILES)),
    }


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw densities of the largest networks, one line a method."""
    from papers.figures import lines_figure

    weights = digit_networks.of_largest(rows, METHODS, "quantiles")
    if weights:
        # No method loses more than 0.5 % beyond the axis.
        reach = max(float(np.quantile(np.abs(values), 0.995)) for values in weights.values())
        edges = np.linspace(-reach, reach, _N_BINS + 1)
        width = edges[1] - edges[0]
        lines = {
            name: lines_figure.Line(
                edges[:-1] + width / 2.0,
                np.histogram(values, bins=edges)[0] / (len(values) * width),
            )
            for name, values in weights.items()
        }
        settings = {"xlim": (-reach, reach), "ylim": (0.0, None)}
        lines_figure.draw(stem, lines, linewidth=1.5, xlabel="weight", ylabel="density", **settings)


def section(rows: Sequence[Row]) -> str:
    """Write the widths of the distributions."""
    networks = digit_networks.largest(rows)
    lines = []
    for same in networks:
        parts = ("std", "near_zero", "reach")
        std, near_zero, reach = (fmean((row.result or {})[part] for row in same) for part in parts)
        label = METHODS[same[0].cell["method"]]
        lines.append((label, f"{std:.4f}", f"{100 * near_zero:.1f}", f"{reach:.3f}"))
    finished = [row for same in networks for row in same]
    units = finished[0].cell["units"] if finished else ""
    return markdown.section(NAME, rows, finished, units=units, table=markdown.table(_HEADER, lines))


_HEADER = ("method", "std", f"% below {_NEAR_ZERO} in size", "99.9 % are below, in size")


EXPERIMENT = digit_networks.experiment(
    METHODS, name=NAME, work=fit_cell, section=section, draw=draw
)
