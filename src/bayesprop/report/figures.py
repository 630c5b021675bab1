"""The pictures of a report, one function each. Ink is data, blue the model, orange a warning."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bayesprop.report.contents import ReportContents
from bayesprop.report.effects import Effect
from bayesprop.report.svg import BLUE, INK, ORANGE, PAPER, STYLE, inline_svg
from bayesprop.report.words import label, number

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_WIDE, _SMALL = (360.0, 276.0), (270.0, 170.0)
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
        for i, (name, values) in enumerate(contents.fit.trace.items()):
            title = f"{label(name).replace('_', ' ')} after each epoch"
            figure = trace(contents, name, values)
            found[f"trace-{i}"] = inline_svg(figure, f"trace-{i}", title, _course(values))
        limits = _effect_limits(contents.effects.shown)
        for i, effect in enumerate(contents.effects.shown):
            text = f"The mean prediction moves by {number(effect.movement)}."
            figure = partial_dependence(contents, effect, limits)
            title = f"Effect of {label(effect.name)}"
            found[f"effect-{i}"] = inline_svg(figure, f"effect-{i}", title, text)
    return found


def actual(contents: ReportContents) -> Figure:
    """Predicted against actual, with 90 % intervals; orange where the interval misses."""
    cloud = contents.cloud
    values, power = _scaled(cloud.actual, cloud.mean, cloud.low, cloud.high)
    truth, mean, low, high = values
    figure, ax = _axes(_WIDE)
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
    _limits(ax, truth, np.concatenate([span, ends]))
    line = np.array([np.min(span), np.max(span)])
    ax.plot(line, line, color=BLUE, linewidth=1.2, scalex=False, scaley=False)
    name = _target(contents)
    _name(ax, _times(f"Actual {name}", power), _times(f"Predicted {name}", power))
    return _fitted(figure, ax)


def pit(contents: ReportContents) -> Figure | None:
    """PIT histogram with the 95 % band of a calibrated model; orange where it leaves it."""
    found = contents.calibration.pit
    if found is None:
        return None
    figure, ax = _axes(_WIDE)
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
    _name(ax, "Predicted probability of a value below the actual one", "Rows")
    return _fitted(figure, ax)


def coverage(contents: ReportContents) -> Figure | None:
    """Nominal against actual coverage, with the 95 % band of a calibrated model."""
    curve = contents.calibration.coverage
    if curve is None:
        return None
    figure, ax = _axes(_WIDE)
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
    _name(ax, "Nominal level of the interval, %", "Rows inside, %")
    return _fitted(figure, ax)


def residual(contents: ReportContents) -> Figure:
    """Residual against predicted std: the blue fan should hold 90 % of the rows at every width."""
    cloud = contents.cloud
    groups = contents.groups
    edges = np.array([(g.low, g.high, g.size) for g in groups]).reshape(-1, 3)
    values, power = _scaled(cloud.actual - cloud.mean, cloud.std, edges.ravel())
    error, std = values[0], values[1]
    figure, ax = _axes(_WIDE)
    everywhere = np.concatenate([std, values[2].reshape(-1, 3)[:, :2].ravel()])
    if contents.is_even:
        # Without this the axis would magnify differences that mean nothing.
        everywhere = np.concatenate([everywhere, np.mean(std) * np.array([0.9, 1.1])])
    reach = 1.645 * np.max(everywhere)
    furthest = max(reach, float(np.max(np.abs(error))))
    _limits(ax, everywhere, np.array([-furthest, furthest]))
    fan = np.maximum(np.array(ax.get_xlim()), 0.0)
    ax.fill_between(fan, -1.645 * fan, 1.645 * fan, color=BLUE, alpha=0.16, linewidth=0)
    ax.axhline(0.0, color=BLUE, linewidth=1.2)
    outside = np.abs(error) > 1.645 * std
    for at, colour, marker in ((~outside, INK, "o"), (outside, ORANGE, "D")):
        ax.plot(
            std[at], error[at], marker, color=colour, markersize=3, alpha=0.7, markeredgewidth=0
        )
    for low, high, size in values[2].reshape(-1, 3):
        ax.hlines([-size, size], low, high, color=INK, linewidth=1.8)
    _name(ax, _times("Predicted std", power), _times("Actual − predicted", power))
    return _fitted(figure, ax)


def trace(contents: ReportContents, name: str, values: Sequence[float]) -> Figure:
    """One diagnostic of training, epoch by epoch."""
    course = np.asarray(values, dtype=np.float64)
    power = 0
    if name == "epistemic_share":
        course = 100 * course
    elif np.all(np.isfinite(course)):
        (course,), power = _scaled(course)
    figure, ax = _axes(_SMALL)
    epochs = np.arange(1, len(course) + 1)
    ax.plot(epochs, course, color=BLUE, linewidth=1.6)
    if len(course) < 12:
        ax.plot(epochs, course, "o", color=BLUE, markersize=3.5, markeredgewidth=0)
    _limits(ax, epochs, course[np.isfinite(course)])
    unit = (
        contents.about.unit
        if 0 < len(contents.about.unit) <= 20
        else f"units of {_target(contents)}"
    )
    units = {
        "mean_log_z": "nats a row",
        "noise_std": label(unit),
        "epistemic_share": "% of variance",
    }
    _name(ax, "Epoch", _times(units.get(name, label(name, 30)), power))
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    return _fitted(figure, ax)


def partial_dependence(
    contents: ReportContents, effect: Effect, limits: tuple[float, float]
) -> Figure:
    """Mean prediction over a feature's values: epistemic band dark, total band light."""
    if effect.levels:
        return _levels(contents, effect, limits)
    (mean, epistemic, total, ends), power = _scaled(
        effect.mean, effect.epistemic_std, effect.std, np.array(limits), by=np.array(limits)
    )
    (grid, deciles), x_power = _scaled(effect.grid, effect.deciles)
    figure, ax = _axes(_SMALL)
    for width, alpha in ((total, 0.13), (epistemic, 0.3)):
        ax.fill_between(
            grid, mean - 2 * width, mean + 2 * width, color=BLUE, alpha=alpha, linewidth=0
        )
    ax.plot(grid, mean, color=BLUE, linewidth=1.8)
    _limits(ax, grid, ends, margin=0.02)
    bottom, top = ax.get_ylim()
    inside = deciles[(deciles >= grid[0]) & (deciles <= grid[-1])]
    ax.vlines(inside, bottom, bottom + 0.05 * (top - bottom), color=INK, linewidth=1.0, alpha=0.6)
    y_name = f"Predicted {_target(contents, 20)}"
    _name(ax, _times("", x_power), _times(y_name, power))
    return _fitted(figure, ax)


