"""Report of a fit: guards that fired, training curves, evidence, advice."""

from __future__ import annotations

from dataclasses import dataclass, field

CONSTANT_TARGET = "the target is constant: there is nothing to learn from it; check the column"
ORDER_IS_NOT_LEARNT = (
    "this method learns classes without their order, which medians, intervals and scores alone use:"
    " BayesianClassifier (default) learns it"
)


@dataclass(frozen=True)
class ChainTrace:
    """One quantity in the course of several Markov chains.

    values
        Of every chain, of equal length; perhaps not every draw.
    r_hat, ess
        Potential scale reduction and effective number of draws, of all of them; None where there
        is none.
    """

    values: list[list[float]]
    r_hat: float | None = None
    ess: float | None = None


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
        One value an epoch, or for each of fewer stretches of equal length: `mean_log_z` (nats a
        row, standardised units), `noise_std` (units of the first target), `epistemic_share` (share
        of the predictive variance on the training rows that more data would remove, 0 to 1).
    log_evidence
        Estimates of log p(y | X), nats, by name.
    advice (`warnings`)
        Sentences for a person.
    step
        What `n_epochs` counts.
    chains
        Of a method that draws by Markov chains, what they went through, by name.
    """

    n_rows: int
    n_epochs: int
    seconds: float
    n_updates: int
    guards: dict[str, int]
    trace: dict[str, list[float]]
    log_evidence: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    step: str = "epoch"
    chains: dict[str, ChainTrace] = field(default_factory=dict)
