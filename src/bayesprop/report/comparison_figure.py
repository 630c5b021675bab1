"""The picture of a comparison: held-out score of every method by the time of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bayesprop.report.svg import INK, LINE, MUTED, write

_FAR_ABOVE = 3.0
"""A method this many times further above the best than the constant is drawn at the edge."""
_ROOM = 1.6
"""Times the least and the most seconds, left on either side."""

_MARKERS = "osDvPX*p"


class Point(NamedTuple):
    """One method: seconds a fit, its score and the standard error of that (None: unknown)."""

    name: str
    seconds: float
    score: float
    standard_error: float | None


def draw(path: Path, points: Sequence[Point], *, constant: float | None, title: str) -> None:
    """Write the picture, as its suffix says (.svg or .png); lower and further left is better.

    constant
        Score of the same prediction for every row: a dashed line.
    title
        What is predicted, and the score with its unit.
    """
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    low, high = _limits(points, constant)
    axes.set_xscale("log")
    seconds = [point.seconds for point in points]
    axes.set_xlim(min(seconds) / _ROOM, max(seconds) * _ROOM)  # of one alone no limits follow
    for k, point in enumerate(points):
        name, height, marker = point.name, point.score, _MARKERS[k % len(_MARKERS)]
        if height > high:
            name, height, marker = f"{name}: {height:.3g}, above", high, "^"
        error = point.standard_error or 0.0
        style = {"color": f"C{k}", "elinewidth": 1.0, "capsize": 2.0}
        axes.errorbar(point.seconds, height, error, fmt=marker, label=name, **style)
    pad = 0.08 * (high - low)
    axes.set_ylim(low - pad, high + pad)
    if constant is not None:
        name = "the same for every row" + (f": {constant:.4g}, above" if constant > high else "")
        axes.axhline(constant, color=MUTED, linestyle="--", linewidth=1.0, label=name)
    legend = figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    for text in legend.get_texts():
        text.set_parse_math(False)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    axes.grid(color=LINE, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("seconds a fit (median)")
    axes.set_title(title, loc="left", fontsize=10, color=INK, parse_math=False)
    write(figure, path)


def _limits(points: Sequence[Point], constant: float | None) -> tuple[float, float]:
    """Leave out what would squeeze all others together."""
    heights = [point.score for point in points]
    reach = [point.standard_error or 0.0 for point in points]
    best, most = min(heights), max(heights)
    if constant is not None and constant > best:
        most = min(most, best + _FAR_ABOVE * (constant - best))
    low = min(h - e for h, e in zip(heights, reach, strict=True))
    high = max(h + e for h, e in zip(heights, reach, strict=True) if h <= most)
    if constant is not None and constant <= high + (high - low):
        low, high = min(low, constant), max(high, constant)
    return (low, high) if high > low else (low - 0.5, high + 0.5)
