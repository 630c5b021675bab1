"""Figure 2 of Blundell et al. (2015): test error on MNIST as training goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from papers import digit_networks, markdown
from papers.compare import Estimate
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
    networks = digit_networks.largest(rows)
    lines = []
    for same in networks:
        errors = [100.0 * np.asarray((row.result or {})["test_errors"]) for row in same]
        epochs = [str(int(each.argmin()) + 1) for each in errors]
        least = Estimate.of([each.min() for each in errors])
        last = Estimate.of([each[-1] for each in errors])
        lines.append(
            (
                METHODS[same[0].cell["method"]],
                str(len(errors[0])),
                markdown.estimate(least),
                ", ".join(epochs),
                markdown.estimate(last),
            )
        )
    finished = [row for same in networks for row in same]
    units = finished[0].cell["units"] if finished else ""
    n_seeds = max(map(len, networks), default=0)
    return markdown.section(
        NAME, rows, finished, units=units, n_seeds=n_seeds, table=markdown.table(_HEADER, lines)
    )


_HEADER = ("method", "epochs", "least test error, %", "at epoch", "last test error, %")


EXPERIMENT = digit_networks.experiment(
    METHODS, name=NAME, work=fit_cell, section=section, draw=draw
)
