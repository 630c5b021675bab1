"""The picture of signal-to-noise ratios of weights (Bayes by Backprop 2015, Figure 4)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from bayesprop.report.svg import BLUE, ORANGE
from papers.figures import save

_N_BINS = 120


def draw(stem: Path, *, ratio: Float[np.ndarray, " q"], cut_share: float) -> None:
    """Write `<stem>.png` and `<stem>.svg`: density above, distribution below.

    ratio
        Quantiles of abs(mean) / std over the weights, at equal steps; shown in dB, 10 log10.
    cut_share
        Share of the weights below the cut that is marked, such as 0.75.
    """
    ratio = 10.0 * np.log10(np.maximum(np.sort(ratio), np.finfo(np.float64).tiny))
    # A handful of weights with a mean near zero would stretch the axis without end.
    low, high = np.quantile(ratio, (0.0005, 1.0))
    density, edges = np.histogram(ratio, bins=np.linspace(low, high, _N_BINS + 1), density=True)
    at = np.linspace(low, high, 400)
    share = np.searchsorted(ratio, at, side="right") / len(ratio)
    figure = Figure(figsize=(5.0, 5.0), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.stairs(density, edges, fill=True, color=BLUE, alpha=0.5)
    below.plot(at, share, color=BLUE, linewidth=1.8)
    cut = float(np.quantile(ratio, cut_share))
    for axes in (above, below):
        axes.axvline(cut, color=ORANGE, linewidth=1.2, label=f"{100 * cut_share:g} % cut-off")
    above.set(ylabel="density", ylim=(0.0, None), xlim=(low, high))
    above.legend(loc="upper left", frameon=False, fontsize=8)
    below.set(ylabel="share of the weights", xlabel="signal-to-noise ratio, dB", ylim=(0.0, 1.0))
    save(figure, stem)
