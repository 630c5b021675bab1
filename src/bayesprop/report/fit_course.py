"""How a fit went: its length and its guards in words, its course and its chains in pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesprop.model.fit_report import ChainTrace, FitReport
from bayesprop.report.contents import Contents
from bayesprop.report.drawing import SMALL, fitted, new_axes, scaled, set_limits, set_names, times
from bayesprop.report.svg import BLUE, INK, MUTED, ORANGE, inline_svg
from bayesprop.report.words import join, label, number, percent, plural

# Name, and what it means.
_GUARDS = {
    "weights_undone": (
        "Weight updates undone",
        "An update would have made a variance negative or non-finite, so that weight kept its "
        "previous mean and variance. A few are harmless; more than 1 % point to extreme values "
        "in the table.",
    ),
    "noise_kept": (
        "Noise updates skipped",
        "A row would have left the noise without a finite variance, so the noise estimate was "
        "kept. It takes a row far from its prediction, many standard deviations: an outlier.",
    ),
    "prior_kept": (
        "Prior refreshes skipped",
        "After an epoch, a weight's share of the prior could not be recomputed within its valid "
        "region and was kept. This slows the adaptation of the prior, not that of the weights.",
    ),
    "steps_damped": (
        "Mini-batch steps shortened",
        "A mini-batch would have more than halved what is known of the noise, so its step was "
        "shortened. If this is frequent, take a smaller batch.",
    ),
    "prior_uninformed": (
        "Prior refreshes put off",
        "After an epoch, the data said next to nothing about a weight, so it kept its share of the "
        "prior. No trouble: it counts weights that the table cannot determine, many of them with "
        "several hidden layers.",
    ),
    "dead_units": (
        "Hidden units asleep",
        "What leaves such a unit kept its prior: the table gave it nothing to say. No trouble: it "
        "is how a network that is larger than its table needs stays simple. Below 150 rows a "
        "linear model beside the network may say it all.",
    ),
    "members_restarted": (
        "Networks restarted",
        "A network of the ensemble had given up on rows that the others fit, and was trained from "
        "another start. No trouble, if they are few.",
    ),
    "residual_rows": (
        "Rows that the networks left",
        "At rows that the networks had not seen, their errors had a pattern, which a Gaussian "
        "process of so many rows adds to their mean. No trouble: the table holds more detail than "
        "networks of this size.",
    ),
    "replicated_inputs": (
        "Inputs remembered",
        "Rows of the same inputs agree more closely than the noise allows for, so that the next "
        "target at inputs of the table is expected like the last; new inputs gain nothing from it. "
        "Copies made by mistake would look the same: if there are any, remove them.",
    ),
    "epochs_undone": (
        "Epochs undone",
        "An epoch left the finite numbers, so the weights are those from before it, and training "
        "stopped there. Lower the learning rate.",
    ),
    "rows_refused": (
        "Rows refused",
        "An update was not finite, so the row changed nothing. Look for extreme values in the "
        "table.",
    ),
    "steps_shortened": (
        "Steps shortened",
        "A row asked for a change of a binary weight too large to be trusted, so its step was "
        "shortened. Frequent where few inputs meet, and no hidden units.",
    ),
    "weights_at_bound": (
        "Weights as good as certain",
        "Binary weights that can learn no more. If they are most, take fewer epochs or more units.",
    ),
    "diverged": (
        "Draws that diverged",
        "A trajectory ran off, so that a part of the posterior may be missing from the draws. "
        "Raise target_acceptance, or give the weights a narrower prior.",
    ),
    "not_converged": (
        "Not converged",
        "The search stopped before its optimum. Raise max_steps.",
    ),
}
# Name, unit (that of the target where it is empty), and what it means.
_TRACES = {
    "mean_log_z": (
        "Log Z",
        "nats a row",
        "Mean log probability of a row just before the model absorbed it, in standardised units. "
        "It should rise and level off; still rising means that more epochs would help.",
    ),
    "noise_std": (
        "Noise std",
        "",
        "The scatter that the model attributes to noise, in the units of the target.",
    ),
    "epistemic_share": (
        "Epistemic share",
        "% of variance",
        "Share of the predicted variance, on training rows, that more data would remove.",
    ),
    "variance_removed": (
        "Variance removed",
        "variance removed",
        "Share of the outputs' variance that a row removes: what there is still to learn from it.",
    ),
    "loss": (
        "Loss",
        "nats a row",
        "What the fit minimises. It should fall and level off; still falling means that more "
        "epochs would help. It rises where the price of complexity enters by degrees.",
    ),
    "data_loss": (
        "Loss of the data",
        "nats a row",
        "The part of it that the training rows make. It rises as the price of complexity enters: "
        "the model lets go of what it had learnt by heart.",
    ),
    "kl": (
        "KL divergence",
        "nats",
        "How far the weights have moved from their prior: what the model has learnt, and pays for.",
    ),
    "mean_log_likelihood": (
        "Mean log-likelihood",
        "nats a row",
        "Of the training rows, in standardised units. It should rise and level off.",
    ),
    "validation_loss": (
        "Validation loss",
        "validation loss",
        "On rows that the fit did not train on. The weights kept are those at its lowest point; "
        "rising after it is overfitting.",
    ),
}
_EVIDENCE = {"prequential": "prequential (every row predicted before it was absorbed)"}
_COLOURS = (BLUE, ORANGE, INK, MUTED)
_MOST_BINS, _DRAWS_A_BIN = 20, 10
_NAMES = {
    "log_weight_precision": "Log precision of the weights",
    "log_noise_var": "Log noise variance",
}


class Guard(NamedTuple):
    """How often a guard fired, and what that means."""

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
        (title, f"{text} {_ends(values)}".strip())
        for name, values in fit.trace.items()
        for title, _, text in [_TRACES.get(name, (_in_words(name), "", ""))]
    ]


def guards(fit: FitReport) -> list[Guard]:
    """Put every guard count in words."""
    words = []
    for key, count in fit.guards.items():
        name, meaning = _GUARDS.get(key, (_in_words(key), ""))
        attempts = _attempts(fit, key)
        share = f" ({percent(count / attempts, 1)} of {attempts:,})" if count and attempts else ""
        words.append(Guard(name, f"{count:,}{share}", meaning, count > 0))
    return words


def guard_sentence(fit: FitReport) -> str:
    """Say whether any guard fired."""
    fired = [guard.name.lower() for guard in guards(fit) if guard.fired]
    if not fit.guards:
        return "This method counts no guarded updates."
    if not fired:
        return "No numerical guard fired: every update was applied as computed."
    return f"Numerical guards fired: {join(fired)}."


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
    figure, ax = new_axes(SMALL)
    last = max(contents.fit.n_epochs, len(course))
    steps = last / len(course) * np.arange(1, len(course) + 1)
    ax.plot(steps, course, color=BLUE, linewidth=1.6)
    if len(course) < 12:
        ax.plot(steps, course, "o", color=BLUE, markersize=3.5, markeredgewidth=0)
    set_limits(ax, steps, course[np.isfinite(course)])
    unit = label(name, 30).replace("_", " ")
    if name in _TRACES:
        unit = _TRACES[name][1] or _unit_of_target(contents)
    set_names(ax, contents.fit.step.capitalize(), times(unit, power))
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    return fitted(figure, ax)


def _unit_of_target(contents: Contents[Any]) -> str:
    unit = contents.unit
    return label(unit) if 0 < len(unit) <= 20 else f"units of {label(contents.target, 28)}"


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
