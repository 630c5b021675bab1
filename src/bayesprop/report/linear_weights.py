"""The weights of a linear model as lines of a table, the surest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bayesprop.report.words import alike

MAX_LINES = 20


class WeightLine(NamedTuple):
    """One weight, in the target's unit (or in logits) per unit of its column.

    of
        The class whose logit it belongs to; "" for a regressor.
    low, high
        Bounds of the central 90 % of its posterior.
    """

    of: str
    column: str
    mean: float
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def texts(self) -> list[str]:
        """Mean, low and high with as many decimals as the interval deserves."""
        return alike([self.mean, self.low, self.high], (self.high - self.low) / 3.0)


class Weights(NamedTuple):
    """The lines of the table, and how many less sure ones it leaves out."""

    lines: tuple[WeightLine, ...]
    n_more: int

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes that have weights of their own, in the order of the lines."""
        return tuple(dict.fromkeys(line.of for line in self.lines if line.of))


def weights_of(estimator: Any, names: Sequence[str]) -> Weights | None:
    """Return the weights but for intercepts; None where the estimator has no table of them.

    names
        What the page calls the columns of X.
    """
    if not hasattr(estimator, "weights"):
        return None
    table = estimator.weights(coverage=0.9)
    classes = table["class"] if "class" in table else np.full(len(table["mean"]), "")
    # By place, not by name: a column may be called "intercept", too. A basis has its own columns.
    n_columns = len(classes) // len(set(classes.tolist()))
    columns = [str(name) for name in table["feature"][1:n_columns]]
    columns = list(names) if len(columns) == len(names) else columns
    with np.errstate(divide="ignore", invalid="ignore"):
        sureness = np.nan_to_num(np.abs(table["mean"]) / table["std"])
    order = [i for i in np.argsort(-sureness, kind="stable") if i % n_columns]
    lines = tuple(
        WeightLine(
            str(classes[i]),
            columns[i % n_columns - 1],
            *(float(table[part][i]) for part in ("mean", "lower", "upper")),
        )
        for i in order[:MAX_LINES]
    )
    return Weights(lines, len(order) - len(lines)) if lines else None
