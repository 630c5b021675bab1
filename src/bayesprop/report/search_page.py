"""The page on a search for the best: its course, the rows to measure next, what moves the best."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesprop.atomic import write_atomically
from bayesprop.evaluation.words import label, value
from bayesprop.report.drawing import WIDE, mark, named, new_axes, scaled, set_limits, times
from bayesprop.report.effect_figures import effect_figures
from bayesprop.report.effects import Effects
from bayesprop.report.page import environment
from bayesprop.report.svg import BLUE, MUTED, PAPER, STYLE, inline_svg, with_values


class Search(NamedTuple):
    """What the page shows of a search for the largest (sign 1) or smallest (-1) target.

    requires
        What a row must meet, in words; empty: nothing.
    values
        Targets in the order of the table, y; NaN where a row is planned.
    is_met
        Whether each row is measured and probably meets what is required.
    best
        Place of the measured row of the best predicted mean.
    expected
        Mean and ends of the 90 % interval of planned rows, then of those to measure next, y.
    heads, rows
        The table of the rows to measure next.
    effects
        Of every column on the prediction of the best row.
    """

    target: str
    unit: str
    source: str
    command: str
    sign: float
    requires: str
    values: Float[np.ndarray, " n"]
    is_met: Bool[np.ndarray, " n"]
    best: int
    best_mean: float
    best_row: str
    expected: Float[np.ndarray, "k 3"]
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    effects: Effects

    @property
    def n_planned(self) -> int:
        """Rows of the table without a target."""
        return int(np.isnan(self.values).sum())


def write_search(path: str | PathLike[str], search: Search) -> None:
    """Draw and write the page, which appears whole or not at all; OSError if it cannot be."""
    with rc_context(STYLE):
        figures = {"course": course(search)}
        effects = effect_figures(search.effects.shown, search.target)
        figures |= {f"effect-{k}": figure for k, figure in enumerate(effects)}
        drawn = {name: inline_svg(figure, name) for name, figure in figures.items()}
    templates = environment()
    templates.filters["value"] = value
    templates.globals |= {"c": search, "figures": drawn}
    content = templates.get_template("search.html").render().encode("utf-8", errors="replace")
    write_atomically(Path(path), lambda file: file.write(content))


def running_best(search: Search) -> Float[np.ndarray, " n"]:
    """Best target up to each row among those that count, y; infinite before the first."""
    counted = np.where(search.is_met, search.sign * search.values, -np.inf)
    return search.sign * np.maximum.accumulate(counted)


def course(search: Search) -> Figure:
    """Targets row by row, the best so far as a line; open circles: expected, 90 % intervals."""
    y, best = search.values, running_best(search)
    rows, is_measured, has_best = np.arange(1, len(y) + 1), np.isfinite(y), np.isfinite(best)
    n_next = len(search.expected) - search.n_planned
    places = np.concatenate([rows[~is_measured], len(y) + np.arange(1, n_next + 1)])
    by = np.concatenate([y[is_measured], search.expected.ravel()])
    (y, best, expected, ends), power = scaled(y, best, search.expected, by, by=by)
    ax = new_axes(WIDE)
    ax.step(rows[has_best], best[has_best], where="post", color=BLUE, linewidth=1.4)
    texts = [f"row {row}: {value(one)}" for row, one in zip(rows, search.values, strict=True)]
    shown = [text for text, here in zip(texts, is_measured, strict=True) if here]
    mark(ax, rows[is_measured], y[is_measured], ~search.is_met[is_measured], size=4, texts=shown)
    ax.axvline(len(y) + 0.5, color=MUTED, linewidth=1.0, dashes=(3, 3))
    mean, low, high = expected.T
    ax.vlines(places, low, high, color=BLUE, alpha=0.4, linewidth=1.6)
    style = {"color": PAPER, "markeredgecolor": BLUE, "markeredgewidth": 1.4, "markersize": 5}
    (marks,) = ax.plot(places, mean, "o", **style)
    texts = [f"expected {value(a)} ({value(b)} to {value(c)})" for a, b, c in search.expected]
    with_values(marks, texts)
    set_limits(ax, np.arange(1, len(y) + n_next + 1), ends)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    name = times(label(search.target, 28), power)
    return named(ax, "Row of the table, then rows to measure next", name)
