"""Pictures of Markov chains: their course, and how their draws rank among those of all."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesprop.model.fit_report import ChainTrace
from bayesprop.report.drawing import SMALL, fitted, new_axes, scaled, set_limits, set_names, times
from bayesprop.report.page_contents import PageContents
from bayesprop.report.svg import BLUE, INK, MUTED, ORANGE, inline_svg
from bayesprop.report.words import label, number

_COLOURS = (BLUE, ORANGE, INK, MUTED)
_MOST_BINS, _DRAWS_A_BIN = 20, 10
_NAMES = {
    "log_density": "Log density",
    "log_weight_precision": "Log precision of the weights",
    "log_noise_var": "Log noise variance",
}


def name_of(key: str) -> str:
    """Put the name of a traced quantity in words; log_noise_var[1] is that of the second target."""
    stem, _, place = key.partition("[")
    words = _NAMES.get(stem, label(stem, 40).replace("_", " "))
    return f"{words}, target {int(place[:-1]) + 1}" if place[:-1].isdigit() else words


def caption(trace: ChainTrace) -> str:
    """Give the diagnostics of one quantity."""
    if trace.r_hat is None or trace.ess is None:
        return "One chain alone cannot tell whether it has converged."
    return f"R-hat {number(trace.r_hat, 4)}; worth {number(trace.ess, 3)} independent draws."


def draw_chains(contents: PageContents) -> dict[str, str]:
    """Draw chain-0, rank-0, chain-1, ... in the order of the contents."""
    found = {}
    for i, (key, trace) in enumerate(contents.fit.chains.items()):
        values = np.asarray(trace.values, dtype=np.float64)
        title = f"{name_of(key)} in the course of {len(values)} chains"
        found[f"chain-{i}"] = inline_svg(course(values), f"chain-{i}", title, caption(trace))
        title = f"{name_of(key)}: how the draws of every chain rank among all"
        found[f"rank-{i}"] = inline_svg(ranks(values), f"rank-{i}", title, caption(trace))
    return found


def course(values: Float[np.ndarray, "c s"]) -> Figure:
    """One line a chain; good chains look like one thick band of noise."""
    (values,), power = scaled(values)
    figure, ax = new_axes(SMALL)
    steps = np.arange(1, values.shape[1] + 1)
    for chain, colour in zip(values, _coloured(len(values)), strict=True):
        ax.plot(steps, chain, color=colour, linewidth=0.7, alpha=0.75)
    set_limits(ax, steps, values.ravel())
    set_names(ax, "Draw shown", times("", power))
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    return fitted(figure, ax)


def ranks(values: Float[np.ndarray, "c s"]) -> Figure:
    """Histogram of the ranks of every chain, in shares of the even height (Vehtari et al. 2021)."""
    n_chains, n_draws = values.shape
    n_bins = int(np.clip(n_draws // _DRAWS_A_BIN, 2, _MOST_BINS))
    order = values.ravel().argsort(kind="stable").argsort(kind="stable").reshape(values.shape)
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    figure, ax = new_axes(SMALL)
    shares = []
    for chain, colour in zip(order, _coloured(n_chains), strict=True):
        counts, _ = np.histogram((chain + 0.5) / values.size, edges)
        shares.append(counts * n_bins / n_draws)
        ax.stairs(shares[-1], edges, color=colour, linewidth=1.2)
    ax.axhline(1.0, color=MUTED, linewidth=0.8, linestyle="--")
    set_limits(ax, edges, np.array([0.0, max(2.0, float(np.max(shares)))]), margin=0.02)
    set_names(ax, "Rank among all draws, lowest to highest", "Draws of the chain, even = 1")
    return fitted(figure, ax)


def _coloured(n_chains: int) -> list[str]:
    return [_COLOURS[i % len(_COLOURS)] for i in range(n_chains)]
