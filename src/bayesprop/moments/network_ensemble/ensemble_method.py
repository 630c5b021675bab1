"""The recipe as a method: settings by the size of the table, training, an account of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import MOST_ROWS, Learned, Progress, Stored, TrainingRows
from bayesprop.model.noise_mixture import NoiseMixturePredictive
from bayesprop.moments.network_ensemble import ensemble
from bayesprop.moments.network_ensemble.ensemble import EnsembleSettings, EnsembleState

FURTHEST_INPUT = 1e12
"""In standard deviations: networks in float32 square their inputs twice."""


@dataclass(frozen=True)
class NetworkEnsemble:
    """What the user set; None is a choice by the size of the table (`settings_for`)."""

    n_inputs: int
    n_outputs: int
    hidden_layer_sizes: tuple[int, ...] | None
    n_epochs: int | None
    n_members: int | None
    batch_size: int | None
    step_size: float
    learns_residual: bool
    learns_replicates: bool

    @property
    def furthest_input(self) -> float:
        """How many training standard deviations from the mean an input may lie."""
        return FURTHEST_INPUT

    @property
    def rows_at_once(self) -> int:
        """Rows of a prediction at a time."""
        return MOST_ROWS

    def settings(self, n_rows: int) -> EnsembleSettings:
        """Return what was set, and for the rest the choice by the table's size."""
        asked = {
            "hidden_layer_sizes": self.hidden_layer_sizes,
            "n_members": self.n_members,
            "batch_size": self.batch_size,
        }
        chosen = ensemble.settings_for(
            n_rows,
            self.n_inputs,
            **{name: value for name, value in asked.items() if value is not None},
            step_size=self.step_size,
            learns_residual=self.learns_residual,
            learns_replicates=self.learns_replicates,
        )
        if self.n_epochs is None:
            return chosen
        n_batches = max(1, round(n_rows / chosen.batch_size))
        return replace(chosen, n_steps=self.n_epochs * n_batches)

    def fit(self, rows: TrainingRows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Train all networks, and learn what they leave."""
        started, seed = time.perf_counter(), int(rng.randint(2**31))
        settings = self.settings(len(rows.x))
        state, info = ensemble.fit(
            seed,
            rows.x,
            rows.y,
            settings,
            weight=rows.weight,
            progress=partial(_show, progress) if progress.verbose else None,
        )
        report = _report(info, len(rows.x), settings.n_steps, time.perf_counter() - started)
        return Learned(state, report, settings.n_steps)

    def predict(self, state: EnsembleState, x: np.ndarray) -> NoiseMixturePredictive:
        """Predict by a mixture over networks and noise scales."""
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
        return ensemble.sample_functions(rng, state, x, n, include_noise=include_noise)

    def to_stored(self, state: EnsembleState) -> Stored:
        """Return all arrays."""
        return Stored({}, state.to_arrays())

    def from_stored(self, stored: Stored) -> EnsembleState:
        """Rebuild what `to_stored` gave; ValueError where it does not fit."""
        state = EnsembleState.from_arrays(stored.arrays)
        if (state.n_inputs, state.n_outputs) != (self.n_inputs, self.n_outputs):
            raise ValueError(
                f"the network has {state.n_inputs} inputs and {state.n_outputs} outputs, the "
                f"header {(self.n_inputs, self.n_outputs)}"
            )
        return state


def _show(progress: Progress, at: ensemble.Progress) -> None:
    """Write a line at once, since it comes from any thread."""
    progress.line(
        f"network {at.member + 1} of {at.n_members}  step {at.step} of {at.n_steps}  "
        f"loss {at.loss:.5g}  data_loss {at.data_loss:.5g}"
    )


def _advice(info: ensemble.FitInfo) -> list[str]:
    advice = []
    if info.n_independent:
        advice.append(
            f"The {info.n_independent} weights of a network stay independent of each other: they, "
            "or the outputs, are too many for a joint covariance. Error bars where no rows lie are "
            "too narrow, and what the networks leave is not learnt; smaller hidden_layer_sizes "
            "would help."
        )
    if info.are_copies:
        advice.append(
            "Rows of the same inputs have the same targets, as copies would: inputs of the table "
            "are expected to give again what they gave. If one measurement stands in the table "
            "more than once, remove its copies: they flatter held-out scores, too."
        )
    return advice


def _report(info: ensemble.FitInfo, n_rows: int, n_steps: int, seconds: float) -> FitReport:
    """Account for a fit; the traces have up to 100 stretches of steps."""
    trace: dict[str, Any] = {"loss": info.loss, "data_loss": info.data_loss}
    return FitReport(
        n_rows=n_rows,
        n_epochs=n_steps,
        seconds=seconds,
        n_updates=n_steps,
        guards={
            "dead_units": info.n_dead_units,
            "members_restarted": info.n_restarted,
            "residual_rows": info.n_residual_rows,
            "replicated_inputs": info.n_replicated,
        },
        trace={name: np.asarray(values, float).tolist() for name, values in trace.items()},
        warnings=_advice(info),
        step="step",
    )
