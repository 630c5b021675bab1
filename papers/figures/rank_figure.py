"""The picture of ranks: every method's place on every set, and its average, a panel a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesprop.report.svg import BLUE, INK, LINE, MUTED, ORANGE, PAPER
from papers.figures import save

_ROW = 0.29
"""Inches a method."""


@dataclass(frozen=True)
class Panel:
    """Ranks by one score.

    ranks
        By method: its rank on each set where it was compared.
    partial
        Methods that were not compared on every set: drawn hollow.
    critical
        Difference of average ranks that chance seldom exceeds; NaN draws nothing.
    """

    title: str
    ranks: Mapping[str, Sequence[float]]
    partial: frozenset[str]
    critical: float


def draw(stem: Path, panels: Sequence[Panel], *, order: Sequence[str], ours: set[str]) -> None:
    """Write `<stem>.png` and `<stem>.svg`.

    order
        Methods from the top.
    ours
        Drawn blue; the others orange.
    """
    figure = Figure(
        figsize=(2.0 + 2.9 * len(panels), 1.5 + _ROW * len(order)), layout="constrained"
    )
    columns = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    last = max(max(found) for panel in panels for found in panel.ranks.values())
    for axes, panel in zip(columns, panels, strict=True):
        _draw_panel(axes, panel, order, ours)
        axes.set(xlim=(0.4, last + 0.6), ylim=(len(order) - 0.4, -1.5))
        axes.set_xticks([1, *range(5, int(last) + 1, 5)])
        axes.set_title(panel.title, loc="left", fontsize=10, color=INK)
        axes.set_xlabel("rank, 1 the best", fontsize=9, color=MUTED)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
    columns[0].set_yticks(range(len(order)), labels=list(order), fontsize=9)
    for label, method in zip(columns[0].get_yticklabels(), order, strict=True):
        label.set_color(BLUE if method in ours else ORANGE)
    save(figure, stem)


def _draw_panel(axes: Axes, panel: Panel, order: Sequence[str], ours: set[str]) -> None:
    for height, method in enumerate(order):
        found = panel.ranks.get(method)
        if found is None:
            axes.text(
                0.7, height, "no such score", fontsize=8, color=MUTED, va="center", style="italic"
            )
            continue
        colour = BLUE if method in ours else ORANGE
        axes.plot((min(found), max(found)), (height, height), color=LINE, linewidth=1.0)
        _draw_sets(axes, found, height, colour)
        is_partial = method in panel.partial
        axes.plot(
            np.mean(found), height, "o", markersize=8, markeredgecolor=colour, markeredgewidth=1.5,
            markerfacecolor=PAPER if is_partial else colour,
        )  # fmt: skip
    whole = [np.mean(r) for method, r in panel.ranks.items() if method not in panel.partial]
    if whole and np.isfinite(panel.critical):
        best = float(min(whole))
        axes.plot((best, best + panel.critical), (-0.9, -0.9), "|-", color=INK, linewidth=1.2)
        axes.annotate(
            "critical difference", (best, -0.9), (0, 4), textcoords="offset points",
            fontsize=7.5, color=MUTED,
        )  # fmt: skip


def _draw_sets(axes: Axes, ranks: Sequence[float], height: int, colour: str) -> None:
    """Draw a small dot a set, those of the same rank beside each other upward and downward."""
    seen: dict[float, int] = {}
    for rank in sorted(ranks):
        place = seen[rank] = seen.get(rank, -1) + 1
        lift = 0.09 * ((place + 1) // 2) * (1 if place % 2 else -1)
        axes.plot(rank, height + lift, ".", color=colour, alpha=0.45, markersize=6,
                  markeredgewidth=0)  # fmt: skip
