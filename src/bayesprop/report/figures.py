"""The pictures of a report, one function each. Ink is data, blue the model, orange a warning."""

from __future__ import annotations

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from bayesprop.report.chain_figures import draw_chains
from bayesprop.report.contents import ReportContents
from bayesprop.report.drawing import WIDE, fitted, new_axes, scaled, set_limits, set_names, times
from bayesprop.report.page_figures import draw_shared
from bayesprop.report.svg import BLUE, INK, ORANGE, PAPER, STYLE, inline_svg
from bayesprop.report.words import label

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
}


def draw(contents: ReportContents) -> dict[str, str]:
    """Draw every figure that the contents allow, as SVG elements by name.

    Courses of training and effects are called trace-0, effect-0, ... in the order of the contents.
    """
    with rc_context(STYLE):
        drawn = {
            "actual": actual(contents),
            "coverage": coverage(contents),
            "pit": pit(contents),
            "residual": residual(contents),
        }
        found = {
            name: inline_svg(figure, name, *_ALTERNATIVES[name])
            for name, figure in drawn.items()
            if figure is not None
        }
        return found | draw_shared(contents) | draw_chains(contents)


def actual(contents: ReportContents) -> Figure:
    """Predicted against actual, with 90 % intervals; orange where the interval misses."""
    cloud = contents.cloud
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
    name = _target(contents)
    set_names(ax, times(f"Actual {name}", power), times(f"Predicted {name}", power))
    return fitted(figure, ax)


def pit(contents: ReportContents) -> Figure | None:
    """PIT histogram with the 95 % band of a calibrated model; orange where it leaves it."""
    found = contents.calibration.pit
    if found is None:
        return None
    figure, ax = new_axes(WIDE)
    outside = (found.counts < found.low) | (found.counts > found.high)
    ax.bar(
        found.edges[:-1],
        found.counts,
        width=np.diff(found.edges),
        align="edge",
        color=[ORANGE if out else INK for out in outside],
        edgecolor=PAPER,
        alpha=0.5,
        linewidth=1.0,
    )
    ax.axhspan(found.low, found.high, color=BLUE, alpha=0.2, linewidth=0, zorder=3)
    ax.axhline(found.expected, color=BLUE, linewidth=1.4, zorder=3)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.15 * max(float(np.max(found.counts)), found.high))
    ax.grid(False, axis="x")
    set_names(ax, "Predicted probability of a value below the actual one", "Rows")
    return fitted(figure, ax)


def coverage(contents: ReportContents) -> Figure | None:
    """Nominal against actual coverage, with the 95 % band of a calibrated model."""
    curve = contents.calibration.coverage
    if curve is None:
        return None
    figure, ax = new_axes(WIDE)
    ax.fill_between(
        100 * curve.nominal, 100 * curve.low, 100 * curve.high, color=BLUE, alpha=0.16, linewidth=0
    )
    ax.plot([0, 100], [0, 100], color=BLUE, linewidth=1.2)
    ax.plot(100 * curve.nominal, 100 * curve.actual, color=INK, linewidth=1.2, alpha=0.8)
    outside = (curve.actual < curve.low) | (curve.actual > curve.high)
    for at, colour, marker in ((~outside, INK, "o"), (outside, ORANGE, "D")):
        ax.plot(
            100 * curve.nominal[at],
            100 * curve.actual[at],
            marker,
            color=colour,
            markersize=3.2,
            markeredgewidth=0,
        )
    ax.set_xlim(0, 100)
    ax.set_ylim(0, 100)
    set_names(ax, "Nominal level of the interval, %", "Rows inside, %")
    return fitted(figure, ax)


def residual(contents: ReportContents) -> Figure:
    """Residual against predicted std: the blue fan should hold 90 % of the rows at every width."""
    cloud = contents.cloud
    groups = contents.groups
    edges = np.array([(g.low, g.high, g.size) for g in groups]).reshape(-1, 3)
    values, power = scaled(cloud.actual - cloud.mean, cloud.std, edges.ravel())
    error, std = values[0], values[1]
    outside = (cloud.actual < cloud.low) | (cloud.actual > cloud.high)
    # 1.645 for a normal distribution; another has its own.
    half = float(np.median((cloud.high - cloud.low) / (2.0 * cloud.std)))
    figure, ax = new_axes(WIDE)
    everywhere = np.concatenate([std, values[2].reshape(-1, 3)[:, :2].ravel()])
    if contents.is_even:
        # Without this the axis would magnify differences that mean nothing.
        everywhere = np.concatenate([everywhere, np.mean(std) * np.array([0.9, 1.1])])
    reach = half * np.max(everywhere)
    furthest = max(reach, float(np.max(np.abs(error))))
    set_limits(ax, everywhere, np.array([-furthest, furthest]))
    fan = np.maximum(np.array(ax.get_xlim()), 0.0)
    ax.fill_between(fan, -half * fan, half * fan, color=BLUE, alpha=0.16, linewidth=0)
    ax.axhline(0.0, color=BLUE, linewidth=1.2)
    for at, colour, marker in ((~outside, INK, "o"), (outside, ORANGE, "D")):
        ax.plot(
            std[at], error[at], marker, color=colour, markersize=3, alpha=0.7, markeredgewidth=0
        )
    for low, high, size in values[2].reshape(-1, 3):
        ax.hlines([-size, size], low, high, color=INK, linewidth=1.8)
    set_names(ax, times("Predicted std", power), times("Actual − predicted", power))
    return fitted(figure, ax)


def _target(contents: ReportContents, width: int = 28) -> str:
    return label(contents.about.target, width)
