"""What a fit met on its way: guards that fired, the course of training, evidence, advice."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class FitReport:
    """An account of one fit, for people and for the report page.

    n_rows, n_epochs, seconds
        Size and duration of the fit.
    n_updates
        Weight updates attempted, so that the guard counts can be read as shares.
    guards
        How often each guard fired; all zero in a healthy fit.
    trace
        One value an epoch: `mean_log_z` (nats a row, standardised units), `noise_std` (units of
        the first target), `epistemic_share` (share of the predictive variance on the training
        rows that more data would remove, 0 to 1).
    log_evidence
        Estimates of log p(y | X), nats, by name.
    advice (`warnings`)
        Sentences for a person.
    """

    n_rows: int
    n_epochs: int
    seconds: float
    n_updates: int
    guards: dict[str, int]
    trace: dict[str, list[float]]
    log_evidence: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> FitReport:
        """Rebuild from `to_dict`."""
        return cls(**stored)
