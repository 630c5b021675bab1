"""Probabilistic backpropagation as a method: passes over a table, or a stream."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import (
    FURTHEST_INPUT,
    MOST_ROWS,
    Learned,
    Progress,
    Stored,
    TrainingRows,
    WeightGaussians,
    with_noise,
)
from bayesprop.model.predictive import GaussianPredictive
from bayesprop.moments.pbp.algorithm import Engine
from bayesprop.moments.pbp.state import GammaPrior, PBPInfo, PBPState, init

if TYPE_CHECKING:
    from bayesprop.moments.pbp.stream import PBPStream

_SHARE_ROWS = 2000
_N_PAIRS = 32


@dataclass(frozen=True, eq=False)
class PBPNetwork(ABC):
    """What networks for numbers and for classes share.

    sizes
        Inputs, units of every hidden layer, outputs.
    """

    engine: Engine
    sizes: tuple[int, ...]
    n_epochs: int
    weight_prior: GammaPrior

    rows_at_once = MOST_ROWS
    furthest_input = FURTHEST_INPUT
    log_unit = 0.0

    @abstractmethod
    def start(self, rng: np.random.Generator | np.random.RandomState) -> PBPState:
        """Return the posterior of no rows; its random means break the symmetry of the units."""

    @abstractmethod
    def _targets(self, y: np.ndarray) -> Float[np.ndarray, "n o"]:
        """Return what the engine meets."""

    @abstractmethod
    def _course(self, state: PBPState, share: float) -> dict[str, float]:
        """Return what the report tells of a pass; `share` is the mean epistemic share."""

    def fit(self, rows: TrainingRows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Learn from scratch in shuffled passes."""
        start = self.start(rng)
        return self._learned(rows, start, 0, self._shuffled(rows, rng), progress)

    def resume(
        self,
        rows: TrainingRows,
        before: Learned,
        rng: np.random.RandomState,
        progress: Progress,
    ) -> Learned:
        """Learn on in as many passes again."""
        orders = self._shuffled(rows, rng)
        return self._learned(rows, before.state, before.n_iter, orders, progress)

    def absorb(
        self,
        rows: TrainingRows,
        before: Learned | None,
        rng: np.random.RandomState,
        progress: Progress,
    ) -> Learned:
        """Absorb rows once, in their order; none of them is in the average factor yet."""
        state = self.start(rng) if before is None else before.state
        n_before = 0 if before is None else before.n_iter
        orders = [np.arange(len(rows.x))]
        return self._learned(rows, state.without_average_factor(), n_before, orders, progress)

    def _shuffled(
        self, rows: TrainingRows, rng: np.random.RandomState
    ) -> Iterable[Int[np.ndarray, " k"]]:
        counted = np.flatnonzero(rows.weights)
        return (rng.permutation(counted) for _ in range(self.n_epochs))

    def _learned(
        self,
        rows: TrainingRows,
        start: PBPState,
        n_before: int,
        orders: Iterable[Int[np.ndarray, " k"]],
        progress: Progress,
    ) -> Learned:
        started, targets = time.perf_counter(), self._targets(rows.y)
        n_rows, mass = int(np.count_nonzero(rows.weights)), float(np.sum(rows.weights))
        infos: list[PBPInfo] = []
        trace: dict[str, list[float]] = {}
        state = start
        for state, info in self.engine.epochs(start, rows.x, targets, orders, rows.weight):
            infos.append(info)
            course = self._course(state, info.epistemic_share / n_rows)
            for name, value in ({"mean_log_z": info.log_z / mass} | course).items():
                trace.setdefault(name, []).append(value)
            progress.line(_line(n_before + len(infos), trace))
        guards = sum(infos, start=PBPInfo()).guards
        n_updates = len(infos) * n_rows * sum(m.size for m in start.m)
        report = FitReport(
            n_rows=len(rows.x),
            n_epochs=len(infos),
            seconds=time.perf_counter() - started,
            n_updates=n_updates,
            guards=guards,
            trace=trace,
            log_evidence={"prequential": infos[0].log_z - mass * self.log_unit},
            warnings=_advice(guards["weights_undone"], n_updates),
        )
        return self._settled(Learned(state, report, n_before + len(infos)), rows)

    def _settled(self, learned: Learned, rows: TrainingRows) -> Learned:
        """Complete the report by what only the last state tells."""
        del rows
        return learned

    def gaussians(self, state: PBPState) -> WeightGaussians:
        """Return the posterior of the weights."""
        return WeightGaussians(state.m, tuple(np.sqrt(v) for v in state.v))

    def masked(self, state: PBPState, keep: Any) -> PBPState:
        """Return the state with every weight exactly zero whose mask is False."""

        def left(layers: Any) -> Any:
            return tuple(np.where(mask, w, 0.0) for mask, w in zip(keep, layers, strict=True))

        return state._replace(m=left(state.m), v=left(state.v))

    def to_stored(self, state: PBPState) -> Stored:
        """Return all arrays of the posterior."""
        return Stored({}, state.to_arrays())

    def from_stored(self, stored: Stored) -> PBPState:
        """Rebuild what `to_stored` gave; ValueError where it does not fit this network."""
        state = PBPState.from_arrays(stored.arrays)
        n_inputs, *_, n_outputs = state.layer_sizes
        if (n_inputs, n_outputs) != (self.sizes[0], self.sizes[-1]):
            raise ValueError(
                f"the network has {n_inputs} inputs and {n_outputs} outputs, the header "
                f"{self.sizes[0]} and {self.sizes[-1]}"
            )
        return state


