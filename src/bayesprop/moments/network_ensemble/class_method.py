"""The recipe for classes as a method: settings by the size of the table, training, an account.

What computes is compiled, and loaded when it is needed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import Learned, Parts, Stored, TrainingRows
from bayesprop.model.progress import Progress
from bayesprop.moments.network_ensemble.ensemble_method import Settable, trace

if TYPE_CHECKING:
    from bayesprop.moments.network_ensemble.class_ensemble import ClassState


@dataclass(frozen=True)
class ClassEnsemble(Settable):
    """The recipe for classes.

    order
        Their codes from the lowest class to the highest; None: they have no order.
    """

    n_classes: int
    order: tuple[int, ...] | None = None

    def fit(self, rows: TrainingRows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Train all networks, and weigh them by rows left out."""
        return self._fit(rows, rng, progress)

    def fit_parts(self, parts: Parts, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Train all networks on blocks, and weigh them by rows of the sample that are left out."""
        ranks = self._ranks

        def ranked() -> Iterator[TrainingRows]:
            return (block._replace(y=ranks[block.y]) for block in parts.blocks())

        return self._fit(parts.sample, rng, progress, parts._replace(blocks=ranked))

    def _fit(
        self,
        rows: TrainingRows,
        rng: np.random.RandomState,
        progress: Progress,
        parts: Parts | None = None,
    ) -> Learned:
        from bayesprop.moments.network_ensemble import class_ensemble
        from bayesprop.moments.network_ensemble.ensemble_settings import settings_for_classes

        started, seed = time.perf_counter(), int(rng.randint(2**31))
        rows = rows.counted
        n_rows = len(rows.x) if parts is None else parts.n_rows
        by_size = settings_for_classes(n_rows, self.n_inputs)
        settings = self.chosen(by_size, n_rows, rows.groups, parts)
        state, info = class_ensemble.fit(
            seed,
            rows.x,
            self._ranks[rows.y],
            self.n_classes,
            settings,
            weight=rows.weight,
            groups=rows.groups,
            progress=progress,
            is_ordered=self.order is not None,
            parts=parts,
        )
        report = FitReport(
            n_rows=n_rows,
            n_epochs=settings.n_steps,
            seconds=time.perf_counter() - started,
            n_updates=settings.n_steps,
            guards={"dead_units": info.n_dead_units},
            trace=trace(info.losses),
            step="step",
        )
        return Learned(state, report, settings.n_steps)

    def predict(self, state: ClassState, x: np.ndarray) -> ClassPredictive:
        """Predict by the mixture of all networks."""
        from bayesprop.moments.network_ensemble import class_ensemble

        doubtful = class_ensemble.predict(state, x)
        return ClassPredictive.of_codes(doubtful.proba[:, self._ranks], doubtful.entropy)

    @property
    def _ranks(self) -> Int[np.ndarray, " c"]:
        """Number of every code among those that the networks learn."""
        return np.arange(self.n_classes) if self.order is None else np.argsort(self.order)

    def to_stored(self, state: ClassState) -> Stored:
        """Return all arrays."""
        return Stored({}, state.to_arrays())

    def from_stored(self, stored: Stored) -> ClassState:
        """Rebuild what `to_stored` gave; ValueError where it does not fit."""
        from bayesprop.moments.network_ensemble.class_ensemble import ClassState

        state = ClassState.from_arrays(stored.arrays, self.n_inputs)
        if len(state.constant) != self.n_classes:
            raise ValueError(
                f"the networks have {len(state.constant)} classes, the header {self.n_classes}"
            )
        is_ordered = self.order is not None and self.n_classes > 2
        if is_ordered != any(family.is_ordered for family in state.kinds):
            raise ValueError("the networks must be of ordered classes where the header orders them")
        return state
