"""The pictures that judge predicted numbers; ink is data, blue the model, orange a warning.

Those of classes: `class_figures.py`; of what moves a prediction: `effect_figures.py`; of the fit:
`fit_course.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bayesprop.report.class_figures import FIGURES as OF_CLASSES
from bayesprop.report.contents import Contents
from bayesprop.report.drawing import (
    WIDE,
    banded,
    mark,
    named,
    new_axes,
    scaled,
    set_limits,
    shares,
    times,
)
from bayesprop.report.effect_figures import effect_figures
from bayesprop.report.of_classes import ClassDetails
from bayesprop.report.of_numbers import NumberDetails
from bayesprop.report.svg import BLUE, INK, ORANGE, PAPER, inline_svg, with_values
from bayesprop.report.words import label, plural


def draw(contents: Contents[Any]) -> dict[str, str]:
    """Draw every figure that the contents allow, as SVG elements by name."""
    is_of_classes = isinstance(contents.details, ClassDetails)
    makers = OF_CLASSES if is_of_classes else (actual, coverage, pit, residual)
    drawn = {make.__name__.replace("_", "-"): make(contents) for make in makers}
    drawn |= {f"effect-{i}": figure for i, figure in enumerate(effect_figures(contents))}
    return {name: inline_svg(figure, name) for name, figure in drawn.items() if figure is not None}


def actual(contents: Contents[NumberDetails]) -> Figure:
    """Predicted against actual, with 90 % intervals; orange where the interval misses."""
    cloud = contents.details.cloud
    values, power = scaled(cloud.actual, cloud.mean, cloud.low, cloud.high)
    truth, mean, low, high = values
    ax = new_axes(WIDE)
    missed = (truth < low) | (truth > high)
    thin = len(truth) > 150
    for at, colour in ((~missed, INK), (missed, ORANGE)):
        ax.vlines(
            truth[at], low[at], high[at], color=colour, alpha=0.16 if thin else 0.28, linewidth=0.9
        )
    mark(ax, truth, mean, missed, size=2.6 if thin else 3.6, texts=_rows(contents), alpha=0.85)
    span = np.concatenate([truth, mean])
    ends = np.quantile(np.concatenate([low, high]), (0.01, 0.99))
    set_limits(ax, truth, np.concatenate([span, ends]))
    line = np.array([np.min(span), np.max(span)])
    ax.plot(line, line, color=BLUE, linewidth=1.2, scalex=False, scaley=False)
    name = label(contents.target, 28)
    return named(ax, times(f"Actual {name}", power), times(f"Predicted {name}", power))


def pit(contents: Contents[NumberDetails]) -> Figure | None:
    """PIT histogram with the 95 % band of a calibrated model; orange where it leaves it."""
    histogram = contents.details.pit
    if histogram is None:
        return None
    ax = new_axes(WIDE)
    outside = (histogram.counts < histogram.low) | (histogram.counts > histogram.high)
    bars = ax.bar(
        histogram.edges[:-1],
        histogram.counts,
        width=np.diff(histogram.edges),
        align="edge",
        color=[ORANGE if out else INK for out in outside],
        edgecolor=PAPER,
        alpha=0.5,
        linewidth=1.0,
    )
    chance = f"chance: {histogram.low:.0f} to {histogram.high:.0f}"
    for bar, low, high, n in zip(
        bars, histogram.edges[:-1], histogram.edges[1:], histogram.counts, strict=True
    ):
        with_values(bar, [f"{low:.2f} to {high:.2f}: {plural(int(n), 'row')} ({chance})"])
    ax.axhspan(histogram.low, histogram.high, color=BLUE, alpha=0.2, linewidth=0, zorder=3)
    ax.axhline(histogram.expected, color=BLUE, linewidth=1.4, zorder=3)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.15 * max(float(np.max(histogram.counts)), histogram.high))
    ax.grid(False, axis="x")
    return named(ax, "Predicted probability of a value below the actual one", "Rows")


def coverage(contents: Contents[NumberDetails]) -> Figure | None:
    """Nominal against actual coverage, with the 95 % band of a calibrated model."""
    curve = contents.details.coverage
    if curve is None:
        return None
    ax = new_axes(WIDE)
    banded(ax, 100 * curve.promised, 100 * curve.low, 100 * curve.high)
    ax.plot([0, 100], [0, 100], color=BLUE, linewidth=1.2)
    ax.plot(100 * curve.promised, 100 * curve.actual, color=INK, linewidth=1.2, alpha=0.8)
    outside = (curve.actual < curve.low) | (curve.actual > curve.high)
    texts = shares(curve, "{} intervals held {}")
    mark(ax, 100 * curve.promised, 100 * curve.actual, outside, size=3.2, texts=texts)
    ax.set(xlim=(0, 100), ylim=(0, 100))
    return named(ax, "Nominal level of the interval, %", "Rows inside, %")


def residual(contents: Contents[NumberDetails]) -> Figure:
    """Residual against predicted std: the blue fan should hold 90 % of the rows at every width."""
    details, cloud = contents.details, contents.details.cloud
    edges = np.array(details.groups).reshape(-1, 3)
    values, power = scaled(cloud.actual - cloud.mean, cloud.std, edges.ravel())
    error, std = values[0], values[1]
    outside = (cloud.actual < cloud.low) | (cloud.actual > cloud.high)
    # 1.645 for a normal distribution; another has its own.
    half = float(np.median((cloud.high - cloud.low) / (2.0 * cloud.std)))
    ax = new_axes(WIDE)
    everywhere = np.concatenate([std, values[2].reshape(-1, 3)[:, :2].ravel()])
    if details.is_even:
        # Without this the axis would magnify differences that mean nothing.
        everywhere = np.concatenate([everywhere, np.mean(std) * np.array([0.9, 1.1])])
    reach = half * np.max(everywhere)
    furthest = max(reach, float(np.max(np.abs(error))))
    set_limits(ax, everywhere, np.array([-furthest, furthest]))
    fan = np.maximum(np.array(ax.get_xlim()), 0.0)
    banded(ax, fan, -half * fan, half * fan)
    ax.axhline(0.0, color=BLUE, linewidth=1.2)
    mark(ax, std, error, outside, size=3, texts=_rows(contents), alpha=0.7)
    for low, high, size in values[2].reshape(-1, 3):
        ax.hlines([-size, size], low, high, color=INK, linewidth=1.8)
    return named(ax, times("Predicted std", power), times("Actual − predicted", power))


def _rows(contents: Contents[NumberDetails]) -> list[str]:
    """Say of each row drawn what was predicted and what came."""
    return [
        f"row {row.number}: predicted {row.answer.text[0]} ({row.answer.text[1]}), "
        f"actual {row.answer.actual}"
        for row in contents.listed
    ]
