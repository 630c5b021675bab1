"""The pictures of what moves a prediction: a curve or levels, with doubt, and how many rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayesprop.evaluation.words import label, number, plural, value
from bayesprop.report.drawing import SMALL, named, new_axes, scaled, set_limits, times
from bayesprop.report.effects import Effect
from bayesprop.report.svg import BLUE, INK, PAPER, with_values

_FOOT = 0.13
"""Share of a picture that the histogram of the data takes."""


def effect_figures(shown: Sequence[Effect], target: str) -> Iterator[Figure]:
    """Draw effects, all on one scale."""
    limits = _limits(shown)
    for effect in shown:
        of = effect.curve.of
        name = f"Probability of {label(of, 16)}" if of else f"Predicted {label(target, 20)}"
        yield partial_dependence(effect, limits, name)


def partial_dependence(effect: Effect, limits: tuple[float, float], y_name: str) -> Figure:
    """Mean prediction over a feature's values: epistemic band dark, total band light."""
    if effect.levels:
        return _levels(effect, limits, y_name)
    by = np.array(limits)
    (mean, ends), power = scaled(effect.curve.mean, by, by=by)
    (grid, edges), x_power = scaled(effect.grid, effect.edges)
    ax = new_axes(SMALL)
    for (low, high), is_epistemic in bands(effect):
        (low, high), _ = scaled(low, high, by=by)
        ax.fill_between(grid, low, high, color=BLUE, alpha=(0.13, 0.3)[is_epistemic], linewidth=0)
    ax.plot(grid, mean, color=BLUE, linewidth=1.8)
    set_limits(ax, grid, ends, margin=0.02)
    _draw_rows(ax, edges, effect.n_rows)
    # Marks that nobody sees, for the pointer.
    (marks,) = ax.plot(grid, mean, "o", color=BLUE, markersize=9, alpha=0.0)
    with_values(marks, _texts(effect, [value(float(at)) for at in effect.grid]))
    return named(ax, times("", x_power), times(y_name, power))


def _draw_rows(ax: Axes, edges: np.ndarray, n_rows: np.ndarray) -> None:
    bottom, top = ax.get_ylim()
    height = _FOOT * (top - bottom)
    foot = bottom - height
    ax.set_ylim(foot, top)
    tops = foot + height * n_rows / max(np.max(n_rows), 1)
    bars = ax.stairs(tops, edges, baseline=foot, fill=True, color=INK, alpha=0.3, linewidth=0)
    bars.sticky_edges.y.clear()


def _levels(effect: Effect, limits: tuple[float, float], y_name: str) -> Figure:
    order, by = np.argsort(effect.curve.mean, kind="stable"), np.array(limits)
    (mean, ends), power = scaled(effect.curve.mean[order], by, by=by)
    ax = new_axes((SMALL[0], max(SMALL[1], 70.0 + 21.0 * len(order))))
    at = np.arange(len(order))
    for (low, high), is_epistemic in bands(effect):
        (low, high), _ = scaled(low[order], high[order], by=by)
        ax.hlines(at, low, high, color=BLUE, alpha=(0.2, 0.45)[is_epistemic], linewidth=7)
    set_limits(ax, ends, at, margin=0.02)
    left, right = ax.get_xlim()
    share = effect.n_rows[order] / max(np.max(effect.n_rows), 1)
    ax.barh(at - 0.4, 2.0 * _FOOT * share * (right - left), 0.16, left, color=INK, alpha=0.3)
    ax.set_xlim(left, right)
    (marks,) = ax.plot(
        mean, at, "o", color=BLUE, markersize=6, markeredgewidth=1.2, markeredgecolor=PAPER
    )
    texts = _texts(effect, [label(level, 30) for level in effect.levels])
    with_values(marks, [f"{texts[k]}; {plural(int(effect.n_rows[k]), 'row')}" for k in order])
    ax.set_ylim(-0.6, len(order) - 0.4)
    ax.grid(False, axis="y")
    ax.set_yticks(at, [label(effect.levels[i], 18) for i in order])
    return named(ax, times(y_name, power), "")


def bands(effect: Effect) -> Iterator[tuple[Float[np.ndarray, "2 g"], bool]]:
    """Two standard deviations either side, in all and epistemic, where there are such."""
    curve = effect.curve
    for std in (curve.std, curve.epistemic_std):
        if std is not None:
            bounds = np.stack([curve.mean - 2.0 * std, curve.mean + 2.0 * std])
            is_epistemic = std is curve.epistemic_std
            yield np.clip(bounds, *curve.support), is_epistemic


def _limits(shown: Sequence[Effect]) -> tuple[float, float]:
    """One range for all effects, so that their sizes can be compared by eye."""
    if not shown:
        return (0.0, 1.0)
    bounds = [bound for effect in shown for band, _ in bands(effect) for bound in band]
    bounds += [effect.curve.mean for effect in shown]
    return float(min(map(np.min, bounds))), float(max(map(np.max, bounds)))


def _texts(effect: Effect, settings: Sequence[str]) -> list[str]:
    curve, name = effect.curve, label(effect.name, 30)
    stds = np.zeros(len(settings)) if curve.epistemic_std is None else curve.epistemic_std
    return [
        f"{name} = {setting}: {number(float(mean))} ± {number(2.0 * float(std), 2)}"
        for setting, mean, std in zip(settings, curve.mean, stds, strict=True)
    ]
