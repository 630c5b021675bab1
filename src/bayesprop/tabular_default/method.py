"""The recipe as a method, for numbers and for classes: settings by the table's size, an account.

What computes is compiled, and loaded when it is needed.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
from jaxtyping import Float, Int

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import Drawn, Learned, LeavesGroupsOut, Parts
from bayesprop.model.progress import Progress
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default.settings import (
    EnsembleSettings,
    settings_for,
    settings_for_classes,
)

if TYPE_CHECKING:
    from bayesprop.distributions.mixture import MixturePredictive
    from bayesprop.tabular_default.experts import ClassState, NumberState
    from bayesprop.tabular_default.fit import Classes, Numbers

DRAFT_MEMBERS, FOLDS = 2, 5
"""Networks of a draft, and at least where rows have groups: each learns four fifths of them."""

_N_TRACE = 100
_SETTINGS = "hidden_layer_sizes", "n_members", "batch_size", "step_size", "learns_processes"
FURTHEST_INPUT = 1e12
"""In standard deviations: networks in float32 square their inputs twice."""


@dataclass(frozen=True)
class Settable(LeavesGroupsOut, ABC):
    """What ensembles for numbers and for classes share; None is a choice by the table's size."""

    n_inputs: int
    hidden_layer_sizes: tuple[int, ...] | None
    n_epochs: int | None
    n_members: int | None
    batch_size: int | None
    step_size: float
    learns_processes: bool

    furthest_input = FURTHEST_INPUT
    rows_at_once = 8192  # each takes half a millisecond, and progress is reported between

    @abstractmethod
    def _by_size(self, n_rows: int) -> EnsembleSettings:
        """Return the choices by the table's size."""

    @property
    @abstractmethod
    def head(self) -> Numbers | Classes:
        """What differs by task."""

    def draft(self) -> Self:
        """Return the method with two networks of each kind at most, and nothing beside them."""
        n_members = min(DRAFT_MEMBERS, self.n_members or DRAFT_MEMBERS)
        return replace(self, n_members=n_members, learns_processes=False)

    def fit(self, rows: Rows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Train all networks, and ask rows left out."""
        return self._fit(rows, rng, progress)

    def fit_parts(self, parts: Parts, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Train all networks on blocks, and ask rows of the sample that are left out."""
        return self._fit(parts.sample, rng, progress, parts)

    def _fit(
        self,
        rows: Rows,
        rng: np.random.RandomState,
        progress: Progress,
        parts: Parts | None = None,
    ) -> Learned:
        from bayesprop.tabular_default.fit import fit

        started, seed, rows = time.perf_counter(), int(rng.randint(2**31)), rows.counted
        n_rows = len(rows.x) if parts is None else parts.n_rows
        settings = self._chosen(n_rows, rows.group, parts)
        state, info = fit(seed, rows, settings, self.head, progress=progress, parts=parts)
        report = FitReport(
            n_rows=n_rows,
            n_epochs=settings.n_steps,
            seconds=time.perf_counter() - started,
            n_updates=settings.n_steps,
            guards=info.guards,
            trace=trace(info.losses),
            warnings=[*info.advice],
            step="step",
        )
        return Learned(state, report, settings.n_steps)

    def _chosen(
        self, n_rows: int, groups: np.ndarray | None, parts: Parts | None
    ) -> EnsembleSettings:
        """Return the choices by the table's size, but for what was set.

        Where rows have groups, no member sees all of them: there are FOLDS members at least. Of a
        table larger than memory there are so many steps at least that every row is met.
        """
        by_size = self._by_size(n_rows)
        if groups is not None:
            by_size = replace(by_size, n_members=max(by_size.n_members, FOLDS))
            if self.n_members == 1:
                raise ValueError(
                    "n_members must be 2 or more where rows have groups, got 1: a group is left out"
                    " of one network and learnt by the others"
                )
            if groups.min() == groups.max():
                raise ValueError("groups must hold two different groups or more, got one")
        chosen = {name: getattr(self, name) for name in _SETTINGS}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        settings = replace(by_size, **chosen)
        n_batches = max(1, round(n_rows / settings.batch_size))
        if parts is not None:
            n_batches = -(-n_rows // settings.batch_size) + parts.n_blocks - 1
            settings = replace(settings, n_steps=max(settings.n_steps, n_batches))
        if self.n_epochs is None:
            return settings
        return replace(settings, n_steps=self.n_epochs * n_batches)


@dataclass(frozen=True)
class NetworkEnsemble(Settable):
    """The recipe for numbers."""

    n_outputs: int

    def _by_size(self, n_rows: int) -> EnsembleSettings:
        return settings_for(n_rows, self.n_inputs)

    @property
    def head(self) -> Numbers:
        """Student-t noise."""
        from bayesprop.tabular_default.fit import Numbers

        return Numbers()

    def predict(self, state: NumberState, x: np.ndarray) -> MixturePredictive:
        """Predict by a mixture over networks, a process and noise scales."""
        return state.predict(x)

    def draw(self, state: NumberState, x: np.ndarray, rng: np.random.RandomState, n: int) -> Drawn:
        """Draw functions, or with noise observations: one network each."""
        functions = partial(state.draw, np.random.default_rng(rng.randint(2**31)), x, n)
        return Drawn(functions, partial(functions, include_noise=True))

    @property
    def state_kind(self) -> type:
        """All parts."""
        from bayesprop.tabular_default.experts import NumberState

        return NumberState

    def check_state(self, state: NumberState) -> None:
        """Raise ValueError for a network of other inputs or outputs."""
        found = state.networks.n_inputs, state.networks.n_outputs
        if found != (self.n_inputs, self.n_outputs):
            raise ValueError(
                f"the network has {found[0]} inputs and {found[1]} outputs, the "
                f"header {(self.n_inputs, self.n_outputs)}"
            )


@dataclass(frozen=True)
class ClassEnsemble(Settable):
    """The recipe for classes.

    order
        Their codes from the lowest class to the highest; None: they have no order.
    """

    n_classes: int
    order: tuple[int, ...] | None = None

    def _by_size(self, n_rows: int) -> EnsembleSettings:
        return settings_for_classes(n_rows, self.n_inputs)

    def _fit(
        self,
        rows: Rows,
        rng: np.random.RandomState,
        progress: Progress,
        parts: Parts | None = None,
    ) -> Learned:
        ranks = self._ranks
        if parts is not None:
            blocks = parts.blocks
            parts = parts._replace(blocks=lambda: (b._replace(y=ranks[b.y]) for b in blocks()))
        return super()._fit(rows._replace(y=ranks[rows.y]), rng, progress, parts)

    @property
    def head(self) -> Classes:
        """A categorical likelihood, or one of ordered classes."""
        from bayesprop.tabular_default.fit import Classes

        return Classes(self.n_classes, self.order is not None)

    def predict(self, state: ClassState, x: np.ndarray) -> ClassPredictive:
        """Predict by the mixture of all networks."""
        predicted = state.predict(x)
        proba = predicted.proba[:, self._ranks]
        return ClassPredictive.of_codes(proba, predicted.expected_entropy)

    @property
    def _ranks(self) -> Int[np.ndarray, " c"]:
        """Number of every code among those that the networks learn."""
        return np.arange(self.n_classes) if self.order is None else np.argsort(self.order)

    @property
    def state_kind(self) -> type:
        """All parts."""
        from bayesprop.tabular_default.experts import ClassState

        return ClassState

    def check_state(self, state: ClassState) -> None:
        """Raise ValueError for networks of other inputs or classes."""
        if (len(state.ramps.n_knots), len(state.constant)) != (self.n_inputs, self.n_classes):
            raise ValueError(
                f"the networks must be of {self.n_inputs} inputs and {self.n_classes} classes"
            )
        is_ordered = self.order is not None and self.n_classes > 2
        if is_ordered != any(one.is_ordered for one in state.experts):
            raise ValueError("the networks must be of ordered classes where the header orders them")


def trace(losses: Float[np.ndarray, "k t 2"]) -> dict[str, list[float]]:
    """Means over members of total and data loss, nats a row, at up to 100 equal stretches."""
    means = losses.mean(axis=0, dtype=np.float64)
    parts = np.array_split(means, min(_N_TRACE, len(means)))
    loss, data_loss = np.array([part.mean(axis=0) for part in parts]).T
    return {"loss": loss.tolist(), "data_loss": data_loss.tolist()}
