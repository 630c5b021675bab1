"""The pictures of a classifier's report. Ink is data, blue the model, orange a warning."""

from __future__ import annotations

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from bayesprop.report.chain_figures import draw_chains
from bayesprop.report.class_contents import ClassContents
from bayesprop.report.drawing import SMALL, WIDE, fitted, new_axes, set_limits, set_names
from bayesprop.report.page_figures import draw_shared
from bayesprop.report.svg import BLUE, INK, ORANGE, PAPER, STYLE, inline_svg
from bayesprop.report.words import label

MAX_BALANCED = 12
_ALTERNATIVES = {
    "reliability": (
        "Reliability diagram",
        "For groups of rows with similar predicted probability, the share where it came true, "
        "and the range that chance explains.",
    ),
    "confidence": (
        "Confidence of right and wrong answers",
        "Two histograms of the probability of the answer given.",
    ),
    "abstaining": (
        "Errors when the least sure rows are left out",
        "Share of wrong answers among the rest, and the share that the model expects.",
    ),
    "balance": (
        "Rows of each class beyond those expected",
        "Actual minus expected number of rows, and the range that chance explains.",
    ),
}


def draw(contents: ClassContents) -> dict[str, str]:
    """Draw every figure that the contents allow, as SVG elements by name."""
    with rc_context(STYLE):
        drawn = {
            "reliability": reliability(contents),
            "confidence": confidence(contents),
            "abstaining": abstaining(contents),
            "balance": balance(contents),
        }
        found = {
            name: inline_svg(figure, name, *_ALTERNATIVES[name])
            for name, figure in drawn.items()
            if figure is not None
        }
        return found | draw_shared(contents) | draw_chains(contents)


def reliability(contents: ClassContents) -> Figure | None:
    """Shares against probabilities, with 95 % bands; orange outside. At the foot, the counts."""
    found = contents.diagram
    if found is None:
        return None
    figure, ax = new_axes(WIDE)
    x, y = 100 * found.predicted, 100 * found.actual
    low, high = 100 * found.low, 100 * found.high
    ax.bar(x, 14.0 * found.count / np.max(found.count), width=3.0, color=INK, alpha=0.18)
    ax.plot([0, 100], [0, 100], color=BLUE, linewidth=1.2)
    ax.bar(x, high - low, bottom=low, width=2.4, color=BLUE, alpha=0.25)
    outside = (y < low) | (y > high)
    for at, colour, marker in ((~outside, INK, "o"), (outside, ORANGE, "D")):
        ax.plot(x[at], y[at], marker, color=colour, markersize=5, markeredgewidth=0)
    ax.set_xlim(0, 102)
    ax.set_ylim(0, 104)
    if contents.positive:
        name = label(contents.positive, 24)
        set_names(ax, f"Predicted probability of {name}, %", f"Rows that are {name}, %")
    else:
        set_names(ax, "Probability of the answer, %", "Answers that are right, %")
    return fitted(figure, ax)


def confidence(contents: ClassContents) -> Figure:
    """Histogram of the confidence of right answers (ink) and of wrong ones (orange)."""
    found = contents.histogram
    figure, ax = new_axes(WIDE)
    tops = [0.0]
    for counts, colour, fill in ((found.right, INK, True), (found.wrong, ORANGE, False)):
        total = int(np.sum(counts))
        if total:
            share = 100.0 * counts / total
            tops.append(float(np.max(share)))
            ax.stairs(
                share,
                100 * found.edges,
                fill=fill,
                color=colour,
                alpha=0.35 if fill else 1.0,
                linewidth=2.0,
            )
    ax.set_xlim(100 * found.edges[0], 100)
    ax.set_ylim(0.0, 1.08 * max(tops))
    ax.grid(False, axis="x")
    set_names(
        ax, "Probability of the answer, %", "Right (filled) and wrong (line) answers, % of each"
    )
    return fitted(figure, ax)


def abstaining(contents: ClassContents) -> Figure | None:
    """Errors among the rest (ink) as the least sure are left out, and those expected (blue)."""
    found = contents.abstaining
    if found is None:
        return None
    figure, ax = new_axes(WIDE)
    left_out = 100 * (1.0 - found.answered)
    error, expected, half = 100 * found.error, 100 * found.expected, 200 * found.std
    low, high = np.maximum(expected - half, 0.0), expected + half
    ax.fill_between(left_out, low, high, color=BLUE, alpha=0.16, linewidth=0)
    ax.plot(left_out, expected, color=BLUE, linewidth=1.4)
    ax.plot(left_out, error, color=INK, linewidth=1.8)
    ax.set_xlim(0, 100)
    ax.set_ylim(0.0, 1.05 * max(float(np.max(error)), float(np.max(expected)), 1e-3))
    set_names(ax, "Least sure rows left out, %", "Wrong answers among the rest, %")
    return fitted(figure, ax)


def balance(contents: ClassContents) -> Figure:
    """Rows of each class beyond those expected, ±2 std of chance; of the least expected twelve."""
    found = contents.class_scores[::-1]
    excess = np.array([one.n_actual - one.expected for one in found])
    half = 2.0 * np.array([one.band for one in found])
    surprise = np.abs(excess) / np.maximum(half, 1e-12)
    kept = np.sort(np.argsort(-surprise, kind="stable")[:MAX_BALANCED])
    shown, excess, half = [found[k] for k in kept], excess[kept], half[kept]
    size = (WIDE[0], max(SMALL[1], 70.0 + 21.0 * len(shown)))
    figure, ax = new_axes(size)
    at = np.arange(len(shown))
    ax.axvline(0.0, color=BLUE, linewidth=1.2)
    ax.hlines(at, -half, half, color=BLUE, alpha=0.25, linewidth=9)
    outside = np.abs(excess) > half
    for chosen, colour, marker in ((~outside, INK, "o"), (outside, ORANGE, "D")):
        ax.plot(
            excess[chosen],
            at[chosen],
            marker,
            color=colour,
            markersize=6,
            markeredgewidth=1.2,
            markeredgecolor=PAPER,
        )
    reach = float(np.max(np.concatenate([np.abs(excess), half, [0.5]])))
    set_limits(ax, np.array([-reach, reach]), at)
    ax.set_ylim(-0.6, len(shown) - 0.4)
    ax.grid(False, axis="y")
    set_names(ax, "Actual − expected rows", "")
    ax.set_yticks(at, [label(one.name, 18) for one in shown])
    return fitted(figure, ax)
