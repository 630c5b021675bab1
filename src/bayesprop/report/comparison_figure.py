"""The picture of a comparison: held-out score of every method by the time of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import Bbox

from bayesprop.report.svg import BLUE, INK, LINE, MUTED, ORANGE, write

_FAR_ABOVE = 3.0
"""A method this many times further above the best than the constant is drawn at the edge."""
_PLACES = ((8, 0), (-8, 0), (0, 11), (0, -11), (8, 12), (8, -12), (-8, 12), (-8, -12), (14, 24))
"""Where a name may stand, points right and up of its method, best first."""


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
    shown = np.minimum([point.score for point in points], high)
    axes.set_xscale("log")
    for point, y in zip(points, shown, strict=True):
        if y < point.score:
            axes.plot(point.seconds, y, "^", color=ORANGE, markersize=7)
        else:
            axes.errorbar(
                point.seconds,
                y,
                point.standard_error or 0.0,
                fmt="o",
                color=BLUE,
                elinewidth=1.0,
                capsize=2.0,
            )
    pad = 0.08 * (high - low)
    axes.set_ylim(low - pad, high + pad)
    seconds = [point.seconds for point in points]
    axes.set_xlim(min(seconds) / 2.0, max(seconds) * 2.0)
    if constant is not None:
        _draw_constant(axes, constant, is_shown=constant <= high)
    _name(figure, axes, points, shown)
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


def _draw_constant(axes: Axes, constant: float, *, is_shown: bool) -> None:
    if is_shown:
        axes.axhline(constant, color=MUTED, linestyle="--", linewidth=1.0)
    axes.annotate(
        "the same for every row" + ("" if is_shown else f": {constant:.4g}, above"),
        (0.01, constant if is_shown else 1.0), (0, 4 if is_shown else -12),
        textcoords="offset points",
        xycoords=axes.get_yaxis_transform() if is_shown else "axes fraction",
        fontsize=8, color=MUTED,
    )  # fmt: skip


def _name(
    figure: Figure, axes: Axes, points: Sequence[Point], shown: Float[np.ndarray, " p"]
) -> None:
    """Write every name beside its point, where it covers neither a point nor another name."""
    figure.draw_without_rendering()
    at = axes.transData.transform([(p.seconds, y) for p, y in zip(points, shown, strict=True)])
    room, taken = axes.get_window_extent(), [Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in at]
    for point, y in zip(points, shown, strict=True):
        is_above = y < point.score
        name = axes.annotate(
            f"{point.name} ({point.score:.3g})" if is_above else point.name,
            (point.seconds, float(y)), (0, 0), textcoords="offset points", fontsize=9, va="center",
            color=ORANGE if is_above else INK, parse_math=False,
        )  # fmt: skip
        for right, up in _PLACES:
            name.set_position((right, up))
            name.set_horizontalalignment("left" if right > 0 else "right" if right else "center")
            box = name.get_window_extent()
            inside = room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0
            if inside and box.y1 <= room.y1 and not box.count_overlaps(taken):
                break
        taken.append(name.get_window_extent())
