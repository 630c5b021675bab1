"""The picture of test error as measured rows are added (PBP 2015, Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from bayesprop.report.svg import BLUE, INK, ORANGE
from papers.figures import save

_COLOURS = (BLUE, ORANGE, INK, "0.55")


class Curve(NamedTuple):
    """Mean error after 0, 1, 2, ... additions, and its standard error."""

    mean: Float[np.ndarray, " k"]
    se: Float[np.ndarray, " k"]


def draw(stem: Path, *, panels: Mapping[str, Mapping[str, Mapping[str, Curve]]]) -> None:
    """Write `<stem>.png` and `<stem>.svg`.

    panels
        By data set and method, the curves "random" (dashed) and "active".
    """
    figure = Figure(figsize=(3.2 * len(panels), 3.6), layout="constrained")
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (dataset, methods) in zip(all_axes, panels.items(), strict=True):
        for (method, curves), colour in zip(methods.items(), _COLOURS, strict=False):
            for collection, (mean, se) in curves.items():
                at, line = np.arange(len(mean)), "--" if collection == "random" else "-"
                label = f"{method}, {collection}"
                axes.plot(at, mean, line, color=colour, linewidth=1.4, label=label)
                axes.fill_between(at, mean - se, mean + se, color=colour, alpha=0.15, linewidth=0)
        axes.set(title=dataset, xlabel="rows added", ylabel="test RMSE")
    shown = max(all_axes, key=lambda axes: len(axes.lines)).get_legend_handles_labels()
    columns = {"loc": "outside lower center", "ncols": max(1, len(shown[0]) // 2)}
    figure.legend(*shown, **columns, frameon=False, fontsize=8)
    save(figure, stem)
