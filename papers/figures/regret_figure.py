"""The picture of cumulative regret in a bandit's course (Blundell et al. 2015, Figure 6)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from bayesprop.report.svg import BLUE, INK, ORANGE
from papers.figures import save

_COLOURS = (BLUE, ORANGE, INK, "0.55", "#2a9d8f", "#8e44ad", "#d4ac0d", "#c2185b", "#6b8e23")


class Band(NamedTuple):
    """Mean over runs, the lowest and the highest run, at equally spaced interactions."""

    mean: Float[np.ndarray, " p"]
    low: Float[np.ndarray, " p"]
    high: Float[np.ndarray, " p"]


def draw(stem: Path, *, bands: Mapping[str, Band], n_interactions: int, uniform: float) -> None:
    """Write `<stem>.png` and `<stem>.svg`; regret on a logarithmic scale, as agents differ by tens.

    bands
        By agent; the first is drawn on top.
    uniform
        Regret a step of choosing evenly, a dotted line.
    """
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.subplots()
    places = np.arange(1, max(len(band.mean) for band in bands.values()) + 1)
    for order, (label, band) in enumerate(bands.items()):
        colour = _COLOURS[order % len(_COLOURS)]
        at = n_interactions * np.arange(1, len(band.mean) + 1) / len(band.mean)
        line = f"{label}: {band.mean[-1]:,.0f}"
        axes.plot(at, band.mean, color=colour, linewidth=1.6, label=line, zorder=20 - order)
        axes.fill_between(at, band.low, band.high, color=colour, alpha=0.13, linewidth=0)
    at = n_interactions * places / len(places)
    axes.plot(at, uniform * at, ":", color="0.4", linewidth=1.2, label="uniform")
    early = [float(band.low[len(band.low) // 50]) for band in bands.values()]
    axes.set(
        xlabel="interactions",
        ylabel="cumulative expected regret",
        xlim=(0, n_interactions),
        yscale="log",
        ylim=(max(0.7 * min(early), 1.0), 1.2 * uniform * n_interactions),
    )
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save(figure, stem)
