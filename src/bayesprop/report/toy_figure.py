"""The picture of a fit to one input: points, true curve, mean and band (PBP 2015, Figure 1)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from bayesprop.report.picture_files import save


def draw(
    stem: Path,
    *,
    x: Float[np.ndarray, " g"],
    mean: Float[np.ndarray, " g"],
    std: Float[np.ndarray, " g"],
    truth: Float[np.ndarray, " g"],
    X_train: Float[np.ndarray, " n"],
    y_train: Float[np.ndarray, " n"],
    band_stds: float,
) -> None:
    """Write `<stem>.png` and `<stem>.svg`.

    x, mean, std, truth
        A grid of inputs; there, the predictive mean and standard deviation, and the true curve.
    band_stds
        Half width of the band, in predictive standard deviations.
    """
    figure = Figure(figsize=(5.0, 3.6), layout="constrained")
    axes = figure.subplots()
    band = {"color": "0.85", "linewidth": 0, "label": f"mean ± {band_stds:g} std"}
    axes.fill_between(x, mean - band_stds * std, mean + band_stds * std, **band)
    axes.plot(x, truth, color="black", linewidth=1.2, label="truth")
    axes.plot(x, mean, color="0.4", linewidth=1.8, label="predictive mean")
    axes.plot(X_train, y_train, "o", color="black", markersize=4, label="data")
    reach = 2.0 * np.abs(y_train).max()
    axes.set(xlim=(x[0], x[-1]), ylim=(-reach, reach), xlabel="x", ylabel="y")
    axes.legend(loc="upper left", frameon=False, fontsize=8)
    save(figure, stem)
