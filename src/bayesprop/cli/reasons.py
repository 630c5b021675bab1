"""Why a candidate is worth measuring, in words and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.cli.console import figure
from bayesprop.table.columns import CategoryColumn

if TYPE_CHECKING:
    from bayesprop.table.encoding import TableEncoding

FAR_STDS, FEW = 2.0, 0.05
_SHOWN_INPUTS = 3


class Worth(NamedTuple):
    """What the score of a chosen row is.

    score, alone
        When it was chosen, and on its own.
    unit
        Of both.
    share_below
        Of the candidates, those whose score on their own is lower.
    n_candidates
        All of them.
    cost
        None where nothing is known of costs.
    """

    score: float
    alone: float
    unit: str
    share_below: float
    n_candidates: int
    cost: float | None


def why(expected: str, worth: Worth, unlike: list[str]) -> str:
    """Word one reason.

    expected
        What is predicted, in words; it begins with the name of a column, which stays as it is.
    unlike
        In what the row is unlike the training rows.
    """
    others = [_worth(worth)]
    if unlike:
        others.append(f"Unlike the training rows in {'; '.join(unlike)}")
    return ". ".join([expected, *others]) + "."


def _worth(worth: Worth) -> str:
    unit = f" {worth.unit}" if worth.unit else ""
    text = f"It scores {figure(worth.alone)}{unit}, more than {_percent(worth.share_below)} of "
    text += f"the {worth.n_candidates} candidates"
    if abs(worth.score - worth.alone) > 1e-9 * abs(worth.alone):
        text += f", and {figure(worth.score)} once the rows above are measured"
    if worth.cost is not None:
        text += f"; {figure(worth.score / worth.cost)} for each unit of cost"
    return text


def _percent(share: float) -> str:
    """Round down, so that only all is 100 %."""
    return f"{np.floor(1000.0 * share) / 10.0:g} %"


def unlike_training(
    encoding: TableEncoding, scaler: Any, row: Float[np.ndarray, " k"]
) -> list[str]:
    """Say in which columns a row is far from the training rows, furthest first."""
    scale = scaler.scale
    mean = scaler.mean * scaler.unit
    if np.all(scale == 1.0) and np.all(mean == 0.0):
        return []  # the model was fitted to inputs as they are
    apart: list[tuple[float, str]] = []
    first = 0
    for column in encoding.columns:
        own = slice(first, first + len(column.feature_names))
        first = own.stop
        if isinstance(column, CategoryColumn):
            apart += _rare_level(column, row[own], mean[own])
            continue
        z = float((row[own][0] - mean[own][0]) / scale[own][0])
        if abs(z) >= FAR_STDS:
            side = "above" if z > 0.0 else "below"
            text = f"{column.name} {row[own][0]:.4g}, {abs(z):.1f} standard deviations "
            apart.append((abs(z), f"{text}{side} their mean"))
    apart.sort(key=lambda one: -one[0])
    return [text for _, text in apart[:_SHOWN_INPUTS]]


def _rare_level(
    column: CategoryColumn, row: Float[np.ndarray, " l"], shares: Float[np.ndarray, " l"]
) -> list[tuple[float, str]]:
    if not row.any():
        return [(np.inf, f"{column.name}, a level that has no column of its own")]
    place = int(np.argmax(row))
    if shares[place] > FEW:
        return []
    level = column.levels[place] if place < len(column.levels) else "missing"
    return [(1.0 / max(shares[place], 1e-9), f"{column.name} {level}, {shares[place]:.1%} of them")]
