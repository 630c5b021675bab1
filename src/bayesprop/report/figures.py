"""The pictures that judge a model. Ink is data, blue the model, orange a warning.

Those of what moves a prediction and of the fit: `effect_figures.py`, `fit_figures.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesprop.report.contents import Contents
from bayesprop.report.details import ClassDetails, NumberDetails
from bayesprop.report.drawing import (
    SMALL,
    WIDE,
    fitted,
    new_axes,
    scaled,
    set_limits,
    set_names,
    times,
)
from bayesprop.report.svg import BLUE, INK, ORANGE, PAPER, inline_svg
from bayesprop.report.words import label

MAX_BALANCED = 12
_ALTERNATIVES = {
    "actual": (
        "Predicted against actual",
        "Each row's prediction with its 90 % interval, and the line where both are equal.",
    ),
    "coverage": (
        "Nominal against actual coverage",
        "Share of rows inside intervals of each nominal level, with the band that chance explains.",
    ),
    "pit": (
        "Histogram of PIT values",
        "Counts of the predicted probability of a value below the actual one; flat if calibrated.",
    ),
    "residual": (
        "Residual against predicted standard deviation",
        "Each row's error, and the band that should hold 90 % of them.",
    ),
    "reliability": (
        "Reliability diagram",
        "For groups of rows with similar predicted probability, the share where it came true, "
        "and the range that chance explains.",
    ),
    "confidence": (
        "Confidence of right and wrong answers",
        "Two histograms of the probability of the answer given.",
    ),
    "abstaining": (
        "Errors when the least sure rows are left out",
        "Share of wrong answers among the rest, and the share that the model expects.",
    ),
    "balance": (
        "Rows of each class beyond those expected",
        "Actual minus expected number of rows, and the range that chance explains.",
    ),
}


def of_numbers(contents: Contents[NumberDetails]) -> dict[str, str]:
    """Draw every figure that the contents of a regressor allow, as SVG elements by name."""
    drawn = {
        "actual": actual(contents),
        "coverage": coverage(contents.details),
        "pit": pit(contents.details),
        "residual": residual(contents.details),
    }
    return _as_elements(drawn)


def of_classes(contents: Contents[ClassDetails]) -> dict[str, str]:
    """Draw every figure that the contents of a classifier allow, as SVG elements by name."""
    drawn = {
        "reliability": reliability(contents.details),
        "confidence": confidence(contents.details),
        "abstaining": abstaining(contents.details),
        "balance": balance(contents.details),
    }
    return _as_elements(drawn)


def _as_elements(drawn: dict[str, Figure | None]) -> dict[str, str]:
    return {
        name: inline_svg(figure, name, *_ALTERNATIVES[name])
        for name, figure in drawn.items()
        if figure is not None
    }


def actual(contents: Contents[NumberDetails]) -> Figure:
    """Predicted against actual, with 90 % intervals; orange where the interval misses."""
    cloud = contents.details.cloud
    values, power = scaled(cloud.actual, cloud.mean, cloud.low, cloud.high)
    truth, mean, low, high = values
    figure, ax = new_axes(WIDE)
    missed = (truth < low) | (truth > high)
    thin = len(truth) > 150
    for at, colour in ((~missed, INK), (missed, ORANGE)):
        ax.vlines(
            truth[at], low[at], high[at], color=colour, alpha=0.16 if thin else 0.28, linewidth=0.9
        )
        ax.plot(
            truth[at],
            mean[at],
            "D" if colour == ORANGE else "o",
            color=colour,
            markersize=2.6 if thin else 3.6,
            alpha=0.85,
            markeredgewidth=0.0,
        )
    span = np.concatenate([truth, mean])
    ends = np.quantile(np.concatenate([low, high]), (0.01, 0.99))
    set_limits(ax, truth, np.concatenate([span, ends]))
    line = np.array([np.min(span), np.max(span)])
    ax.plot(line, line, color=BLUE, linewidth=1.2, scalex=False, scaley=False)
    name = label(contents.about.target, 28)
    set_names(ax, times(f"Actual {name}", power), times(f"Predicted {name}", power))
    return fitted(figure, ax)


def pit(details: NumberDetails) -> Figure | None:
    """PIT histogram with the 95 % band of a calibrated model; orange where it leaves it."""
    histogram = details.pit
    if histogram is None:
        return None
    figure, ax = new_axes(WIDE)
    outside = (histogram.counts < histogram.low) | (histogram.counts > histogram.high)
    ax.bar(
        histogram.edges[:-1],
        histogram.counts,
        width=np.diff(histogram.edges),
        align="edge",
        color=[ORANGE if out else INK for out in outside],
        edgecolor=PAPER,
        alpha=0.5,
        linewidth=1.0,
    )
    ax.axhspan(histogram.low, histogram.high, color=BLUE, alpha=0.2, linewidth=0, zorder=3)
    ax.axhline(histogram.expected, color=BLUE, linewidth=1.4, zorder=3)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.15 * max(float(np.max(histogram.counts)), histogram.high))
    ax.grid(False, axis="x")
    set_names(ax, "Predicted probability of a value below the actual one", "Rows")
    return fitted(figure, ax)


def coverage(details: NumberDetails) -> Figure | None:
    """Nominal against actual coverage, with the 95 % band of a calibrated model."""
    curve = details.coverage
    if curve is None:
        return None
    figure, ax = new_axes(WIDE)
    ax.fill_between(
        100 * curve.nominal, 100 * curve.low, 100 * curve.high, color=BLUE, alpha=0.16, linewidth=0
    )
    ax.plot([0, 100], [0, 100], color=BLUE, linewidth=1.2)
    ax.plot(100 * curve.nominal, 100 * curve.actual, color=INK, linewidth=1.2, alpha=0.8)
    outside = (curve.actual < curve.low) | (curve.actual > curve.high)
    _mark(ax, 100 * curve.nominal, 100 * curve.actual, outside, size=3.2)
    ax.set_xlim(0, 100)
    ax.set_ylim(0, 100)
    set_names(ax, "Nominal level of the interval, %", "Rows inside, %")
    return fitted(figure, ax)


def residual(details: NumberDetails) -> Figure:
    """Residual against predicted std: the blue fan should hold 90 % of the rows at every width."""
    cloud = details.cloud
    groups = details.groups
    edges = np.array([(g.low, g.high, g.size) for g in groups]).reshape(-1, 3)
    values, power = scaled(cloud.actual - cloud.mean, cloud.std, edges.ravel())
    error, std = values[0], values[1]
    outside = (cloud.actual < cloud.low) | (cloud.actual > cloud.high)
    # 1.645 for a normal distribution; another has its own.
    half = float(np.median((cloud.high - cloud.low) / (2.0 * cloud.std)))
    figure, ax = new_axes(WIDE)
    everywhere = np.concatenate([std, values[2].reshape(-1, 3)[:, :2].ravel()])
    if details.is_even:
        # Without this the axis would magnify differences that mean nothing.
        everywhere = np.concatenate([everywhere, np.mean(std) * np.array([0.9, 1.1])])
    reach = half * np.max(everywhere)
    furthest = max(reach, float(np.max(np.abs(error))))
    set_limits(ax, everywhere, np.array([-furthest, furthest]))
    fan = np.maximum(np.array(ax.get_xlim()), 0.0)
    ax.fill_between(fan, -half * fan, half * fan, color=BLUE, alpha=0.16, linewidth=0)
    ax.axhline(0.0, color=BLUE, linewidth=1.2)
    _mark(ax, std, error, outside, size=3, alpha=0.7)
    for low, high, size in values[2].reshape(-1, 3):
        ax.hlines([-size, size], low, high, color=INK, linewidth=1.8)
    set_names(ax, times("Predicted std", power), times("Actual − predicted", power))
    return fitted(figure, ax)


def reliability(details: ClassDetails) -> Figure | None:
    """Shares against probabilities, with 95 % bands; orange outside. At the foot, the counts."""
    groups = details.diagram
    if groups is None:
        return None
    figure, ax = new_axes(WIDE)
    x, y = 100 * groups.predicted, 100 * groups.actual
    low, high = 100 * groups.low, 100 * groups.high
    ax.bar(x, 14.0 * groups.count / np.max(groups.count), width=3.0, color=INK, alpha=0.18)
    ax.plot([0, 100], [0, 100], color=BLUE, linewidth=1.2)
    ax.bar(x, high - low, bottom=low, width=2.4, color=BLUE, alpha=0.25)
    outside = (y < low) | (y > high)
    _mark(ax, x, y, outside, size=5)
    ax.set_xlim(0, 102)
    ax.set_ylim(0, 104)
    if details.positive:
        name = label(details.positive, 24)
        set_names(ax, f"Predicted probability of {name}, %", f"Rows that are {name}, %")
    else:
        set_names(ax, "Probability of the answer, %", "Answers that are right, %")
    return fitted(figure, ax)


def confidence(details: ClassDetails) -> Figure:
    """Histogram of the confidence of right answers (ink) and of wrong ones (orange)."""
    histogram = details.histogram
    figure, ax = new_axes(WIDE)
    tops = [0.0]
    for counts, colour, fill in ((histogram.right, INK, True), (histogram.wrong, ORANGE, False)):
        total = int(np.sum(counts))
        if total:
            share = 100.0 * counts / total
            tops.append(float(np.max(share)))
            ax.stairs(
                share,
                100 * histogram.edges,
                fill=fill,
                color=colour,
                alpha=0.35 if fill else 1.0,
                linewidth=2.0,
            )
    ax.set_xlim(100 * histogram.edges[0], 100)
    ax.set_ylim(0.0, 1.08 * max(tops))
    ax.grid(False, axis="x")
    set_names(
        ax, "Probability of the answer, %", "Right (filled) and wrong (line) answers, % of each"
    )
    return fitted(figure, ax)


def abstaining(details: ClassDetails) -> Figure | None:
    """Errors among the rest (ink) as the least sure are left out, and those expected (blue)."""
    curve = details.abstaining
    if curve is None:
        return None
    figure, ax = new_axes(WIDE)
    left_out = 100 * (1.0 - curve.answered)
    error, expected, half = 100 * curve.error, 100 * curve.expected, 200 * curve.std
    low, high = np.maximum(expected - half, 0.0), expected + half
    ax.fill_between(left_out, low, high, color=BLUE, alpha=0.16, linewidth=0)
    ax.plot(left_out, expected, color=BLUE, linewidth=1.4)
    ax.plot(left_out, error, color=INK, linewidth=1.8)
    ax.set_xlim(0, 100)
    ax.set_ylim(0.0, 1.05 * max(float(np.max(error)), float(np.max(expected)), 1e-3))
    set_names(ax, "Least sure rows left out, %", "Wrong answers among the rest, %")
    return fitted(figure, ax)


def balance(details: ClassDetails) -> Figure:
    """Rows of each class beyond those expected, ±2 std of chance; of the least expected twelve."""
    scores = details.class_scores[::-1]
    excess = np.array([one.n_actual - one.expected for one in scores])
    half = 2.0 * np.array([one.band for one in scores])
    surprise = np.abs(excess) / np.maximum(half, 1e-12)
    kept = np.sort(np.argsort(-surprise, kind="stable")[:MAX_BALANCED])
    shown, excess, half = [scores[k] for k in kept], excess[kept], half[kept]
    size = (WIDE[0], max(SMALL[1], 70.0 + 21.0 * len(shown)))
    figure, ax = new_axes(size)
    at = np.arange(len(shown))
    ax.axvline(0.0, color=BLUE, linewidth=1.2)
    ax.hlines(at, -half, half, color=BLUE, alpha=0.25, linewidth=9)
    outside = np.abs(excess) > half
    _mark(ax, excess, at, outside, size=6, markeredgewidth=1.2, markeredgecolor=PAPER)
    reach = float(np.max(np.concatenate([np.abs(excess), half, [0.5]])))
    set_limits(ax, np.array([-reach, reach]), at)
    ax.set_ylim(-0.6, len(shown) - 0.4)
    ax.grid(False, axis="y")
    set_names(ax, "Actual − expected rows", "")
    ax.set_yticks(at, [label(one.name, 18) for one in shown])
    return fitted(figure, ax)


def _mark(
    ax: Axes, x: np.ndarray, y: np.ndarray, outside: np.ndarray, *, size: float, **style: Any
) -> None:
    """Dots in ink; orange diamonds where chance does not explain the difference."""
    style = {"markersize": size, "markeredgewidth": 0} | style
    for at, colour, marker in ((~outside, INK, "o"), (outside, ORANGE, "D")):
        ax.plot(x[at], y[at], marker, color=colour, **style)
