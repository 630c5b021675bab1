"""The picture of a line a method: Bayes by Backprop 2015, Figures 2 and 3."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from bayesprop.report.svg import BLUE, INK, ORANGE
from papers.figures import save

_STYLES = ((BLUE, "-"), (ORANGE, "--"), (INK, ":"), ("0.5", "-."))


class Line(NamedTuple):
    """Points of a line."""

    x: Float[np.ndarray, " k"]
    y: Float[np.ndarray, " k"]


def draw(stem: Path, lines: Mapping[str, Line], *, linewidth: float, **axes_settings: Any) -> None:
    """Write `<stem>.png` and `<stem>.svg`: by method, at most four lines of any lengths."""
    figure = Figure(figsize=(5.0, 3.4), layout="constrained")
    axes = figure.subplots()
    for (name, line), (colour, dashes) in zip(lines.items(), _STYLES, strict=False):
        axes.plot(*line, dashes, color=colour, linewidth=linewidth, label=name)
    axes.set(**axes_settings)
    axes.legend(frameon=False, fontsize=8)
    save(figure, stem)
