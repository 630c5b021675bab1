"""Axes as a report draws them: scaled numbers, room for labels, and the words of their names."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bayesprop.evaluation.calibration import Promise
from bayesprop.evaluation.words import percent, times_ten
from bayesprop.report.svg import BLUE, INK, ORANGE, STYLE, with_values

WIDE, SMALL = (360.0, 276.0), (270.0, 170.0)


def new_axes(size: tuple[float, float]) -> Axes:
    """Open a figure of one panel; `size` in points."""
    figure = Figure(figsize=(size[0] / 72.0, size[1] / 72.0), dpi=72)
    ax = figure.add_subplot()
    ax.tick_params(length=0, pad=5)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(5 if size == WIDE else 4))
        axis.set_major_formatter(FuncFormatter(_tick))
    return ax


def scaled(*arrays: np.ndarray, by: np.ndarray | None = None) -> tuple[tuple[np.ndarray, ...], int]:
    """Divide by a power of 1000 where labels would be long; also what keeps 1e300 drawable."""
    measured = arrays if by is None else (by,)
    largest = max(float(np.max(np.abs(a), initial=0.0)) for a in measured)
    if largest == 0.0 or 1e-2 <= largest < 1e5:
        return arrays, 0
    power = 3 * int(np.floor(np.log10(largest) / 3))
    # Two steps, because 10**power itself may leave the range of a float.
    half = power // 2
    return tuple(a / 10.0**half / 10.0 ** (power - half) for a in arrays), power


def named(ax: Axes, x: str, y: str) -> Figure:
    """Name the axes, and give them all the room that labels leave in the browser's own text.

    The vertical one is named above its top, where it needs no turning of the head.
    """
    figure = cast(Figure, ax.figure)
    ax.set_xlabel(x)
    ax.set_title(y)
    width, height = figure.get_size_inches() * 72.0
    font = STYLE["ytick.labelsize"]
    left = 10.0 + font * max(map(_ems, _shown_labels(ax.yaxis)), default=0.0)
    right = 4.0 + font * max(map(_ems, _shown_labels(ax.xaxis)[-1:]), default=0.0) / 2.0
    bottom = 40.0 if ax.get_xlabel() else 24.0
    top = 24.0 if ax.get_title(loc="left") else 8.0
    room = max(width - left - right, 40.0), height - bottom - top
    ax.set_position((left / width, bottom / height, room[0] / width, room[1] / height))
    return figure


def _shown_labels(axis: Axis) -> list[str]:
    low, high = sorted(axis.get_view_interval())
    ticks = axis.get_major_locator()()
    texts = axis.get_major_formatter().format_ticks(list(ticks))
    return [text for at, text in zip(ticks, texts, strict=True) if low <= at <= high]


def _ems(text: str) -> float:
    """Width of a text in units of its font size, at the wider end of system fonts."""
    return sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.62 for c in text)


def set_limits(ax: Axes, x: np.ndarray, y: np.ndarray, margin: float = 0.05) -> None:
    """Let the axes hold all of the data, and a margin."""
    for values, set_ends in ((x, ax.set_xlim), (y, ax.set_ylim)):
        low, high = (float(np.min(values)), float(np.max(values))) if len(values) else (0.0, 1.0)
        pad = margin * (high - low)
        # A range below rounding leaves no room for ticks.
        if high - low <= 1e-9 * max(abs(low), abs(high)):
            pad = 0.05 * max(abs(low), abs(high)) or 1.0
        set_ends(low - pad, high + pad)


def _tick(value: float, _place: int | None) -> str:
    text = f"{value:,.10g}" if abs(value) >= 1e4 else f"{value:.10g}"
    return text.replace("-", "\N{MINUS SIGN}")


def times(text: str, power: int) -> str:
    """Append a power of ten to the name of an axis."""
    if not power:
        return text
    return f"{text}{', ' if text else ''}{times_ten(power)}"


def mark(
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


def banded(ax: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Draw what chance, or the model, explains."""
    ax.fill_between(x, low, high, color=BLUE, alpha=0.16, linewidth=0)


def shares(promise: Promise, words: str) -> list[str]:
    """Word the actual share of each level or group, and its range of chance."""
    return [
        f"{words.format(percent(promised), percent(actual))} "
        f"(chance: {percent(low)} to {percent(high)})"
        for promised, actual, low, high in zip(
            promise.promised, promise.actual, promise.low, promise.high, strict=True
        )
    ]
