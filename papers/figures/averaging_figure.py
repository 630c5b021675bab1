"""The picture of model averaging against a closed form (closed-form VI 2016, Figure 2b)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from bayesprop.report.svg import BLUE, ORANGE
from papers.figures import save


def draw(
    stem: Path,
    *,
    n_draws: Int[np.ndarray, " k"],
    errors: Float[np.ndarray, "k r"],
    closed_form: float,
) -> None:
    """Write `<stem>.png` and `<stem>.svg`: mean ± std over repeats, and the closed form's error.

    n_draws, errors
        How many networks were averaged, and the error of each of r repeats of that.
    """
    mean, std = np.mean(errors, axis=1), np.std(errors, axis=1, ddof=1)
    figure = Figure(figsize=(5.0, 3.4), layout="constrained")
    axes = figure.subplots()
    style = {"color": BLUE, "alpha": 0.18, "linewidth": 0}
    axes.fill_between(n_draws, mean - std, mean + std, label="± std over repeats", **style)
    axes.plot(n_draws, mean, "o-", color=BLUE, markersize=3.5, label="average over draws")
    axes.axhline(closed_form, color=ORANGE, linewidth=1.6, label="closed form")
    axes.set(xlabel="draws averaged", ylabel="classification error, %", xscale="log")
    axes.set(xlim=(float(np.min(n_draws)), float(np.max(n_draws))))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.legend(frameon=False, fontsize=8)
    save(figure, stem)
