"""The section on the fit: a sentence, counts of guards, curves and chains."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesprop.evaluation.words import join, label, number, plural
from bayesprop.model.fit_report import ChainTrace, FitReport
from bayesprop.report.contents import EveryContents
from bayesprop.report.drawing import SMALL, named, new_axes, scaled, set_limits, times
from bayesprop.report.svg import BLUE, INK, MUTED, ORANGE, inline_svg

_EVIDENCE = {"prequential": "prequential (every row predicted before it was learnt)"}
_COLOURS = (BLUE, ORANGE, INK, MUTED)
_MOST_BINS, _DRAWS_A_BIN = 20, 10
_NAMES = {
    "log_weight_precision": "Log precision of the weights",
    "log_noise_var": "Log noise variance",
}


def fit_sentence(fit: FitReport) -> str:
    """Word the size of the fit: rows, epochs, time, evidence."""
    evidence = [
        f"{_EVIDENCE.get(name, label(name))} {number(value, 4)} nats"
        for name, value in sorted(fit.log_evidence.items(), reverse=True)
    ]
    text = (
        f"Fitted to {plural(fit.n_rows, 'row')} in {plural(fit.n_epochs, label(fit.step))} and "
        f"{number(fit.seconds, 2)} seconds."
    )
    return f"{text} Estimated log evidence: {join(evidence)}." if evidence else text


def ends(values: Sequence[float]) -> str:
    """Give the first and the last value of a trace."""
    if not values:
        return "No steps."
    return f"From {number(values[0])} at the start to {number(values[-1])} at the end."


def in_words(name: str) -> str:
    """Write the name of a guard or a trace as words: "noise_kept" is "Noise kept"."""
    words = label(name, 40).replace("_", " ").strip()
    return f"{words[:1].upper()}{words[1:]}"


def draw_fit(contents: EveryContents) -> dict[str, str]:
    """Draw trace-0, ..., and chain-0, rank-0, chain-1, ... in the order of the contents."""
    drawn, fit = {}, contents.fit
    for i, values in enumerate(fit.trace.values()):
        figure = trace(values, fit.n_epochs, fit.step)
        drawn[f"trace-{i}"] = inline_svg(figure, f"trace-{i}")
    for i, chains in enumerate(fit.chains.values()):
        values = np.asarray(chains.values, dtype=np.float64)
        drawn[f"chain-{i}"] = inline_svg(course(values), f"chain-{i}")
        drawn[f"rank-{i}"] = inline_svg(ranks(values), f"rank-{i}", labels=f"chain-{i}")
    return drawn


def trace(values: Sequence[float], n_epochs: int, step: str) -> Figure:
    """One diagnostic of training, step by step."""
    course, power = np.asarray(values, dtype=np.float64), 0
    if np.all(np.isfinite(course)):
        (course,), power = scaled(course)
    ax = new_axes(SMALL)
    last = max(n_epochs, len(course))
    steps = last / len(course) * np.arange(1, len(course) + 1)
    ax.plot(steps, course, color=BLUE, linewidth=1.6)
    if len(course) < 12:
        ax.plot(steps, course, "o", color=BLUE, markersize=3.5, markeredgewidth=0)
    set_limits(ax, steps, course[np.isfinite(course)])
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    return named(ax, step.capitalize(), times("", power))


def name_of(key: str) -> str:
    """Put the name of a traced quantity in words; log_noise_var[1] is that of the second target."""
    stem, _, place = key.partition("[")
    words = _NAMES.get(stem, in_words(stem))
    return f"{words}, target {int(place[:-1]) + 1}" if place[:-1].isdigit() else words


def caption(trace: ChainTrace) -> str:
    """Give the diagnostics of one quantity."""
    if trace.r_hat is None or trace.ess is None:
        return "Convergence cannot be assessed from one chain."
    return f"R-hat {number(trace.r_hat, 4)}; effective sample size {number(trace.ess, 3)} draws."


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
