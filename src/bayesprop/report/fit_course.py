"""How a fit went: its length and its guards in words, its course and its chains in pictures."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesprop.model.fit_report import ChainTrace, FitReport
from bayesprop.report.contents import Contents
from bayesprop.report.drawing import SMALL, named, new_axes, scaled, set_limits, times
from bayesprop.report.svg import BLUE, INK, MUTED, ORANGE, inline_svg
from bayesprop.report.words import join, label, number, percent, plural

TEXTS = tomllib.loads(
    (resources.files("bayesprop.report") / "templates/fit_course.toml").read_text("utf-8")
)
_EVIDENCE = {"prequential": "prequential (every row predicted before it was absorbed)"}
_COLOURS = (BLUE, ORANGE, INK, MUTED)
_MOST_BINS, _DRAWS_A_BIN = 20, 10
_NAMES = {
    "log_weight_precision": "Log precision of the weights",
    "log_noise_var": "Log noise variance",
}


class Guard(NamedTuple):
    """How often a guard fired, and what that means; a count that is no trouble never fires."""

    name: str
    how_often: str
    meaning: str
    fired: bool


def fit_sentence(fit: FitReport) -> str:
    """Say what the fit was: rows, epochs, time, evidence."""
    evidence = [
        f"{_EVIDENCE.get(name, label(name))} {number(value, 4)} nats"
        for name, value in sorted(fit.log_evidence.items(), reverse=True)
    ]
    text = (
        f"Fitted to {plural(fit.n_rows, 'row')} in {plural(fit.n_epochs, label(fit.step))} and "
        f"{number(fit.seconds, 2)} seconds."
    )
    return f"{text} Estimated log evidence: {join(evidence)}." if evidence else text


def traces(fit: FitReport) -> list[tuple[str, str]]:
    """Title and explanation of every diagnostic of training; its own name where it is unknown."""
    return [
        (text["name"], f"{text['meaning']} {_ends(values)}".strip())
        for name, values in fit.trace.items()
        for text in [_text("traces", name)]
    ]


def guards(fit: FitReport) -> list[Guard]:
    """Put every guard count in words."""
    words = []
    for key, count in fit.guards.items():
        text = _text("guards", key)
        attempts = _attempts(fit, key)
        share = f" ({percent(count / attempts, 1)} of {attempts:,})" if count and attempts else ""
        fired = count > 0 and text.get("is_trouble", True)
        words.append(Guard(text["name"], f"{count:,}{share}", text["meaning"], fired))
    return words


def guard_sentence(fit: FitReport) -> str:
    """Say whether any guard fired."""
    fired = [guard.name.lower() for guard in guards(fit) if guard.fired]
    if not fit.guards:
        return "This method counts no guarded updates."
    if not fired:
        return "No numerical guard fired: every update was applied as computed."
    return f"Numerical guards fired: {join(fired)}."


def _text(kind: str, name: str) -> dict[str, Any]:
    return TEXTS[kind].get(name, {"name": _in_words(name), "meaning": ""})


def _in_words(name: str) -> str:
    words = label(name, 40).replace("_", " ").strip()
    return f"{words[:1].upper()}{words[1:]}"


def _attempts(fit: FitReport, guard: str) -> int:
    """How often a guard could have fired; 0 if unknown."""
    if guard == "weights_undone":
        return fit.n_updates
    # The prior factor of every weight is refreshed once an epoch, not once a row.
    return fit.n_updates // max(fit.n_rows, 1) if guard.startswith("prior_") else 0


def draw_fit(contents: Contents[Any]) -> dict[str, str]:
    """Draw trace-0, ..., and chain-0, rank-0, chain-1, ... in the order of the contents."""
    drawn = {}
    for i, (name, values) in enumerate(contents.fit.trace.items()):
        drawn[f"trace-{i}"] = inline_svg(trace(contents, name, values), f"trace-{i}")
    for i, chains in enumerate(contents.fit.chains.values()):
        values = np.asarray(chains.values, dtype=np.float64)
        drawn[f"chain-{i}"] = inline_svg(course(values), f"chain-{i}")
        drawn[f"rank-{i}"] = inline_svg(ranks(values), f"rank-{i}", labels=f"chain-{i}")
    return drawn


def trace(contents: Contents[Any], name: str, values: Sequence[float]) -> Figure:
    """One diagnostic of training, step by step; under its own name where it is not known."""
    course = np.asarray(values, dtype=np.float64)
    power = 0
    if name == "epistemic_share":
        course = 100 * course
    elif np.all(np.isfinite(course)):
        (course,), power = scaled(course)
    ax = new_axes(SMALL)
    last = max(contents.fit.n_epochs, len(course))
    steps = last / len(course) * np.arange(1, len(course) + 1)
    ax.plot(steps, course, color=BLUE, linewidth=1.6)
    if len(course) < 12:
        ax.plot(steps, course, "o", color=BLUE, markersize=3.5, markeredgewidth=0)
    set_limits(ax, steps, course[np.isfinite(course)])
    unit = label(name, 30).replace("_", " ")
    if name in TEXTS["traces"]:
        own = label(contents.unit) if 0 < len(contents.unit) <= 20 else ""
        of_target = own or f"units of {label(contents.target, 28)}"
        unit = TEXTS["traces"][name].get("unit") or of_target
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    return named(ax, contents.fit.step.capitalize(), times(unit, power))


def _ends(values: Sequence[float]) -> str:
    if not values:
        return "No steps."
    return f"From {number(values[0])} at first to {number(values[-1])} at last."


def name_of(key: str) -> str:
    """Put the name of a traced quantity in words; log_noise_var[1] is that of the second target."""
    stem, _, place = key.partition("[")
    words = _NAMES.get(stem, _in_words(stem))
    return f"{words}, target {int(place[:-1]) + 1}" if place[:-1].isdigit() else words


def caption(trace: ChainTrace) -> str:
    """Give the diagnostics of one quantity."""
    if trace.r_hat is None or trace.ess is None:
        return "One chain alone cannot tell whether it has converged."
    return f"R-hat {number(trace.r_hat, 4)}; worth {number(trace.ess, 3)} independent draws."


def course(values: Float[np.ndarray, "c s"]) -> Figure:
    """One line a chain; good chains look like one thick band of noise."""
    (values,), power = scaled(values)
    ax = new_axes(SMALL)
    steps = np.arange(1, values.shape[1] + 1)
    for chain, colour in zip(values, cycle(_COLOURS), strict=False):
        ax.plot(steps, chain, color=colour, linewidth=0.7, alpha=0.75)
    set_limits(ax, steps, values.ravel())
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    return named(ax, "Draw shown", times("", power))


def ranks(values: Float[np.ndarray, "c s"]) -> Figure:
    """Histogram of the ranks of every chain, in shares of the even height (Vehtari et al. 2021)."""
    n_draws = values.shape[1]
    n_bins = int(np.clip(n_draws // _DRAWS_A_BIN, 2, _MOST_BINS))
    order = values.ravel().argsort(kind="stable").argsort(kind="stable").reshape(values.shape)
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    ax = new_axes(SMALL)
    shares = []
    for chain, colour in zip(order, cycle(_COLOURS), strict=False):
        counts, _ = np.histogram((chain + 0.5) / values.size, edges)
        shares.append(counts * n_bins / n_draws)
        ax.stairs(shares[-1], edges, color=colour, linewidth=1.2)
    ax.axhline(1.0, color=MUTED, linewidth=0.8, linestyle="--")
    set_limits(ax, edges, np.array([0.0, max(2.0, float(np.max(shares)))]), margin=0.02)
    return named(ax, "Rank among all draws, lowest to highest", "Draws of the chain, even = 1")
