"""The picture of the weights that several methods find (Bayes by Backprop 2015, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from bayesprop.report.svg import BLUE, INK, ORANGE
from papers.figures import save

_N_BINS = 160
_STYLES = ((BLUE, "-"), (ORANGE, "--"), (INK, ":"), ("0.5", "-."))


def draw(
    stem: Path,
    *,
    weights: Mapping[str, Float[np.ndarray, " w"]],
) -> None:
    """Write `<stem>.png` and `<stem>.svg`: one density a method.

    weights
        By method, all weights of a network, or of one draw of it; at most four.
    """
    # No method loses more than 0.5 % beyond the axis.
    reach = max(float(np.quantile(np.abs(values), 0.995)) for values in weights.values())
    edges = np.linspace(-reach, reach, _N_BINS + 1)
    width = edges[1] - edges[0]
    figure = Figure(figsize=(5.0, 3.4), layout="constrained")
    axes = figure.subplots()
    for (name, values), (colour, line) in zip(weights.items(), _STYLES, strict=False):
        counts, _ = np.histogram(values, bins=edges)
        density = counts / (len(values) * width)
        axes.plot(edges[:-1] + width / 2.0, density, line, color=colour, linewidth=1.5, label=name)
    axes.set(xlabel="weight", ylabel="density", xlim=(-reach, reach), ylim=(0.0, None))
    axes.legend(frameon=False, fontsize=8)
    save(figure, stem)
