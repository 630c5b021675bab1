"""The picture of cumulative regret in a bandit's course (Blundell et al. 2015, Figure 6)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from bayesprop.report.picture_files import save
from bayesprop.report.svg import BLUE, INK, ORANGE

_COLOURS = (BLUE, ORANGE, INK, "0.55", "#2a9d8f", "#8e44ad", "#b5651d", "#c2185b", "#6b8e23")


class Band(NamedTuple):
    """Mean over runs, the lowest and the highest run, at equally spaced interactions."""

    mean: Float[np.ndarray, " p"]
    low: Float[np.ndarray, " p"]
    high: Float[np.ndarray, " p"]


def draw(stem: Path, *, bands: Mapping[str, Band], n_interactions: int, uniform: float) -> None:
    """Write `<stem>.png` and `<stem>.svg`.

    bands
        By agent; the first is drawn on top.
    uniform
        Regret a step of choosing evenly, a dotted line.
    """
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.subplots()
    top = 1.1 * max(float(band.high[-1]) for band in bands.values())
    for order, (label, band) in enumerate(bands.items()):
        colour = _COLOURS[order % len(_COLOURS)]
        at = n_interactions * np.arange(1, len(band.mean) + 1) / len(band.mean)
        line = f"{label}: {band.mean[-1]:,.0f}"
        axes.plot(at, band.mean, color=colour, linewidth=1.6, label=line, zorder=20 - order)
        axes.fill_between(at, band.low, band.high, color=colour, alpha=0.13, linewidth=0)
    end = min(n_interactions, top / uniform)
    axes.plot((0, end), (0, end * uniform), ":", color="0.4", linewidth=1.2, label="uniform")
    axes.set(
        xlabel="interactions",
        ylabel="cumulative expected regret",
        xlim=(0, n_interactions),
        ylim=(0, top),
    )
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save(figure, stem)