@dataclass(frozen=True, eq=False)
class PBPNumbers(PBPNetwork):
    """A network for numbers, whose noise has one precision an output.

    y_scale
        One standardised unit of every target, in y: the report's noise and evidence are in y.
    """

    noise_prior: GammaPrior
    y_scale: Float[np.ndarray, " o"]

    @property
    def log_unit(self) -> float:
        """Log of one standardised unit of every target, in y, summed."""
        return float(np.sum(np.log(self.y_scale)))

    def start(self, rng: np.random.Generator | np.random.RandomState) -> PBPState:
        """Return the posterior of no rows; its random means break the symmetry of the units."""
        return init(
            rng,
            self.sizes,
            weight_prior=self.weight_prior,
            noise_prior=self.noise_prior,
            start_in_prior=self.engine.inference == "sep",
        )

    def stream(self, rng: np.random.Generator, **recall: Any) -> PBPStream:
        """Return the posterior of no rows in compiled memory, to be taught row by row.

        recall
            n_recalled and recall_weight of `PBPStream`.
        """
        from bayesprop.moments.pbp.stream import PBPStream

        return PBPStream(self.start(rng), **recall)

    def _targets(self, y: np.ndarray) -> Float[np.ndarray, "n o"]:
        return y

    def _course(self, state: PBPState, share: float) -> dict[str, float]:
        noise_std = float(np.sqrt(state.noise_var[0]) * self.y_scale[0])
        return {"noise_std": noise_std, "epistemic_share": share}

    def _settled(self, learned: Learned, rows: TrainingRows) -> Learned:
        """Tell the last epistemic share as the whole table leaves it, not as rows were met."""
        seen = self.predict(learned.state, rows.x[:_SHARE_ROWS])
        learned.report.trace["epistemic_share"][-1] = seen.epistemic_share
        return learned

    def predict(self, state: PBPState, x: Float[np.ndarray, "n d"]) -> GaussianPredictive:
        """Propagate moments through the network."""
        m, v = self.engine.predict_moments(state, x)
        return GaussianPredictive(m, v, np.broadcast_to(state.noise_var, m.shape))

    def draw(
        self,
        state: PBPState,
        x: Float[np.ndarray, "n d"],
        rng: np.random.RandomState,
        n: int,
        *,
        include_noise: bool = False,
    ) -> Float[np.ndarray, "s n o"]:
        """Evaluate networks drawn from the posterior."""
        f = self.engine.sample_functions(rng, state, x, n)
        return with_noise(f, state.noise_var, rng) if include_noise else f


@dataclass(frozen=True, eq=False)
class PBPClasses(PBPNetwork):
    """A network for classes: two have one output, more have one each."""

    def start(self, rng: np.random.Generator | np.random.RandomState) -> PBPState:
        """Return the posterior of no rows.

        The random means belong to the prior, else they are pseudo-data that outweigh labels.
        """
        return init(rng, self.sizes, weight_prior=self.weight_prior, start_in_prior=True)

    def _targets(self, y: np.ndarray) -> Float[np.ndarray, "n 1"]:
        """Return signs of two classes, codes of more."""
        column = y[:, None].astype(np.float64)
        return 2.0 * column - 1.0 if self.sizes[-1] == 1 else column

    def _course(self, state: PBPState, share: float) -> dict[str, float]:
        del state
        return {"variance_removed": share}

    def predict(self, state: PBPState, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
        """Integrate the probit over the moments of the outputs."""
        from bayesprop.moments.pbp import engine
        from bayesprop.numerics import gaussian_nodes, probit_gaussian

        m, v = self.engine.predict_moments(state, x)
        proba = np.exp(engine.log_class_probabilities(m, v))
        if m.shape[1] == 1:
            entropy = np.maximum(probit_gaussian.expected_entropy(m[:, 0], v[:, 0]), 0.0)
        else:
            nodes = gaussian_nodes.gaussian_nodes(m.shape[1], _N_PAIRS)
            entropy = engine.expected_entropies(m, v, nodes)
        return ClassPredictive.of_codes(proba, entropy)


def _line(n_iter: int, trace: dict[str, list[float]]) -> str:
    latest = [f"{name.replace('_', ' ')} {values[-1]:.4g}" for name, values in trace.items()]
    return "  ".join([f"epoch {n_iter}", *latest])


def _advice(n_undone: int, n_updates: int) -> list[str]:
    """Say so where more than one weight update in a hundred was undone."""
    if n_undone <= 0.01 * n_updates:
        return []
    return [
        f"{n_undone / n_updates:.1%} of the weight updates were undone: "
        "look for extreme values in the table, or use fewer layers"
    ]
