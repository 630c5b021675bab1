"""The picture of a classifier of two inputs: probability and entropy over the plane."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure

from papers.figures import save

_FACE_AND_EDGE = {False: ("white", "black"), True: ("black", "white")}


class Field(NamedTuple):
    """Probability of the positive class, and the entropy in nats, at x1[i], x2[j]."""

    probability: Float[np.ndarray, "g1 g2"]
    entropy: Float[np.ndarray, "g1 g2"]


def draw(
    stem: Path,
    *,
    x1: Float[np.ndarray, " g1"],
    x2: Float[np.ndarray, " g2"],
    fields: Mapping[str, Field],
    X_train: Float[np.ndarray, "n 2"],
    positive: Bool[np.ndarray, " n"],
) -> None:
    """Write `<stem>.png` and `<stem>.svg`: a column for each method, probability over entropy.

    x1, x2
        Evenly spaced; the edges of the picture are half a step further.
    positive
        Which of the rows are of the positive class (black).
    """
    figure = Figure(figsize=(3.2 * len(fields) + 0.9, 5.6), layout="constrained")
    grid = figure.subplots(2, len(fields), sharex=True, sharey=True, squeeze=False)
    half1, half2 = (x1[1] - x1[0]) / 2.0, (x2[1] - x2[0]) / 2.0
    extent = (x1[0] - half1, x1[-1] + half1, x2[0] - half2, x2[-1] + half2)
    how = {"origin": "lower", "extent": extent, "aspect": "auto"}
    scales = (("RdBu_r", 1.0, "probability"), ("YlOrBr", float(np.log(2.0)), "entropy, nats"))
    for column, (name, field) in zip(grid.T, fields.items(), strict=True):
        column[0].set_title(name, fontsize=10)
        for axes, values, (colours, top, _) in zip(column, field, scales, strict=True):
            axes.imshow(values.T, cmap=colours, vmin=0.0, vmax=top, **how)
            for is_positive, (face, edge) in _FACE_AND_EDGE.items():
                at = X_train[positive == is_positive].T
                dot = {"markersize": 4.5, "markeredgecolor": edge, "markeredgewidth": 0.7}
                axes.plot(*at, "o", color=face, **dot)
            axes.set(xlim=extent[:2], ylim=extent[2:])
    for row, (_, _, label) in zip(grid, scales, strict=True):
        figure.colorbar(row[-1].images[0], ax=list(row), label=label, shrink=0.9)
        row[0].set_ylabel("x2")
    for axes in grid[-1]:
        axes.set_xlabel("x1")
    save(figure, stem)
