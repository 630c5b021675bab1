"""The pictures of the positive one of two classes: precision, recall, false alarms and costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bayesprop.model.ranking import Curve
from bayesprop.report.contents import Contents
from bayesprop.report.drawing import WIDE, fitted, new_axes, set_names
from bayesprop.report.svg import BLUE, INK, LINE, MUTED, PAPER
from bayesprop.report.two_classes import TwoClasses
from bayesprop.report.words import label


def precision_recall(contents: Contents[Any]) -> Figure | None:
    """Precision against recall, with its band; the share of the class, and the threshold."""
    two = contents.details.two
    if two is None or two.curves is None:
        return None
    figure, ax = new_axes(WIDE)
    ax.axhline(100 * two.share, color=MUTED, linewidth=1.0, dashes=(3, 3))
    _banded(ax, two.curves.precision_recall, 100.0)
    _dot(ax, 100 * two.at.recall[0], 100 * two.at.precision[0])
    _percentages(ax)
    name = label(two.positive, 24)
    set_names(ax, f"Recall: rows of {name} that are flagged, %", "Precision: flagged rows right, %")
    return fitted(figure, ax)


def roc(contents: Contents[Any]) -> Figure | None:
    """Recall against the share of false alarms, with its band; chance, and the threshold."""
    two = contents.details.two
    if two is None or two.curves is None:
        return None
    figure, ax = new_axes(WIDE)
    ax.plot([0, 100], [0, 100], color=MUTED, linewidth=1.0, dashes=(3, 3))
    _banded(ax, two.curves.roc, 100.0)
    _dot(ax, 100 * _fallout(two), 100 * two.at.recall[0])
    _percentages(ax)
    name = label(two.other, 24)
    set_names(ax, f"False alarms: rows of {name} that are flagged, %", "Recall, %")
    return fitted(figure, ax)


def costs(contents: Contents[Any]) -> Figure | None:
    """Cost of a hundred rows against the threshold, with its band; never flagging, the chosen."""
    two = contents.details.two
    if two is None or two.costs is None:
        return None
    spent = two.costs
    figure, ax = new_axes(WIDE)
    ax.set_xscale("log")
    ax.axhline(spent.never, color=MUTED, linewidth=1.0, dashes=(3, 3))
    curve = spent.curve
    _banded(ax, curve._replace(x=100.0 * curve.x), 1.0)
    ax.axvline(100 * two.threshold, color=BLUE, linewidth=1.0)
    _dot(ax, 100 * two.threshold, spent.chosen)
    ax.set_xlim(100 * curve.x[0], 100.0)
    ax.set_ylim(0.0, 1.15 * max(float(np.quantile(curve.high, 0.9)), spent.never, spent.chosen))
    ax.xaxis.set_major_locator(LogLocator(10.0, (1.0, 3.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    set_names(ax, "Threshold: flagged from this probability on, %", "Cost of 100 rows")
    return fitted(figure, ax)


def _fallout(two: TwoClasses) -> float:
    others = two.at.false_alarms + two.at.rest
    return two.at.false_alarms / others if others else float("nan")


def _banded(ax: Axes, curve: Curve, times: float) -> None:
    x = times * curve.x
    ax.fill_between(x, times * curve.low, times * curve.high, color=BLUE, alpha=0.16, linewidth=0)
    ax.plot(x, times * curve.y, color=INK, linewidth=1.6)


def _dot(ax: Axes, x: float, y: float) -> None:
    ax.plot([x], [y], "o", color=BLUE, markersize=8, markeredgewidth=1.5, markeredgecolor=PAPER)


def _percentages(ax: Axes) -> None:
    ax.set_xlim(0, 101)
    ax.set_ylim(0, 104)
    ax.spines["left"].set_color(LINE)


FIGURES = {
    "precision-recall": (
        precision_recall,
        "Precision against recall",
        "Share of flagged rows that are right, for every share of the class that is flagged.",
    ),
    "roc": (
        roc,
        "ROC curve",
        "Share of the class that is flagged, for every share of false alarms.",
    ),
    "costs": (
        costs,
        "Costs against thresholds",
        "Cost of a hundred rows, for every probability from which rows are flagged.",
    ),
}
