"""The pictures of what moves a prediction: the average over a feature's values, and its bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bayesprop.report.contents import Contents
from bayesprop.report.drawing import SMALL, fitted, new_axes, scaled, set_limits, set_names, times
from bayesprop.report.effects import Effect
from bayesprop.report.svg import BLUE, INK, PAPER, inline_svg
from bayesprop.report.words import label, number


def draw_effects(contents: Contents[Any]) -> dict[str, str]:
    """Draw effect-0, effect-1, ... in the order of the contents, as SVG elements."""
    drawn, shown = {}, contents.effects.shown
    limits = _limits(shown)
    for i, effect in enumerate(shown):
        text = f"The mean prediction moves by {number(effect.curve.movement)}."
        figure = partial_dependence(effect, limits, _name(contents, effect))
        title = f"Effect of {label(effect.name)}"
        drawn[f"effect-{i}"] = inline_svg(figure, f"effect-{i}", title, text)
    return drawn


def partial_dependence(effect: Effect, limits: tuple[float, float], y_name: str) -> Figure:
    """Mean prediction over a feature's values: epistemic band dark, total band light."""
    if effect.levels:
        return _levels(effect, limits, y_name)
    curve = effect.curve
    (mean, *bands, ends), power = scaled(
        curve.mean, *_bands(effect), np.array(limits), by=np.array(limits)
    )
    (grid, deciles), x_power = scaled(effect.grid, effect.deciles)
    figure, ax = new_axes(SMALL)
    for half, alpha in zip(bands, (0.13, 0.3), strict=False):
        ax.fill_between(grid, mean - half, mean + half, color=BLUE, alpha=alpha, linewidth=0)
    ax.plot(grid, mean, color=BLUE, linewidth=1.8)
    set_limits(ax, grid, ends, margin=0.02)
    bottom, top = ax.get_ylim()
    inside = deciles[(deciles >= grid[0]) & (deciles <= grid[-1])]
    ax.vlines(inside, bottom, bottom + 0.05 * (top - bottom), color=INK, linewidth=1.0, alpha=0.6)
    set_names(ax, times("", x_power), times(y_name, power))
    return fitted(figure, ax)


def _levels(effect: Effect, limits: tuple[float, float], y_name: str) -> Figure:
    order = np.argsort(effect.curve.mean, kind="stable")
    (mean, *bands, ends), power = scaled(
        *(values[order] for values in (effect.curve.mean, *_bands(effect))),
        np.array(limits),
        by=np.array(limits),
    )
    figure, ax = new_axes((SMALL[0], max(SMALL[1], 70.0 + 21.0 * len(order))))
    at = np.arange(len(order))
    for half, alpha in zip(bands, (0.2, 0.45), strict=False):
        ax.hlines(at, mean - half, mean + half, color=BLUE, alpha=alpha, linewidth=7)
    ax.plot(mean, at, "o", color=BLUE, markersize=6, markeredgewidth=1.2, markeredgecolor=PAPER)
    set_limits(ax, ends, at, margin=0.02)
    ax.set_ylim(-0.6, len(order) - 0.4)
    ax.grid(False, axis="y")
    set_names(ax, times(y_name, power), "")
    ax.set_yticks(at, [label(effect.levels[i], 18) for i in order])
    return fitted(figure, ax)


def _bands(effect: Effect) -> list[np.ndarray]:
    """Half widths of the total and the epistemic band, two standard deviations; empty if none."""
    stds = (effect.curve.std, effect.curve.epistemic_std)
    return [2.0 * std for std in stds if std is not None]


def _limits(shown: Sequence[Effect]) -> tuple[float, float]:
    """One range for all effects, so that their sizes can be compared by eye."""
    if not shown:
        return (0.0, 1.0)
    halves = [(_bands(effect) or [np.zeros_like(effect.curve.mean)])[0] for effect in shown]
    means = [effect.curve.mean for effect in shown]
    return (
        float(min(np.min(m - half) for m, half in zip(means, halves, strict=True))),
        float(max(np.max(m + half) for m, half in zip(means, halves, strict=True))),
    )


def _name(contents: Contents[Any], effect: Effect) -> str:
    of = effect.curve.of
    if of:
        return f"Probability of {label(of, 16)}"
    return f"Predicted {label(contents.about.target, 20)}"
