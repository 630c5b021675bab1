"""Why a candidate is worth measuring, in words and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.cli.console import figure
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.table.columns import CategoryColumn
from bayesprop.table.read import class_text

if TYPE_CHECKING:
    from bayesprop.model.predictive import Predictive
    from bayesprop.table.read import TableEncoding

FAR_STDS, FEW = 2.0, 0.05
_SHOWN_INPUTS, _SHOWN_CLASSES = 3, 3


class Scored(NamedTuple):
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
        None where nothing was said of costs.
    """

    score: float
    alone: float
    unit: str
    share_below: float
    n_candidates: int
    cost: float | None


def why(
    predicted: Predictive | ClassPredictive,
    scored: Scored,
    unlike: list[str],
    *,
    target: str,
    unit: str,
) -> str:
    """Word one reason.

    predicted
        For this row alone.
    unlike
        In what it is unlike the training rows.
    target, unit
        What is predicted.
    """
    is_class = isinstance(predicted, ClassPredictive)
    expected = _class_expected(predicted) if is_class else _expected(predicted, unit)  # type: ignore[arg-type]
    sentences = [f"{target} would be {expected}", _worth(scored)]
    if unlike:
        sentences.append(f"unlike the training rows in {'; '.join(unlike)}")
    said, *others = sentences  # the first begins with the name of a column, which stays as it is
    return ". ".join([said, *(other[:1].upper() + other[1:] for other in others)]) + "."


def _expected(predicted: Predictive, unit: str) -> str:
    parts = (predicted.mean, predicted.std, predicted.epistemic_var, predicted.noise_var)
    mean, std, epistemic_var, noise_var = (float(part[0]) for part in parts)
    return (
        f"{figure(mean)} ± {figure(std)}{' ' * bool(unit)}{unit}: "
        f"± {figure(np.sqrt(epistemic_var))} is what the model does not know, "
        f"± {figure(np.sqrt(noise_var))} is noise"
    )


def _class_expected(predicted: ClassPredictive) -> str:
    proba = predicted.proba[0]
    likeliest = np.argsort(-proba, kind="stable")[:_SHOWN_CLASSES]
    labels = predicted.classes.tolist()
    shares = [f"{class_text(labels[k])} ({proba[k]:.0%})" for k in likeliest]
    return (
        f"{' or '.join(shares)}: {figure(float(predicted.entropy[0]))} nats of doubt, of which "
        f"more data would remove {figure(float(predicted.mutual_information[0]))}"
    )


def _worth(scored: Scored) -> str:
    unit = f" {scored.unit}" if scored.unit else ""
    text = f"it scores {figure(scored.alone)}{unit}, more than {_percent(scored.share_below)} of "
    text += f"the {scored.n_candidates} candidates"
    if abs(scored.score - scored.alone) > 1e-9 * abs(scored.alone):
        text += f", and {figure(scored.score)} once the rows above are measured"
    if scored.cost is not None:
        text += f"; {figure(scored.score / scored.cost)} for each unit of cost"
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
    found: list[tuple[float, str]] = []
    first = 0
    for column in encoding.columns:
        own = slice(first, first + len(column.feature_names))
        first = own.stop
        if isinstance(column, CategoryColumn):
            found += _rare_level(column, row[own], mean[own])
            continue
        z = float((row[own][0] - mean[own][0]) / scale[own][0])
        if abs(z) >= FAR_STDS:
            side = "above" if z > 0.0 else "below"
            text = f"{column.name} {row[own][0]:.4g}, {abs(z):.1f} standard deviations "
            found.append((abs(z), f"{text}{side} their mean"))
    found.sort(key=lambda one: -one[0])
    return [text for _, text in found[:_SHOWN_INPUTS]]


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
