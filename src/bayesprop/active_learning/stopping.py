"""When to stop measuring: rules that read the history of a learner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One `teach`.

    n_new, n_rows
        Rows of this step, and of all until then.
    cost
        Of the measurements; where none was given, their number.
    top_score
        Largest score among the candidates of the query before it, in the unit of the acquisition;
        None if there was none.
    log_likelihood
        Mean log density or probability of the new values before they were learnt, nats a row;
        None where nothing had been learnt, or it was not finite.
    seconds
        Of the update.
    """

    n_new: int
    n_rows: int
    cost: float
    top_score: float | None
    log_likelihood: float | None
    seconds: float


Rule = Callable[[Sequence[Step]], str | None]
"""From the history to the reason for stopping, in words; None to go on."""


@dataclass(frozen=True)
class EnoughRows:
    """Stop at so many rows."""

    n_rows: int

    def __call__(self, history: Sequence[Step]) -> str | None:
        """Return the reason, or None."""
        if not history or history[-1].n_rows < self.n_rows:
            return None
        return f"{history[-1].n_rows} rows are learnt, {self.n_rows} were asked for"


@dataclass(frozen=True)
class BudgetSpent:
    """Stop once the costs add up to the budget."""

    budget: float

    def __call__(self, history: Sequence[Step]) -> str | None:
        """Return the reason, or None."""
        spent = sum(step.cost for step in history)
        return f"{spent:g} of {self.budget:g} are spent" if spent >= self.budget else None


@dataclass(frozen=True)
class LittleToLearn:
    """Stop when no candidate has scored above `score` in the last `patience` queries."""

    score: float
    patience: int = 1

    def __call__(self, history: Sequence[Step]) -> str | None:
        """Return the reason, or None."""
        asked = [step.top_score for step in history if step.top_score is not None]
        last = asked[-self.patience :]
        if len(last) < self.patience or max(last) > self.score:
            return None
        return f"no candidate of the last {self.patience} scored above {self.score:g}"


Saved = EnoughRows | BudgetSpent | LittleToLearn
"""The rules that a file can hold."""
