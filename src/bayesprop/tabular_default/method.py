"""The recipe as a method, for numbers and for classes: settings by the table's size, an account.

What computes is compiled, and loaded when it is needed.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from jaxtyping import Float, Int

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import Drawn, Learned, Parts
from bayesprop.model.progress import Progress
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default.piecewise_linear import MANY_INPUTS, N_QUANTILES, has_ramps
from bayesprop.tabular_default.settings import EnsembleSettings, Priors

if TYPE_CHECKING:
    from bayesprop.distributions.mixture import MixturePredictive
    from bayesprop.distributions.predictive import Prediction
    from bayesprop.tabular_default.experts import ClassState, NumberState
    from bayesprop.tabular_default.fit import Classes, Numbers

DRAFT_MEMBERS, FOLDS = 2, 5
"""Networks of a draft, and at least where rows have groups: each learns four fifths of them."""

_N_TRACE = 100
_SETTINGS = (
    *("hidden_layer_sizes", "n_members", "batch_size", "step_size"),
    *("learns_processes", "are_exchangeable"),
)
FURTHEST_INPUT = 1e12
"""In standard deviations: networks in float32 square their inputs twice."""


FEW_ROWS, FEW_ROWS_PRIORS = 150, Priors(mean=0.25, noise=1.0, last_noise=0.1)
MANY_ROWS, VERY_MANY_ROWS = 5_000, 30_000
WIDE_STEPS, WIDE_STEPS_OF_CLASSES = 4_000, 200
"""Steps where the table has more columns than rows."""
STEPS_OF_PICTURES = 8_000
"""Steps to classes where it has many of both."""
MOST_TIMES_STEPS = 4
"""As many steps to classes, at most, where rows are many."""
ROWS_OF_ALL_STEPS, LEAST_SHARE_OF_STEPS = 2_000, 0.25
"""Fewer rows with ramps get their share of the steps to classes, and so much at least."""


def settings_for(n_rows: int, n_inputs: int = 1, **overrides: Any) -> EnsembleSettings:
    """Choose sizes by the number of rows and inputs; each can be overridden by name.

    Up to 5000 rows one hidden layer of 50, six members and batches of 64; then two layers, two
    members and batches of 128; beyond 30 000 rows two layers of 100. Below 150 rows a linear model
    beside the network, and narrower priors: wide ones are narrowed by rows alone. A table of more
    columns than rows gets a fifth of the steps: so many weights of which the rows say nothing
    outweigh the rows if training goes on.
    """
    chosen: dict[str, Any] = {"n_steps": WIDE_STEPS} if n_inputs > n_rows else {}
    if n_rows < FEW_ROWS:
        chosen |= {"is_direct": True, "priors": FEW_ROWS_PRIORS}
    if n_rows >= MANY_ROWS:
        chosen |= {"hidden_layer_sizes": (50, 50), "batch_size": 128, "n_members": 2}
    if n_rows >= VERY_MANY_ROWS:
        chosen["hidden_layer_sizes"] = (100, 100)
    return EnsembleSettings(**(chosen | overrides))


def settings_for_classes(n_rows: int, n_inputs: int) -> EnsembleSettings:
    """Sizes that fit a table of classes; `n_members` counts those of one family.

    Where inputs with ramps are many or may outnumber the rows, fewer steps are as good.
    Of a table without ramps the families are two starts of two. Steps grow in proportion to the
    rows from 500 to 2000 of them, and beyond 5000, where networks have two layers.
    """
    n_steps = 4_000 if N_QUANTILES * n_inputs <= min(n_rows, MANY_INPUTS) else 2_000
    n_steps *= min(max(n_rows / ROWS_OF_ALL_STEPS, LEAST_SHARE_OF_STEPS), 1.0)
    if not has_ramps(n_rows, n_inputs):
        n_steps = STEPS_OF_PICTURES if n_inputs <= n_rows else WIDE_STEPS_OF_CLASSES
    return EnsembleSettings(
        hidden_layer_sizes=(64, 64) if n_rows > MANY_ROWS else (64,),
        n_members=8 if n_rows < 1_000 else 5,
        n_steps=round(n_steps * min(max(n_rows / MANY_ROWS, 1.0), MOST_TIMES_STEPS)),
        batch_size=64 if n_rows < 1_000 else 128,
    )


@dataclass(frozen=True)
class Settable(ABC):
    """What ensembles for numbers and for classes share; None is a choice by the table's size."""

    n_inputs: int
    hidden_layer_sizes: tuple[int, ...] | None
    n_epochs: int | None
    n_members: int | None
    batch_size: int | None
    step_size: float
    learns_processes: bool
    are_exchangeable: bool

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

    def fit_parts(self, parts: Parts, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Train all networks on blocks, and ask rows of the sample that are left out."""
        return self.fit(parts.sample, rng, progress, parts)

    def fit(
        self,
        rows: Rows,
        rng: np.random.RandomState,
        progress: Progress,
        parts: Parts | None = None,
    ) -> Learned:
        """Train all networks, and ask rows left out."""
        from bayesprop.tabular_default.fit import fit

        if rows.group is not None:
            from bayesprop.tabular_default.group_effects import check_levels

            check_levels(rows.group)
        started, seed, given = time.perf_counter(), int(rng.randint(2**31)), rows.counted
        rows = given.by_first_factor
        n_rows = len(rows.x) if parts is None else parts.n_rows
        settings = self._chosen(n_rows, rows.group, parts)
        state, info = fit(seed, rows, settings, self.head, progress=progress, parts=parts)
        if rows.group is not None and parts is None and progress.is_over:
            progress.cut("no effects of groups")
        elif rows.group is not None and parts is None:
            draws = np.random.default_rng([state.seed % 2**32, 9])
            state = state.with_groups(given, info.left_out, self.rows_at_once, draws)
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

    def in_groups(
        self,
        state: Any,
        predicted: Any,
        group: Int[np.ndarray, "n ..."],
        x: Float[np.ndarray, "n d"],
    ) -> Prediction:
        """Move the prediction of rows by the effects of their groups."""
        return state.in_groups(predicted, group, x)

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

    def fit(
        self,
        rows: Rows,
        rng: np.random.RandomState,
        progress: Progress,
        parts: Parts | None = None,
    ) -> Learned:
        """Train all networks on the numbers of codes in order, and ask rows left out."""
        ranks = self._ranks
        if parts is not None:
            blocks = parts.blocks
            parts = parts._replace(blocks=lambda: (b._replace(y=ranks[b.y]) for b in blocks()))
        return super().fit(rows._replace(y=ranks[rows.y]), rng, progress, parts)

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

    def in_groups(
        self,
        state: ClassState,
        predicted: ClassPredictive,
        group: Int[np.ndarray, "n ..."],
        x: Float[np.ndarray, "n d"],  # noqa: ARG002
    ) -> ClassPredictive:
        """Move the prediction of rows, whose classes are in the order of the codes."""
        ranked = replace(predicted, proba=predicted.proba[:, np.argsort(self._ranks)])
        moved = state.in_groups(ranked, group)
        return replace(moved, proba=moved.proba[:, self._ranks])

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
