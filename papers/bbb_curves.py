"""Figure 2 of Blundell et al. (2015): test error on MNIST as training goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from papers import digit_networks, markdown
from papers.digit_networks import Config
from papers.protocol import Experiment, Key, Scratch
from papers.rows import Row

NAME = "bbb-curves"
METHODS = {"sgd": "SGD", "dropout": "dropout", "bbb-mixture": "Bayes by Backprop"}


def fit_cell(config: Config, key: Key, scratch: Scratch) -> dict[str, Any]:
    """Return the errors after every epoch."""
    network = digit_networks.trained(config, key["method"], key["units"], scratch)
    return {
        "test_errors": network.trace["test_error"],
        "validation_errors": network.trace["validation_error"],
    }


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw the largest networks, one line a method."""
    from papers.figures import curves_figure

    curves = {
        label: 100.0 * np.asarray((row.result or {})["test_errors"])
        for kind, label in METHODS.items()
        for row in digit_networks.largest(rows)
        if row.cell["method"] == kind
    }
    if curves:
        curves_figure.draw(stem, curves=curves, limits=(0.8, 3.0) if _is_mnist(rows) else None)


def _is_mnist(rows: Sequence[Row]) -> bool:
    return rows[0].config["dataset"] == "mnist"


def section(rows: Sequence[Row]) -> str:
    """Write where the curves end."""
    finished = digit_networks.largest(markdown.latest(rows))
    lines = []
    for row in finished:
        errors = 100.0 * np.asarray((row.result or {})["test_errors"])
        lines.append(
            (
                METHODS[row.cell["method"]],
                str(len(errors)),
                f"{errors.min():.2f}",
                str(int(errors.argmin()) + 1),
                f"{errors[-1]:.2f}",
            )
        )
    units = finished[0].cell["units"] if finished else ""
    return markdown.section(NAME, rows, finished, units=units, table=markdown.table(_HEADER, lines))


_HEADER = ("method", "epochs", "least test error, %", "at epoch", "last test error, %")


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=digit_networks.units_of,
    cells=digit_networks.cells_of(METHODS),
    work=fit_cell,
    section=section,
    draw=draw,
    quick=digit_networks.QUICK,
    scratch=True,
)
