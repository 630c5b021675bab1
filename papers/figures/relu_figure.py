"""The picture of a Gaussian behind a ReLU, and of its approximation (closed-form VI, Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy import special

from bayesprop.report.svg import BLUE, ORANGE
from papers.figures import save


class Rectified(NamedTuple):
    """Mean and variance of a Gaussian before the ReLU, and those of what leaves it."""

    m: float
    v: float
    relu_m: float
    relu_v: float


def draw(stem: Path, *, cases: Sequence[Rectified]) -> None:
    """Write `<stem>.png` and `<stem>.svg`: one panel a case, in rows of three.

    The true distribution is a point mass at zero, drawn as a bar of that probability, and the
    positive part of the Gaussian; the approximation is the Gaussian of its moments.
    """
    n_rows = -(-len(cases) // 3)
    figure = Figure(figsize=(2.7 * 3, 2.2 * n_rows + 0.3), layout="constrained")
    panels = figure.subplots(n_rows, 3, squeeze=False).ravel()
    for axes, case in zip(panels, cases, strict=False):
        std, relu_std = np.sqrt(case.v), np.sqrt(case.relu_v)
        low = min(-0.5 * std, case.relu_m - 3.0 * relu_std)
        high = max(case.m + 3.5 * std, case.relu_m + 3.0 * relu_std)
        positive, both = np.linspace(0.0, high, 300), np.linspace(low, high, 400)
        mass = special.ndtr(-case.m / std)
        axes.plot(positive, _density(positive, case.m, std), color=BLUE, label="true")
        axes.plot([0.0, 0.0], [0.0, mass], color=BLUE, linewidth=3.0, solid_capstyle="butt")
        matched = _density(both, case.relu_m, relu_std)
        axes.plot(both, matched, "--", color=ORANGE, label="moments matched")
        axes.set(xlim=(low, high), ylim=(0.0, None))
        axes.set_title(f"N({case.m:g}, {case.v:g}), P(0) = {mass:.2f}", fontsize=9)
    for axes in panels[len(cases) :]:
        axes.set_axis_off()
    panels[0].legend(frameon=False, fontsize=7)
    save(figure, stem)


def _density(x: np.ndarray, m: float, std: float) -> np.ndarray:
    return np.exp(-0.5 * ((x - m) / std) ** 2) / (std * np.sqrt(2.0 * np.pi))
