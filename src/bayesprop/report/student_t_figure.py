"""The picture of `pbp-student-t`: relative error of log Z, datum by datum (supplement Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from bayesprop.experiments.pbp_student_t import PHASES, pictured
from bayesprop.experiments.rows import Row
from bayesprop.report.picture_files import save


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Write `<stem>.png` and `<stem>.svg`."""
    figure = Figure(figsize=(8.0, 3.0), layout="constrained")
    errors = pictured(rows)
    for axes, phase in zip(figure.subplots(1, 2, sharey=True), PHASES, strict=True):
        relative = errors[phase]
        axes.plot(np.arange(1, len(relative) + 1), relative, color="black", linewidth=1.0)
        axes.set(xlabel=f"{phase} {len(relative)} data", yscale="log")
    figure.supylabel("relative error of log Z", fontsize="medium")
    save(figure, stem)
