"""What a fit met on its way: guards that fired, the course of training, evidence, advice."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

CONSTANT_TARGET = "the target is constant: there is nothing to learn from it; check the column"
ORDER_IS_NOT_LEARNT = (
    "this method learns classes without their order, which medians, intervals and scores alone use:"
    " BayesianMLPClassifier (mlp) learns it"
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> FitReport:
        """Rebuild from `to_dict`; ValueError where it holds something else."""
        try:
            return cls(
                n_rows=int(stored["n_rows"]),
                n_epochs=int(stored["n_epochs"]),
                seconds=float(stored["seconds"]),
                n_updates=int(stored["n_updates"]),
                guards={str(k): int(v) for k, v in stored["guards"].items()},
                trace={str(k): [float(x) for x in v] for k, v in stored["trace"].items()},
                log_evidence={str(k): float(v) for k, v in stored["log_evidence"].items()},
                warnings=[str(sentence) for sentence in stored["warnings"]],
                step=str(stored["step"]),
                chains={str(k): _chain_trace(v) for k, v in stored["chains"].items()},
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a fit report: {error!r}") from None


def _chain_trace(stored: dict[str, Any]) -> ChainTrace:
    numbers = (None if x is None else float(x) for x in (stored["r_hat"], stored["ess"]))
    return ChainTrace([[float(x) for x in chain] for chain in stored["values"]], *numbers)
