"""The model against each baseline and peer, row by row: how far ahead it is, and what chance does.

All losses are those of the same rows, so that what makes a row hard for all of them cancels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from bayesprop.metrics import brier_of_rows, clustered_error
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.report.baselines import SIMPLE
from bayesprop.report.words import alike, join

_MIN_ROWS = 10
_COVERAGE = 0.9


class Comparison(NamedTuple):
    """How far a mean score of the model is ahead of another's on the same rows, and its s.e."""

    gain: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether the difference exceeds two standard errors."""
        return abs(self.gain) > 2.0 * self.error


class Loss(NamedTuple):
    """A loss of every row; lower is better.

    unit
        Of the mean loss: "y", "nats" or "".
    is_root
        Whether the loss is the root of the mean of the rows.
    """

    name: str
    unit: str
    rows: Float[np.ndarray, " n"]
    is_root: bool = False


class Lead(NamedTuple):
    """By how much the model's loss is below a rival's; negative where the rival is better."""

    loss: str
    unit: str
    by: Comparison


class Rival(NamedTuple):
    """A baseline or peer; the first lead is that of a proper score of the whole distribution."""

    name: str
    leads: tuple[Lead, ...]

    @property
    def is_peer(self) -> bool:
        """Whether it is more than what any model should beat."""
        return self.name not in SIMPLE

    @property
    def winner(self) -> str:
        """Who is better by the first lead: "model", "rival", or "" where rows cannot tell."""
        by = self.leads[0].by
        return "" if not by.is_clear else "model" if by.gain > 0.0 else "rival"

    @property
    def wins(self) -> tuple[Lead, ...]:
        """Where the rival is better, beyond two standard errors."""
        return tuple(lead for lead in self.leads if lead.by.is_clear and lead.by.gain < 0.0)


def rivals(
    models: Mapping[str, Any],
    y: np.ndarray,
    group: Shaped[np.ndarray, " n"] | None = None,
) -> tuple[Rival, ...]:
    """Compare "model" with every other prediction of the same rows; none below ten rows."""
    if len(y) < _MIN_ROWS:
        return ()
    own = losses(models["model"], y)
    compared = []
    for name, other in models.items():
        pairs = zip(own, losses(other, y), strict=True)
        leads = [lead for one, two in pairs if (lead := _lead(one, two, group)) is not None]
        if name != "model" and leads:
            compared.append(Rival(name, tuple(leads)))
    return tuple(compared)


def compare(
    model: Any, baseline: Any, y: np.ndarray, group: Shaped[np.ndarray, " n"] | None = None
) -> Comparison | None:
    """Compare the mean log-likelihood of two predictives, nats a row; None below ten rows.

    group
        Labels of rows that belong together; of a single one chance cannot be told: None.
    """
    if len(y) < _MIN_ROWS:
        return None
    with np.errstate(invalid="ignore"):  # of a target that both hold impossible
        gain = model.log_prob(y) - baseline.log_prob(y)
    if not np.all(np.isfinite(gain)):
        return None
    error = clustered_error(gain, group)
    return None if np.isnan(error) else Comparison(float(np.mean(gain)), error)


def losses(predicted: Any, y: np.ndarray) -> tuple[Loss, ...]:
    """Return the losses of the task, that of the whole distribution first."""
    if isinstance(predicted, ClassPredictive):
        return (
            Loss("log loss", "nats", -predicted.log_prob(y)),
            Loss("Brier score", "", brier_of_rows(predicted, y)),
        )
    return (
        Loss("CRPS", "y", predicted.crps(y)),
        Loss("RMSE", "y", (y - predicted.mean) ** 2, is_root=True),
        Loss("interval score", "y", interval_score(predicted.interval(_COVERAGE), y, _COVERAGE)),
    )


def interval_score(
    interval: Float[np.ndarray, "n 2"], y: Float[np.ndarray, " n"], coverage: float
) -> Float[np.ndarray, " n"]:
    """Width, and 2 / (1 - coverage) times what a value is outside (Gneiting & Raftery 2007, 43)."""
    low, high = interval.T
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return high - low + 2.0 / (1.0 - coverage) * outside


def _lead(own: Loss, other: Loss, group: np.ndarray | None) -> Lead | None:
    """Subtract mean losses, with the standard error of the paired difference."""
    means = [float(np.mean(loss.rows)) for loss in (own, other)]
    each = [own.rows, other.rows]
    if own.is_root:
        means = [float(np.sqrt(mean)) for mean in means]
        # The delta method: a mean m of squares moves its root by 1 / (2 root m).
        each = [rows / (2.0 * mean or 1.0) for rows, mean in zip(each, means, strict=True)]
    with np.errstate(invalid="ignore"):  # infinite losses
        gap = each[1] - each[0]
    if not np.all(np.isfinite(gap)):
        return None
    error = clustered_error(gap, group)
    return Lead(own.name, own.unit, Comparison(means[1] - means[0], float(np.nan_to_num(error))))


def in_words(lead: Lead, unit: str = "") -> str:
    """Write a lead, whoever has it: "CRPS by 0.12 ± 0.05 MPa"."""
    gap, error = alike([abs(lead.by.gain), lead.by.error], lead.by.error, 1)
    suffix = {"nats": " nats a row", "y": f" {unit}" if unit else ""}.get(lead.unit, "")
    return f"{lead.loss} by {gap} ± {error}{suffix}"


def verdict_in_words(rival: Rival, unit: str = "") -> str:
    """Say who is better by the first lead, and where the other is, each beyond two errors."""
    peer, first = f"{rival.name} (scikit-learn)", rival.leads[0]
    wins = join([in_words(lead, unit) for lead in rival.wins])
    if rival.winner == "rival":
        return f"{peer} predicts these rows better, beyond two standard errors: {wins}"
    if rival.winner == "model":
        text = (
            f"this model predicts these rows better than {peer}, beyond two standard errors: "
            f"{in_words(first, unit)}"
        )
    else:
        text = f"by {first.loss}, this model and {peer} cannot be told apart on these rows"
    return f"{text}; {rival.name} is better in {wins}" if wins else text