def _levels(contents: ReportContents, effect: Effect, limits: tuple[float, float]) -> Figure:
    order = np.argsort(effect.mean, kind="stable")
    (mean, epistemic, total, ends), power = _scaled(
        effect.mean[order],
        effect.epistemic_std[order],
        effect.std[order],
        np.array(limits),
        by=np.array(limits),
    )
    figure, ax = _axes((_SMALL[0], max(_SMALL[1], 70.0 + 21.0 * len(order))))
    at = np.arange(len(order))
    ax.hlines(at, mean - 2 * total, mean + 2 * total, color=BLUE, alpha=0.2, linewidth=7)
    ax.hlines(at, mean - 2 * epistemic, mean + 2 * epistemic, color=BLUE, alpha=0.45, linewidth=7)
    ax.plot(mean, at, "o", color=BLUE, markersize=6, markeredgewidth=1.2, markeredgecolor=PAPER)
    _limits(ax, ends, at, margin=0.02)
    ax.set_ylim(-0.6, len(order) - 0.4)
    ax.grid(False, axis="y")
    _name(ax, _times(f"Predicted {_target(contents, 20)}", power), "")
    ax.set_yticks(at, [label(effect.levels[i], 18) for i in order])
    return _fitted(figure, ax)


def _effect_limits(shown: Sequence[Effect]) -> tuple[float, float]:
    """One range for all effects, so that their sizes can be compared by eye."""
    if not shown:
        return (0.0, 1.0)
    return (
        float(min(np.min(e.mean - 2 * e.std) for e in shown)),
        float(max(np.max(e.mean + 2 * e.std) for e in shown)),
    )


