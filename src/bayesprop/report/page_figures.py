"""The pictures that every report has: courses of training, and effects of features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesprop.report.drawing import SMALL, fitted, new_axes, scaled, set_limits, set_names, times
from bayesprop.report.effects import Effect
from bayesprop.report.page_contents import PageContents
from bayesprop.report.svg import BLUE, INK, PAPER, inline_svg
from bayesprop.report.words import label, number

_UNITS = {
    "mean_log_z": "nats a row",
    "mean_log_likelihood": "nats a row",
    "loss": "nats a row",
    "data_loss": "nats a row",
    "kl": "nats",
    "epistemic_share": "% of variance",
}


def draw_shared(contents: PageContents) -> dict[str, str]:
    """Draw trace-0, trace-1, ... and effect-0, effect-1, ... in the order of the contents."""
    found = {}
    for i, (name, values) in enumerate(contents.fit.trace.items()):
        title = f"{label(name).replace('_', ' ')} in the course of training"
        figure = trace(contents, name, values)
        found[f"trace-{i}"] = inline_svg(figure, f"trace-{i}", title, _course(values))
    shown = contents.effects.shown
    limits = _effect_limits(shown)
    for i, effect in enumerate(shown):
        text = f"The mean prediction moves by {number(effect.curve.movement)}."
        figure = partial_dependence(effect, limits, _effect_name(contents, effect))
        title = f"Effect of {label(effect.name)}"
        found[f"effect-{i}"] = inline_svg(figure, f"effect-{i}", title, text)
    return found


def trace(contents: PageContents, name: str, values: Sequence[float]) -> Figure:
    """One diagnostic of training, step by step; under its own name where it is not known."""
    course = np.asarray(values, dtype=np.float64)
    power = 0
    if name == "epistemic_share":
        course = 100 * course
    elif np.all(np.isfinite(course)):
        (course,), power = scaled(course)
    figure, ax = new_axes(SMALL)
    last = max(contents.fit.n_epochs, len(course))
    steps = last / len(course) * np.arange(1, len(course) + 1)
    ax.plot(steps, course, color=BLUE, linewidth=1.6)
    if len(course) < 12:
        ax.plot(steps, course, "o", color=BLUE, markersize=3.5, markeredgewidth=0)
    set_limits(ax, steps, course[np.isfinite(course)])
    units = {**_UNITS, "noise_std": _unit_of_target(contents)}
    unit = units.get(name, label(name, 30).replace("_", " "))
    set_names(ax, contents.fit.step.capitalize(), times(unit, power))
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    return fitted(figure, ax)


def _unit_of_target(contents: PageContents) -> str:
    unit = contents.about.unit
    return label(unit) if 0 < len(unit) <= 20 else f"units of {label(contents.about.target, 28)}"


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
    found = (effect.curve.std, effect.curve.epistemic_std)
    return [2.0 * std for std in found if std is not None]


def _effect_limits(shown: Sequence[Effect]) -> tuple[float, float]:
    """One range for all effects, so that their sizes can be compared by eye."""
    if not shown:
        return (0.0, 1.0)
    halves = [(_bands(effect) or [np.zeros_like(effect.curve.mean)])[0] for effect in shown]
    means = [effect.curve.mean for effect in shown]
    return (
        float(min(np.min(m - half) for m, half in zip(means, halves, strict=True))),
        float(max(np.max(m + half) for m, half in zip(means, halves, strict=True))),
    )


def _effect_name(contents: PageContents, effect: Effect) -> str:
    of = effect.curve.of
    if of:
        return f"Probability of {label(of, 16)}"
    return f"Predicted {label(contents.about.target, 20)}"


def _course(values: Sequence[float]) -> str:
    if not values:
        return "No steps."
    return f"From {number(values[0])} at first to {number(values[-1])} at last."
