"""The picture of `pbp-toy`: points, true curve, predictive mean and band (PBP 2015, Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesprop.data.toy import cubic_mean
from bayesprop.experiments.pbp_toy import BAND_STDS, pictured
from bayesprop.experiments.rows import Row
from bayesprop.report.picture_files import save


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Write `<stem>.png` and `<stem>.svg`."""
    figure = Figure(figsize=(5.0, 3.6), layout="constrained")
    _panel(figure.subplots(), rows)
    save(figure, stem)


def _panel(axes: Axes, rows: Sequence[Row]) -> None:
    curve = pictured(rows)
    x, mean, reach = curve["x"], curve["mean"], BAND_STDS * curve["std"]
    band = f"mean ± {BAND_STDS:g} std"
    axes.fill_between(x, mean - reach, mean + reach, color="0.85", linewidth=0, label=band)
    axes.plot(x, cubic_mean(x), color="black", linewidth=1.2, label="x³")
    axes.plot(x, mean, color="0.4", linewidth=1.8, label="predictive mean")
    axes.plot(curve["X_train"], curve["y_train"], "o", color="black", markersize=4, label="data")
    axes.set(xlim=(-6.0, 6.0), ylim=(-150.0, 150.0), xlabel="x", ylabel="y")
    axes.legend(loc="upper left", frameon=False, fontsize=8)
