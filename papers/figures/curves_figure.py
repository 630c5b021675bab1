"""The picture of an error in the course of training (Bayes by Backprop 2015, Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from bayesprop.report.svg import BLUE, INK, ORANGE
from papers.figures import save

_STYLES = ((BLUE, "-"), (ORANGE, "--"), (INK, ":"), ("0.5", "-."))


def draw(
    stem: Path,
    *,
    curves: Mapping[str, Float[np.ndarray, " e"]],
    limits: tuple[float, float] | None = None,
) -> None:
    """Write `<stem>.png` and `<stem>.svg`: one line a method.

    curves
        By method, the error after every epoch; at most four, of any lengths.
    limits
        Ends of the axis of errors; None: all of them.
    """
    figure = Figure(figsize=(5.0, 3.4), layout="constrained")
    axes = figure.subplots()
    for (name, errors), (colour, line) in zip(curves.items(), _STYLES, strict=False):
        epochs = np.arange(1, len(errors) + 1)
        axes.plot(epochs, errors, line, color=colour, linewidth=1.4, label=name)
    axes.set(xlabel="epoch", ylabel="test error, %", xlim=(0, max(map(len, curves.values()))))
    if limits is not None:
        axes.set_ylim(*limits)
    axes.legend(frameon=False, fontsize=8)
    save(figure, stem)