def _course(values: Sequence[float]) -> str:
    if not values:
        return "No epochs."
    return f"From {number(values[0])} in the first epoch to {number(values[-1])} in the last."


def _target(contents: ReportContents, width: int = 28) -> str:
    return label(contents.about.target, width)


def _axes(size: tuple[float, float]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(size[0] / 72.0, size[1] / 72.0), dpi=72)
    ax = figure.add_subplot()
    ax.tick_params(length=0, pad=5)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(5 if size == _WIDE else 4))
        axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    return figure, ax


def _scaled(
    *arrays: np.ndarray, by: np.ndarray | None = None
) -> tuple[tuple[np.ndarray, ...], int]:
    """Divide by a power of 1000 where labels would be long; also what keeps 1e300 drawable."""
    measured = arrays if by is None else (by,)
    largest = max(float(np.max(np.abs(a), initial=0.0)) for a in measured)
    if largest == 0.0 or 1e-2 <= largest < 1e5:
        return arrays, 0
    power = 3 * int(np.floor(np.log10(largest) / 3))
    # Two steps, because 10**power itself may leave the range of a float.
    half = power // 2
    return tuple(a / 10.0**half / 10.0 ** (power - half) for a in arrays), power


def _fitted(figure: Figure, ax: Axes) -> Figure:
    """Give the axes all the room that their labels leave, by the width of the browser's text."""
    width, height = figure.get_size_inches() * 72.0
    font = STYLE["ytick.labelsize"]
    left = 10.0 + font * max(map(_ems, _shown_labels(ax.yaxis)), default=0.0)
    right = 4.0 + font * max(map(_ems, _shown_labels(ax.xaxis)[-1:]), default=0.0) / 2.0
    bottom = 40.0 if ax.get_xlabel() else 24.0
    top = 24.0 if ax.get_title(loc="left") else 8.0
    ax.set_position(
        (
            left / width,
            bottom / height,
            max(width - left - right, 40.0) / width,
            (height - bottom - top) / height,
        )
    )
    return figure


def _shown_labels(axis: Axis) -> list[str]:
    low, high = sorted(axis.get_view_interval())
    ticks = axis.get_major_locator()()
    texts = axis.get_major_formatter().format_ticks(list(ticks))
    return [text for at, text in zip(ticks, texts, strict=True) if low <= at <= high]


def _ems(text: str) -> float:
    """Width of a text in units of its font size, at the wider end of system fonts."""
    return sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.62 for c in text)


def _limits(ax: Axes, x: np.ndarray, y: np.ndarray, margin: float = 0.05) -> None:
    for values, set_limits in ((x, ax.set_xlim), (y, ax.set_ylim)):
        low, high = (float(np.min(values)), float(np.max(values))) if len(values) else (0.0, 1.0)
        pad = margin * (high - low)
        # A range below rounding leaves no room for ticks.
        if high - low <= 1e-9 * max(abs(low), abs(high)):
            pad = 0.05 * max(abs(low), abs(high)) or 1.0
        set_limits(low - pad, high + pad)


def _name(ax: Axes, x: str, y: str) -> None:
    """Name the axes, the vertical one above its top, where it needs no turning of the head."""
    ax.set_xlabel(x)
    ax.set_title(y)


def _tick(value: float) -> str:
    text = f"{value:,.10g}" if abs(value) >= 1e4 else f"{value:.10g}"
    return text.replace("-", "\N{MINUS SIGN}")


def _times(text: str, power: int) -> str:
    if not power:
        return text
    return f"{text}{', ' if text else ''}× 10{str(power).translate(_SUPERSCRIPT)}"
