"""The picture of a fit to one input: points, the predicted line, bands, the true curve.

PBP 2015, Figure 1; Bayes by Backprop 2015, Figure 5; closed-form VI 2016, Figure 2a.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from bayesprop.report.svg import BLUE
from papers.figures import save

_ALPHAS = (0.18, 0.32)


@dataclass(frozen=True, eq=False)
class Panel:
    """One fit.

    x, line, truth
        A grid of inputs; there, the predicted mean or median, and the true curve.
    bands
        (low, high) on the grid, the widest first; at most two.
    """

    x: Float[np.ndarray, " g"]
    line: Float[np.ndarray, " g"]
    bands: Sequence[tuple[Float[np.ndarray, " g"], Float[np.ndarray, " g"]]]
    X_train: Float[np.ndarray, " n"]
    y_train: Float[np.ndarray, " n"]
    truth: Float[np.ndarray, " g"]


def draw(
    stem: Path,
    *,
    panels: Mapping[str, Panel],
    line_name: str,
    band_names: Sequence[str],
) -> None:
    """Write `<stem>.png` and `<stem>.svg`: panels side by side, on common axes.

    panels
        By title, which may be empty.
    band_names
        What the bands are, in their order, such as "mean ± 3 std".
    """
    figure = Figure(figsize=(4.2 * len(panels) + 0.8, 3.6), layout="constrained")
    row = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (title, panel) in zip(row, panels.items(), strict=True):
        bands = zip(panel.bands, band_names, _ALPHAS, strict=False)
        for (low, high), name, alpha in bands:
            style = {"color": BLUE, "alpha": alpha, "linewidth": 0}
            axes.fill_between(panel.x, low, high, label=name, **style)
        axes.plot(panel.x, panel.truth, color="black", linewidth=1.2, label="truth")
        axes.plot(panel.x, panel.line, color=BLUE, linewidth=1.8, label=line_name)
        axes.plot(panel.X_train, panel.y_train, "o", color="black", markersize=3.5, label="data")
        axes.set(title=title, xlabel="x", xlim=(panel.x[0], panel.x[-1]))
    y = np.concatenate([panel.y_train for panel in panels.values()])
    room = 0.5 * float(np.ptp(y))  # bands may go further
    row[0].set(ylabel="y", ylim=(float(np.min(y)) - room, float(np.max(y)) + room))
    row[0].legend(loc="upper left", frameon=False, fontsize=8)
    save(figure, stem)
