"""Pictures and small tables of predictions, for a notebook."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.few_digits import few_digits
from bayesprop.distributions.predictive import Prediction, Predictive

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CURVES, MOST_ROWS, _ROWS_IN_A_LINE = 6, 10, 3
_POINTS, _EDGE = 200, 0.002
_ONE_TARGET = "plot draws one target: choose it by target(k)"
_JUMP = 1e-9
"""Probability of one value, above which it is drawn as a dot."""


def plot(predictive: Prediction, ax: Axes | None) -> Axes:
    """Draw densities (of counts probabilities) of up to six rows, intervals of more; or classes."""
    if isinstance(predictive, ClassPredictive):
        if predictive.proba.ndim > 2:
            raise ValueError(_ONE_TARGET)
        return _draw_bars(predictive, _axes(ax))
    predictive = cast(Predictive, predictive)
    if predictive.mean.ndim != 1:
        raise ValueError(_ONE_TARGET)
    ax = _axes(ax)
    if len(predictive) <= MOST_CURVES:
        _draw_densities(predictive, ax)
    else:
        _draw_intervals(predictive, ax)
    return ax


def _draw_bars(predictive: ClassPredictive, ax: Axes) -> Axes:
    """Draw a bar a row, divided by the probabilities of the classes."""
    rows = np.arange(len(predictive))
    below = np.zeros(len(rows))
    for label, share in zip(predictive.classes, predictive.proba.T, strict=True):
        ax.bar(rows, share, 0.9, bottom=below, label=str(label))
        below = below + share
    ax.set(xlabel="row", ylabel="probability", ylim=(0.0, 1.0))
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def line(predictive: Prediction) -> str:
    """Return the kind of prediction, its number of rows, and what it is for the first of them.

    Of a number mean and std, of a class its probability; of several targets those of the first.
    """
    first = predictive[:_ROWS_IN_A_LINE]
    if isinstance(first, ClassPredictive):
        pairs = zip(first.label, first.confidence, strict=True)
        rows = [_of_row(pair, lambda label, share: f"{label} {share:.3f}") for pair in pairs]
    else:
        first = cast(Predictive, first)
        pairs = zip(first.mean, first.std, strict=True)
        rows = [
            _of_row(pair, lambda m, s: f"{few_digits(m)} ± {few_digits(s, 3)}") for pair in pairs
        ]
    more = ["..."] if len(predictive) > len(rows) else []
    n_rows = f"{len(predictive)} row{'' if len(predictive) == 1 else 's'}"
    return f"{type(predictive).__name__}({': '.join([n_rows, '; '.join(rows + more)])})"


def _of_row(pair: tuple, words: Callable[..., str]) -> str:
    most = _ROWS_IN_A_LINE
    pairs = [words(*one) for one in zip(*map(np.ravel, pair), strict=True)]
    return ", ".join(pairs[:most] + ["..."] * (len(pairs) > most))


def table(predictive: Prediction) -> str:
    """Return a small table of the first rows, in HTML."""
    if isinstance(predictive, ClassPredictive):
        return _table_of_classes(predictive)
    return _table_of_numbers(cast(Predictive, predictive))


def _table_of_numbers(predictive: Predictive) -> str:
    """Return mean, std and the 90 % interval of the first rows; one line a target of a row."""
    first = predictive[: min(len(predictive), MOST_ROWS)]
    low, high = np.moveaxis(first.interval(0.9), -1, 0)
    columns = [np.reshape(part, -1) for part in (first.mean, first.std, low, high)]
    cells = ([name, *map(few_digits, row)]
             for name, *row in zip(_names(first.mean), *columns, strict=True))  # fmt: skip
    return _table(["row", "mean", "std", "5 %", "95 %"], cells, len(predictive))


def _table_of_classes(predictive: ClassPredictive) -> str:
    """Return the likeliest class of the first rows and the probabilities of the first classes."""
    first = predictive[: min(len(predictive), MOST_ROWS)]
    shown = [str(label) for label in predictive.classes[:MOST_ROWS]]
    labels, proba = first.label, first.proba.reshape(-1, len(predictive.classes))
    cells = (
        [name, str(label), *(f"{share:.3f}" for share in shares[: len(shown)])]
        for name, label, shares in zip(_names(labels), labels.ravel(), proba, strict=True)
    )
    return _table(["row", "likeliest", *(f"p({name})" for name in shown)], cells, len(predictive))


def _names(values: np.ndarray) -> list[str]:
    """Name the rows of values (n[, o]), and of several targets which it is."""
    n = int(np.prod(values.shape[1:], initial=1))
    return [f"{k // n}" if n == 1 else f"{k // n}, target {k % n}" for k in range(int(values.size))]


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.figure(layout="constrained").add_subplot()


def _draw_densities(predictive: Predictive, ax: Axes) -> None:
    ends, masses = predictive.quantile([_EDGE, 1.0 - _EDGE]), False
    for row, (low, high) in enumerate(ends):
        one = predictive[row : row + 1]
        if predictive.step:
            y = np.unique(np.rint(np.linspace(low, high, _POINTS)))
            ax.plot(y, one.pmf(y[:, None])[:, 0], ".-", label=f"row {row}")
        else:
            y = np.linspace(low, high, _POINTS)
            density, jump = one.pdf(y[:, None])[:, 0], one.cdf(y[:, None])[:, 0]
            jump -= one.cdf(np.nextafter(y, -np.inf)[:, None])[:, 0]
            has_mass = jump > _JUMP
            (line,) = ax.plot(y[~has_mass], density[~has_mass], label=f"row {row}")
            ax.plot(y[has_mass], jump[has_mass], "o", color=line.get_color())
            masses |= has_mass.any()
    density = "density (dots: probability)" if masses else "density"
    ax.set(xlabel="value", ylabel="probability" if predictive.step else density)
    ax.legend()


def _draw_intervals(predictive: Predictive, ax: Axes) -> None:
    rows = np.arange(len(predictive))
    for coverage, width in ((0.9, 1.0), (0.5, 3.0)):
        low, high = np.moveaxis(predictive.interval(coverage), -1, 0)
        ax.vlines(rows, low, high, lw=width, color="C0", label=f"{100.0 * coverage:g} % interval")
    ax.plot(rows, predictive.mean, ".", color="C1", label="mean")
    ax.set(xlabel="row", ylabel="value")
    ax.legend()


def _table(names: Sequence[str], cells: Iterable[Sequence[str]], n_rows: int) -> str:
    def line(tag: str, texts: Iterable[str]) -> str:
        inside = "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)
        return f"<tr>{inside}</tr>"

    body = "".join(line("td", row) for row in cells)
    more = f"<caption>first {MOST_ROWS} of {n_rows} rows</caption>" if n_rows > MOST_ROWS else ""
    return f"<table>{more}{line('th', names)}{body}</table>"
