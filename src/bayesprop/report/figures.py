"""Pictures of the evaluation; ink is data, blue the model, orange a warning.

Of numbers first, then of classes, of two also of the positive one, and of costs. Those of what
moves a prediction: `effect_figures.py`; of the fit: `fit_course.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bayesprop.evaluation.calibration import Abstaining, Histogram, PitHistogram, Promise
from bayesprop.evaluation.words import label, number, plural
from bayesprop.metrics import Curve, Curves
from bayesprop.report.contents import Contents, EveryContents
from bayesprop.report.drawing import (
    SMALL,
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
from bayesprop.report.of_classes import ClassDetails, ClassScore, CostCurve, TwoClasses
from bayesprop.report.of_numbers import NumberDetails
from bayesprop.report.svg import BLUE, INK, LINE, MUTED, ORANGE, PAPER, inline_svg, with_values

MAX_BALANCED = 12


def draw(contents: EveryContents) -> dict[str, str]:
    """Draw every figure that the contents allow, as SVG elements by name."""
    details = contents.details
    parts: list[tuple] = []
    if isinstance(details, NumberDetails):
        parts += [(actual, contents), (coverage, details.coverage), (pit, details.pit)]
        parts += [(residual, contents)]
    else:
        two = details.two
        parts += [(reliability, None if details.diagram is None else details)]
        parts += [(confidence, details.histogram), (abstaining, details.abstaining)]
        parts += [(balance, details.class_scores)]
        if two is not None and two.curves is not None:
            parts += [(precision_recall, two), (roc, two)]
        if two is not None and two.costs is not None:
            parts += [(costs, two)]
    pictures = {make.__name__.replace("_", "-"): make(of) for make, of in parts if of is not None}
    effects = effect_figures(contents.effects.shown, contents.target)
    pictures |= {f"effect-{i}": figure for i, figure in enumerate(effects)}
    return {name: inline_svg(figure, name) for name, figure in pictures.items()}


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


def pit(histogram: PitHistogram) -> Figure:
    """PIT histogram with the 95 % band of a calibrated model; orange where it leaves it."""
    ax = new_axes(WIDE)
    outside = (histogram.counts < histogram.low) | (histogram.counts > histogram.high)
    edges = histogram.edges
    bars = ax.bar(
        edges[:-1],
        histogram.counts,
        width=np.diff(edges),
        align="edge",
        color=[ORANGE if out else INK for out in outside],
        edgecolor=PAPER,
        alpha=0.5,
        linewidth=1.0,
    )
    for k, (bar, n) in enumerate(zip(bars, histogram.counts, strict=True)):
        chance = f"chance: {histogram.low[k]:.0f} to {histogram.high[k]:.0f}"
        text = f"{edges[k]:.2f} to {edges[k + 1]:.2f}: {plural(int(n), 'row')} ({chance})"
        with_values(bar, [text])
    low, high = (np.append(ends, ends[-1]) for ends in (histogram.low, histogram.high))
    ax.fill_between(edges, low, high, step="post", color=BLUE, alpha=0.2, linewidth=0, zorder=3)
    ax.axhline(histogram.expected, color=BLUE, linewidth=1.4, zorder=3)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.15 * float(max(np.max(histogram.counts), np.max(histogram.high))))
    ax.grid(False, axis="x")
    return named(ax, "Predicted probability of a value below the actual one", "Rows")


def coverage(curve: Promise) -> Figure:
    """Nominal against actual coverage, with the 95 % band of a calibrated model."""
    ax = new_axes(WIDE)
    banded(ax, 100 * curve.promised, 100 * curve.low, 100 * curve.high)
    ax.plot([0, 100], [0, 100], color=BLUE, linewidth=1.2)
    ax.plot(100 * curve.promised, 100 * curve.actual, color=INK, linewidth=1.2, alpha=0.8)
    outside = (curve.actual < curve.low) | (curve.actual > curve.high)
    texts = shares(curve, "{} intervals contain {}")
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
    return [
        f"row {row.number}: predicted {row.answer.text[0]} ({row.answer.text[1]}), "
        f"actual {row.answer.actual}"
        for row in contents.listed
    ]


def reliability(details: ClassDetails) -> Figure:
    """Shares against probabilities, with 95 % bands; orange outside. At the foot, the counts."""
    groups, ax = cast(Promise, details.diagram), new_axes(WIDE)
    x, y = 100 * groups.promised, 100 * groups.actual
    low, high = 100 * groups.low, 100 * groups.high
    ax.bar(x, 14.0 * groups.n_rows / np.max(groups.n_rows), width=3.0, color=INK, alpha=0.18)
    ax.plot([0, 100], [0, 100], color=BLUE, linewidth=1.2)
    ax.bar(x, high - low, bottom=low, width=2.4, color=BLUE, alpha=0.25)
    outside = (y < low) | (y > high)
    texts = shares(groups, "probability {}: came true in {}")
    mark(ax, x, y, outside, size=5, texts=texts)
    ax.set(xlim=(0, 102), ylim=(0, 104))
    if not details.positive:
        return named(ax, "Predicted probability, %", "Right predictions, %")
    name = label(details.positive, 24)
    return named(ax, f"Predicted probability of {name}, %", f"Rows that are {name}, %")


def confidence(histogram: Histogram) -> Figure:
    """Histogram of the confidence of right answers (ink) and of wrong ones (orange)."""
    ax = new_axes(WIDE)
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
    ax.set(xlim=(100 * histogram.edges[0], 100), ylim=(0.0, 1.08 * max(tops)))
    ax.grid(False, axis="x")
    return named(
        ax, "Predicted probability, %", "Right (filled) and wrong (line) predictions, % of each"
    )


def abstaining(curve: Abstaining) -> Figure:
    """Errors among the rest (ink) as the least sure are left out, and those expected (blue)."""
    ax = new_axes(WIDE)
    left_out = 100 * (1.0 - curve.answered)
    error, expected, half = 100 * curve.error, 100 * curve.expected, 200 * curve.std
    low, high = np.maximum(expected - half, 0.0), expected + half
    banded(ax, left_out, low, high)
    ax.plot(left_out, expected, color=BLUE, linewidth=1.4)
    ax.plot(left_out, error, color=INK, linewidth=1.8)
    ax.set_xlim(0, 100)
    ax.set_ylim(0.0, 1.05 * max(float(np.max(error)), float(np.max(expected)), 1e-3))
    return named(ax, "Most uncertain rows left out, %", "Wrong predictions among the rest, %")


def balance(scores: Sequence[ClassScore]) -> Figure:
    """Rows of each class beyond those expected, ±2 std of chance; of the least expected twelve."""
    scores = scores[::-1]
    excess = np.array([one.n_actual - one.expected for one in scores])
    half = 2.0 * np.array([one.band for one in scores])
    surprise = np.abs(excess) / np.maximum(half, 1e-12)
    chosen = np.sort(np.argsort(-surprise, kind="stable")[:MAX_BALANCED])
    shown, excess, half = [scores[k] for k in chosen], excess[chosen], half[chosen]
    size = (WIDE[0], max(SMALL[1], 70.0 + 21.0 * len(shown)))
    ax = new_axes(size)
    at = np.arange(len(shown))
    ax.axvline(0.0, color=BLUE, linewidth=1.2)
    ax.hlines(at, -half, half, color=BLUE, alpha=0.25, linewidth=9)
    outside = np.abs(excess) > half
    texts = [
        f"{label(one.name, 40)}: {plural(one.n_actual, 'row')}, {number(one.expected)} expected"
        for one in shown
    ]
    style = {"markeredgewidth": 1.2, "markeredgecolor": PAPER}
    mark(ax, excess, at, outside, size=6, texts=texts, **style)
    reach = float(np.max(np.concatenate([np.abs(excess), half, [0.5]])))
    set_limits(ax, np.array([-reach, reach]), at)
    ax.set_ylim(-0.6, len(shown) - 0.4)
    ax.grid(False, axis="y")
    ax.set_yticks(at, [label(one.name, 18) for one in shown])
    return named(ax, "Actual − expected rows", "")


def precision_recall(two: TwoClasses) -> Figure:
    """Precision against recall, with its band; the share of the class, and the threshold."""
    ax = new_axes(WIDE)
    ax.axhline(100 * two.share, color=MUTED, linewidth=1.0, dashes=(3, 3))
    _curve(ax, cast(Curves, two.curves).precision_recall, 100.0)
    _dot(ax, 100 * two.at.recall[0], 100 * two.at.precision[0])
    _percentages(ax)
    name = label(two.positive, 24)
    return named(
        ax, f"Recall: rows of {name} that are flagged, %", "Precision: flagged rows right, %"
    )


def roc(two: TwoClasses) -> Figure:
    """Recall against the share of false alarms, with its band; chance, and the threshold."""
    ax = new_axes(WIDE)
    ax.plot([0, 100], [0, 100], color=MUTED, linewidth=1.0, dashes=(3, 3))
    _curve(ax, cast(Curves, two.curves).roc, 100.0)
    others = two.at.false_alarms + two.at.rest
    fallout = two.at.false_alarms / others if others else float("nan")
    _dot(ax, 100 * fallout, 100 * two.at.recall[0])
    _percentages(ax)
    name = label(two.other, 24)
    return named(ax, f"False positive rate: rows of {name} that are flagged, %", "Recall, %")


def costs(two: TwoClasses) -> Figure:
    """Cost of a hundred rows against the threshold, with its band; never flagging, the chosen."""
    spent, ax = cast(CostCurve, two.costs), new_axes(WIDE)
    ax.set_xscale("log")
    ax.axhline(spent.never, color=MUTED, linewidth=1.0, dashes=(3, 3))
    curve = spent.curve
    _curve(ax, curve._replace(x=100.0 * curve.x), 1.0)
    ax.axvline(100 * two.threshold, color=BLUE, linewidth=1.0)
    _dot(ax, 100 * two.threshold, spent.chosen)
    ax.set_xlim(100 * curve.x[0], 100.0)
    ax.set_ylim(0.0, 1.15 * max(float(np.quantile(curve.high, 0.9)), spent.never, spent.chosen))
    ax.xaxis.set_major_locator(LogLocator(10.0, (1.0, 3.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    return named(ax, "Threshold: flagged from this probability on, %", "Cost of 100 rows")


def _curve(ax: Axes, curve: Curve, times: float) -> None:
    x = times * curve.x
    banded(ax, x, times * curve.low, times * curve.high)
    ax.plot(x, times * curve.y, color=INK, linewidth=1.6)


def _dot(ax: Axes, x: float, y: float) -> None:
    ax.plot([x], [y], "o", color=BLUE, markersize=8, markeredgewidth=1.5, markeredgecolor=PAPER)


def _percentages(ax: Axes) -> None:
    ax.set(xlim=(0, 101), ylim=(0, 104))
    ax.spines["left"].set_color(LINE)
