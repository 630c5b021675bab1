"""Figure 2 of Blundell et al. (2015): test error on MNIST as training goes on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayesprop.experiments import digit_networks, markdown, protocol
from bayesprop.experiments.digit_networks import Config
from bayesprop.experiments.protocol import Cell, Key, Progress
from bayesprop.experiments.rows import Row

NAME = "bbb-curves"
METHODS = {"sgd": "SGD", "dropout": "dropout", "bbb-mixture": "Bayes by Backprop"}


def run(
    *,
    quick: bool,
    jobs: int,
    out: Path,
    only: list[str] | None,
    seed: int,
    progress: Progress,
) -> None:
    """Take the networks of Table 1 from its folder, or train them; parts: their units."""
    config = digit_networks.quick(Config(seed=seed)) if quick else Config(seed=seed)
    cells = [
        Cell({"method": kind, "units": units}, units**2 * config.epochs_of(kind))
        for units in digit_networks.chosen_units(config, only)
        for kind in METHODS
    ]
    work = partial(fit_cell, out=out, progress=progress)
    rows = protocol.run_cells(NAME, work, config, cells, out=out, jobs=jobs, progress=progress)
    finished = protocol.all_rows(out, NAME)
    protocol.write_section(out, NAME, section(finished))
    _draw(digit_networks.largest(markdown.latest(finished)), out / NAME)
    protocol.check_all_done(rows)


def fit_cell(
    config: Config, key: Key, *, out: Path, progress: Progress | None = None
) -> dict[str, Any]:
    """Return the errors after every epoch."""
    network = digit_networks.trained(config, key["method"], key["units"], out, progress=progress)
    return {
        "test_errors": network.trace["test_error"],
        "validation_errors": network.trace["validation_error"],
    }


def _draw(rows: Sequence[Row], stem: Path) -> None:
    from bayesprop.report import curves_figure

    curves = {
        label: 100.0 * np.asarray((row.result or {})["test_errors"])
        for kind, label in METHODS.items()
        for row in rows
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
    return "\n\n".join(
        (
            "## Test error as training goes on (BBB paper, Figure 2)",
            f"The networks of {units} units of Table 1, the test error of the network of posterior "
            "means after every epoch.",
            f"![Test error by epoch for SGD, dropout and Bayes by Backprop]({NAME}.svg)",
            markdown.table(_HEADER, lines),
            "In the paper SGD falls first and then overfits, and Bayes by Backprop ends below "
            "dropout after 600 epochs; it prints no figures of these curves.",
            markdown.origin(finished) if finished else "Nothing has been run.",
        )
    ) + markdown.failures(rows)


_HEADER = ("method", "epochs", "least test error, %", "at epoch", "last test error, %")
