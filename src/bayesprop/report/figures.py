"""The pictures that judge a model; those of what moves it: `effect_figures.py`.

Those of the fit: `fit_course.py`. Ink is data, blue the model, orange a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesprop.report.calibration import Promise
from bayesprop.report.contents import Contents
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
from bayesprop.report.effect_figures import effect_figures
from bayesprop.report.of_classes import ClassDetails
from bayesprop.report.of_numbers import NumberDetails
from bayesprop.report.svg import BLUE, INK, ORANGE, PAPER, inline_svg, with_values
from bayesprop.report.two_class_figures import FIGURES as OF_TWO_CLASSES
from bayesprop.report.words import label, number, percent, plural

MAX_BALANCED = 12


def draw(contents: Contents[Any]) -> dict[str, str]:
    """Draw every figure that the contents allow, as SVG elements by name."""
    is_of_classes = isinstance(contents.details, ClassDetails)
    drawn = {}
    for name, (make, title, text) in (_OF_CLASSES if is_of_classes else _OF_NUMBERS).items():
        figure = make(contents)
        if figure is not None:
            drawn[name] = inline_svg(figure, name, title, text)
    for i, (effect, figure) in enumerate(effect_figures(contents)):
        text = f"The mean prediction moves by {number(effect.curve.movement)}."
        title = f"Effect of {label(effect.name)}"
        drawn[f"effect-{i}"] = inline_svg(figure, f"effect-{i}", title, text)
    return drawn


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
    _mark(ax, truth, mean, missed, size=2.6 if thin else 3.6, texts=_rows(contents), alpha=0.85)
    span = np.concatenate([truth, mean])
    ends = np.quantile(np.concatenate([low, high]), (0.01, 0.99))
    set_limits(ax, truth, np.concatenate([span, ends]))
    line = np.array([np.min(span), np.max(span)])
    ax.plot(line, line, color=BLUE, linewidth=1.2, scalex=False, scaley=False)
    name = label(contents.target, 28)
    set_names(ax, times(f"Actual {name}", power), times(f"Predicted {name}", power))
    return fitted(figure, ax)


def pit(contents: Contents[NumberDetails]) -> Figure | None:
    """PIT histogram with the 95 % band of a calibrated model; orange where it leaves it."""
    histogram = contents.details.pit
    if histogram is None:
        return None
    figure, ax = new_axes(WIDE)
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
    set_names(ax, "Predicted probability of a value below the actual one", "Rows")
    return fitted(figure, ax)


def coverage(contents: Contents[NumberDetails]) -> Figure | None:
    """Nominal against actual coverage, with the 95 % band of a calibrated model."""
    curve = contents.details.coverage
    if curve is None:
        return None
    figure, ax = new_axes(WIDE)
    ax.fill_between(
        100 * curve.promised, 100 * curve.low, 100 * curve.high, color=BLUE, alpha=0.16, linewidth=0
    )
    ax.plot([0, 100], [0, 100], color=BLUE, linewidth=1.2)
    ax.plot(100 * curve.promised, 100 * curve.actual, color=INK, linewidth=1.2, alpha=0.8)
    outside = (curve.actual < curve.low) | (curve.actual > curve.high)
    texts = _shares(curve, "{} intervals held {}")
    _mark(ax, 100 * curve.promised, 100 * curve.actual, outside, size=3.2, texts=texts)
    ax.set_xlim(0, 100)
    ax.set_ylim(0, 100)
    set_names(ax, "Nominal level of the interval, %", "Rows inside, %")
    return fitted(figure, ax)


def residual(contents: Contents[NumberDetails]) -> Figure:
    """Residual against predicted std: the blue fan should hold 90 % of the rows at every width."""
    details, cloud = contents.details, contents.details.cloud
    edges = np.array(details.groups).reshape(-1, 3)
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
    _mark(ax, std, error, outside, size=3, texts=_rows(contents), alpha=0.7)
    for low, high, size in values[2].reshape(-1, 3):
        ax.hlines([-size, size], low, high, color=INK, linewidth=1.8)
    set_names(ax, times("Predicted std", power), times("Actual − predicted", power))
    return fitted(figure, ax)


def reliability(contents: Contents[ClassDetails]) -> Figure | None:
    """Shares against probabilities, with 95 % bands; orange outside. At the foot, the counts."""
    details, groups = contents.details, contents.details.diagram
    if groups is None:
        return None
    figure, ax = new_axes(WIDE)
    x, y = 100 * groups.promised, 100 * groups.actual
    low, high = 100 * groups.low, 100 * groups.high
    ax.bar(x, 14.0 * groups.n_rows / np.max(groups.n_rows), width=3.0, color=INK, alpha=0.18)
    ax.plot([0, 100], [0, 100], color=BLUE, linewidth=1.2)
    ax.bar(x, high - low, bottom=low, width=2.4, color=BLUE, alpha=0.25)
    outside = (y < low) | (y > high)
    texts = _shares(groups, "probability {}: came true in {}")
    _mark(ax, x, y, outside, size=5, texts=texts)
    ax.set_xlim(0, 102)
    ax.set_ylim(0, 104)
    if details.positive:
        name = label(details.positive, 24)
        set_names(ax, f"Predicted probability of {name}, %", f"Rows that are {name}, %")
    else:
        set_names(ax, "Probability of the answer, %", "Answers that are right, %")
    return fitted(figure, ax)


def confidence(contents: Contents[ClassDetails]) -> Figure:
    """Histogram of the confidence of right answers (ink) and of wrong ones (orange)."""
    histogram = contents.details.histogram
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


def abstaining(contents: Contents[ClassDetails]) -> Figure | None:
    """Errors among the rest (ink) as the least sure are left out, and those expected (blue)."""
    curve = contents.details.abstaining
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


def balance(contents: Contents[ClassDetails]) -> Figure:
    """Rows of each class beyond those expected, ±2 std of chance; of the least expected twelve."""
    scores = contents.details.class_scores[::-1]
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
    texts = [
        f"{label(one.name, 40)}: {plural(one.n_actual, 'row')}, {number(one.expected)} expected"
        for one in shown
    ]
    style = {"markeredgewidth": 1.2, "markeredgecolor": PAPER}
    _mark(ax, excess, at, outside, size=6, texts=texts, **style)
    reach = float(np.max(np.concatenate([np.abs(excess), half, [0.5]])))
    set_limits(ax, np.array([-reach, reach]), at)
    ax.set_ylim(-0.6, len(shown) - 0.4)
    ax.grid(False, axis="y")
    set_names(ax, "Actual − expected rows", "")
    ax.set_yticks(at, [label(one.name, 18) for one in shown])
    return fitted(figure, ax)


def _mark(
    ax: Axes,
    x: np.ndarray,
    y: np.ndarray,
    outside: np.ndarray,
    *,
    size: float,
    texts: Sequence[str],
    **style: Any,
) -> None:
    """Dots in ink; orange diamonds where chance does not explain the difference.

    texts
        What the pointer shows over each.
    """
    style = {"markersize": size, "markeredgewidth": 0} | style
    for at, colour, marker in ((~outside, INK, "o"), (outside, ORANGE, "D")):
        (marks,) = ax.plot(x[at], y[at], marker, color=colour, **style)
        with_values(marks, [text for text, here in zip(texts, at, strict=True) if here])


def _rows(contents: Contents[NumberDetails]) -> list[str]:
    """Say of each row drawn what was predicted and what came."""
    return [
        f"row {row.number}: predicted {row.answer.text[0]} ({row.answer.text[1]}), "
        f"actual {row.answer.actual}"
        for row in contents.listed
    ]


def _shares(promise: Promise, words: str) -> list[str]:
    """Say of each level, or group, what came true, and the range that chance explains."""
    return [
        f"{words.format(percent(promised), percent(actual))} "
        f"(chance: {percent(low)} to {percent(high)})"
        for promised, actual, low, high in zip(
            promise.promised, promise.actual, promise.low, promise.high, strict=True
        )
    ]


Figures = dict[str, tuple[Callable[[Contents[Any]], Figure | None], str, str]]
_OF_NUMBERS: Figures = {
    "actual": (
        actual,
        "Predicted against actual",
        "Each row's prediction with its 90 % interval, and the line where both are equal.",
    ),
    "coverage": (
        coverage,
        "Nominal against actual coverage",
        "Share of rows inside intervals of each nominal level, with the band that chance explains.",
    ),
    "pit": (
        pit,
        "Histogram of PIT values",
        "Counts of the predicted probability of a value below the actual one; flat if calibrated.",
    ),
    "residual": (
        residual,
        "Residual against predicted standard deviation",
        "Each row's error, and the band that should hold 90 % of them.",
    ),
}
_OF_CLASSES: Figures = {
    "reliability": (
        reliability,
        "Reliability diagram",
        "For groups of rows with similar predicted probability, the share where it came true, "
        "and the range that chance explains.",
    ),
    "confidence": (
        confidence,
        "Confidence of right and wrong answers",
        "Two histograms of the probability of the answer given.",
    ),
    "abstaining": (
        abstaining,
        "Errors when the least sure rows are left out",
        "Share of wrong answers among the rest, and the share that the model expects.",
    ),
    "balance": (
        balance,
        "Rows of each class beyond those expected",
        "Actual minus expected number of rows, and the range that chance explains.",
    ),
    **OF_TWO_CLASSES,
}
