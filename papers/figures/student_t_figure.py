"""The picture of a relative error, datum by datum, over phases of a fit (supplement Figure 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from papers.figures import save


def draw(stem: Path, errors: Mapping[str, Sequence[float]]) -> None:
    """Write `<stem>.png` and `<stem>.svg`: one panel for each phase, on a common logarithmic axis.

    errors
        For each phase, by name, the relative error at each datum in the order of the fit.
    """
    figure = Figure(figsize=(4.0 * len(errors), 3.0), layout="constrained")
    panels = figure.subplots(1, len(errors), sharey=True, squeeze=False)[0]
    for axes, (phase, relative) in zip(panels, errors.items(), strict=True):
        axes.plot(range(1, len(relative) + 1), relative, color="black", linewidth=1.0)
        axes.set(xlabel=f"{phase} {len(relative)} data", yscale="log")
    figure.supylabel("relative error of log Z", fontsize="medium")
    save(figure, stem)
