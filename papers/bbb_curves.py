"""Figure 2 of Blundell et al. (2015): test error on MNIST as training goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from papers import digit_networks, markdown
from papers.digit_networks import Config
from papers.protocol import Key, Scratch
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
    from papers.figures import lines_figure

    shares = digit_networks.of_largest(rows, METHODS, "test_errors")
    if shares:
        is_mnist = rows[0].config["dataset"] == "mnist"
        lines = {
            label: lines_figure.Line(np.arange(1, len(errors) + 1), 100.0 * errors)
            for label, errors in shares.items()
        }
        lines_figure.draw(
            stem,
            lines,
            linewidth=1.4,
            xlabel="epoch",
            ylabel="test error, %",
            xlim=(0, max(map(len, shares.values()))),
            ylim=(0.8, 3.0) if is_mnist else None,
        )


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


EXPERIMENT = digit_networks.experiment(
    METHODS, name=NAME, work=fit_cell, section=section, draw=draw
)
