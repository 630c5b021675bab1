"""The recipe as a method: settings by the size of the table, training, an account of it.

What computes is compiled, and loaded when it is needed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from jaxtyping import Float

from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import (
    MOST_ROWS,
    Learned,
    LeavesGroupsOut,
    Parts,
    Stored,
    TrainingRows,
)
from bayesprop.model.progress import Progress

if TYPE_CHECKING:
    from bayesprop.model.noise_mixture import NoiseMixturePredictive
    from bayesprop.moments.network_ensemble.ensemble import FitInfo
    from bayesprop.moments.network_ensemble.ensemble_settings import EnsembleSettings
    from bayesprop.moments.network_ensemble.ensemble_state import EnsembleState

DRAFT_MEMBERS, FOLDS = 2, 5
"""Networks of a draft, and at least where rows have groups: each learns four fifths of them."""

_N_TRACE = 100
FURTHEST_INPUT = 1e12
"""In standard deviations: networks in float32 square their inputs twice."""


@dataclass(frozen=True)
class Settable(LeavesGroupsOut):
    """What a user may set of any ensemble; None is a choice by the size of the table."""

    n_inputs: int
    hidden_layer_sizes: tuple[int, ...] | None
    n_epochs: int | None
    n_members: int | None
    batch_size: int | None
    step_size: float

    def draft(self) -> Self:
        """Return the method with two networks of each kind at most."""
        return replace(self, n_members=min(DRAFT_MEMBERS, self.n_members or DRAFT_MEMBERS))

    @property
    def furthest_input(self) -> float:
        """How many training standard deviations from the mean an input may lie."""
        return FURTHEST_INPUT

    @property
    def rows_at_once(self) -> int:
        """Rows of a prediction at a time."""
        return MOST_ROWS

    def chosen(
        self,
        by_size: EnsembleSettings,
        n_rows: int,
        groups: np.ndarray | None = None,
        parts: Parts | None = None,
    ) -> EnsembleSettings:
        """Return the choices by the table's size, but for what was set.

        Where rows have groups, no member sees all of them: there are FOLDS members at least. Of a
        table larger than memory there are so many steps at least that every row is met.
        """
        if groups is not None:
            by_size = replace(by_size, n_members=max(by_size.n_members, FOLDS))
            _check_groups(groups, self.n_members)
        asked = {
            "hidden_layer_sizes": self.hidden_layer_sizes,
            "n_members": self.n_members,
            "batch_size": self.batch_size,
            "step_size": self.step_size,
        }
        asked = {name: value for name, value in asked.items() if value is not None}
        settings = replace(by_size, **asked)
        n_batches = max(1, round(n_rows / settings.batch_size))
        if parts is not None:
            n_batches = -(-n_rows // settings.batch_size) + parts.n_blocks - 1
            settings = replace(settings, n_steps=max(settings.n_steps, n_batches))
        if self.n_epochs is None:
            return settings
        return replace(settings, n_steps=self.n_epochs * n_batches)


def _check_groups(groups: np.ndarray, n_members: int | None) -> None:
    if n_members == 1:
        raise ValueError(
            "n_members must be 2 or more where rows have groups, got 1: a group is left out of one"
            " network and learnt by the others"
        )
    if groups.min() == groups.max():
        raise ValueError("groups must hold two different groups or more, got one")


@dataclass(frozen=True)
class NetworkEnsemble(Settable):
    """The recipe for numbers."""

    n_outputs: int
    learns_processes: bool
    learns_replicates: bool

    def fit(self, rows: TrainingRows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Train all networks, and ask rows left out."""
        return self._fit(rows, rng, progress)

    def fit_parts(self, parts: Parts, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Train all networks on blocks, and ask rows of the sample that are left out."""
        return self._fit(parts.sample, rng, progress, parts)

    def _fit(
        self,
        rows: TrainingRows,
        rng: np.random.RandomState,
        progress: Progress,
        parts: Parts | None = None,
    ) -> Learned:
        from bayesprop.moments.network_ensemble import ensemble

        started, seed, rows = time.perf_counter(), int(rng.randint(2**31)), rows.counted
        n_rows = len(rows.x) if parts is None else parts.n_rows
        if rows.groups is not None and self.learns_replicates:
            raise ValueError(
                "learn_replicates must be False where rows have groups: what was measured in one"
                " says nothing of another"
            )
        by_size = ensemble.settings_for(n_rows, self.n_inputs)
        settings = replace(
            self.chosen(by_size, n_rows, rows.groups, parts),
            learns_processes=self.learns_processes,
            learns_replicates=self.learns_replicates,
        )
        state, info = ensemble.fit(
            seed,
            rows.x,
            rows.y,
            settings,
            weight=rows.weight,
            groups=rows.groups,
            progress=progress,
            parts=parts,
        )
        report = _report(info, n_rows, settings.n_steps, time.perf_counter() - started)
        return Learned(state, report, settings.n_steps)

    def predict(self, state: EnsembleState, x: np.ndarray) -> NoiseMixturePredictive:
        """Predict by a mixture over networks, a process and noise scales."""
        from bayesprop.moments.network_ensemble import ensemble

        return ensemble.predict(state, x)

    def draw(
        self,
        state: EnsembleState,
        x: np.ndarray,
        rng: np.random.RandomState,
        n: int,
        *,
        include_noise: bool = False,
    ) -> np.ndarray:
        """Draw functions, or with noise observations: one network each; (s, n, o)."""
        from bayesprop.moments.network_ensemble.function_draws import sample_functions

        return sample_functions(rng, state, x, n, include_noise=include_noise)

    def to_stored(self, state: EnsembleState) -> Stored:
        """Return all arrays."""
        return Stored({}, state.to_arrays())

    def from_stored(self, stored: Stored) -> EnsembleState:
        """Rebuild what `to_stored` gave; ValueError where it does not fit."""
        from bayesprop.moments.network_ensemble.ensemble_state import EnsembleState

        state = EnsembleState.from_arrays(stored.arrays)
        if (state.n_inputs, state.n_outputs) != (self.n_inputs, self.n_outputs):
            raise ValueError(
                f"the network has {state.n_inputs} inputs and {state.n_outputs} outputs, the "
                f"header {(self.n_inputs, self.n_outputs)}"
            )
        return state


def trace(losses: Float[np.ndarray, "k t 2"]) -> dict[str, list[float]]:
    """Means over members of total and data loss, nats a row, at up to 100 equal stretches."""
    means = losses.mean(axis=0, dtype=np.float64)
    parts = np.array_split(means, min(_N_TRACE, len(means)))
    loss, data_loss = np.array([part.mean(axis=0) for part in parts]).T
    return {"loss": loss.tolist(), "data_loss": data_loss.tolist()}


def _advice(info: FitInfo) -> list[str]:
    advice = []
    if info.n_independent:
        advice.append(
            f"The {info.n_independent} weights of a network stay independent of each other: they, "
            "or the outputs, are too many for a joint covariance. Error bars where no rows lie are "
            "too narrow, and no Gaussian process stands beside the networks; smaller "
            "hidden_layer_sizes would help."
        )
    if info.are_copies:
        advice.append(
            "Rows of the same inputs have the same targets, as copies would: inputs of the table "
            "are expected to give again what they gave. If one measurement stands in the table "
            "more than once, remove its copies: they flatter held-out scores, too."
        )
    return advice


def _report(info: FitInfo, n_rows: int, n_steps: int, seconds: float) -> FitReport:
    """Account for a fit."""
    return FitReport(
        n_rows=n_rows,
        n_epochs=n_steps,
        seconds=seconds,
        n_updates=n_steps,
        guards={
            "dead_units": info.n_dead_units,
            "members_restarted": info.n_restarted,
            "process_rows": info.n_process_rows,
            "replicated_inputs": info.n_replicated,
        },
        trace=trace(info.losses),
        warnings=_advice(info),
        step="step",
    )
