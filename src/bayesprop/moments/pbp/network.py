"""Probabilistic backpropagation as a method, and which code runs it.

The compiled engine where it applies, the JAX form elsewhere: each is loaded when it is needed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypedDict

import numpy as np
from jaxtyping import Float, Float64, Int

from bayesprop.codec import UNBOUNDED
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.model.method import Drawn, Learned, WeightGaussians, merged_report
from bayesprop.model.progress import Progress
from bayesprop.moments.pbp.state import (
    Gamma,
    Inference,
    PBPInfo,
    PBPState,
    Targets,
    example,
    init,
    product,
    start_in_prior,
)
from bayesprop.moments.row_passes import Orders, RowPasses
from bayesprop.numerics.graphs import ClassNodes, Node, NumberNodes, scaled_propagated
from bayesprop.numerics.rows import Rows

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from bayesprop.moments.pbp.stream import PBPStream, StreamState

_SHARE_ROWS = 2000
_FEW_ROWS = 16  # below, a random start as pseudo-data costs log density (docs/records/pbp-notebook)
_N_PAIRS = 32


class Rule(TypedDict):
    """Settings of a pass for both implementations."""

    inference: Inference
    targets: Targets


@dataclass(frozen=True)
class Engine:
    """How rows are absorbed, and by which code.

    activation
        A name in `networks.mlp.ACTIVATIONS`.
    inference
        "adf" or "sep", see `updates.data_pass`.
    batch_size
        Rows absorbed at once; 1 is the paper's algorithm.
    name
        "auto", "kernel" or "jax".
    refresh_every
        Rows after which the factors of the prior are refined; None: all of a pass.
    guarded
        False: the authors' algorithm, see `engine.passes`.
    """

    activation: str
    inference: Inference
    batch_size: int
    name: str
    refresh_every: int | None = None
    guarded: bool = True

    def __post_init__(self) -> None:
        if not self.guarded and not (self.is_compiled and self.inference == "adf"):
            raise ValueError(
                "guarded=False is the authors' algorithm, which needs activation='relu', "
                f"inference='adf', batch_size=1 and engine='auto', got {self.activation!r}, "
                f"{self.inference!r}, {self.batch_size} and {self.name!r}; or set guarded=True"
            )
        if self.refresh_every is not None and self.inference == "sep":
            raise ValueError(
                "refresh_every must be None with inference='sep', whose average factor is of whole "
                f"passes, got {self.refresh_every!r}"
            )
        if self.name == "kernel" and not self.is_compiled:
            raise ValueError(
                "engine='kernel' runs activation='relu' with batch_size=1, got "
                f"activation={self.activation!r} and batch_size={self.batch_size}; use "
                "engine='auto'"
            )

    @property
    def is_compiled(self) -> bool:
        """Whether the numba engine runs this fit."""
        return self.predicts_compiled and self.batch_size == 1

    @property
    def predicts_compiled(self) -> bool:
        """Whether the numba engine predicts."""
        return self.activation == "relu" and self.name != "jax"

    def blocks(self, order: Int[np.ndarray, " k"]) -> list[Int[np.ndarray, " b"]]:
        """Divide a pass where the prior is refreshed."""
        size = self.refresh_every or max(len(order), 1)
        return [order[first : first + size] for first in range(0, max(len(order), 1), size)]


def _check_noise(state: PBPState) -> None:
    """Raise ValueError where updates without guards left no distribution of the noise."""
    shape, rate = state.noise_shape, state.noise_rate
    if not ((shape > 1.0) & (rate > 0.0)).all():
        raise ValueError(
            "guarded=False left no distribution of the noise (its Gamma needs shape > 1 and rate "
            f"> 0, got {shape.min():.3g} and {rate.min():.3g}): set guarded=True, or look for "
            "extreme targets"
        )


@dataclass(frozen=True, eq=False)
class PBPNetwork(RowPasses):
    """What networks for numbers and for classes share."""

    engine: Engine
    sizes: tuple[int, ...]
    n_epochs: int
    weight_prior: Gamma
    noise_prior: Gamma = Gamma()  # noqa: RUF009  (an immutable tuple)

    targets: ClassVar[Targets]

    @abstractmethod
    def _targets(self, y: np.ndarray) -> Float[np.ndarray, "n o"]:
        """Return what the engine meets."""

    def start(self, rng: np.random.Generator | np.random.RandomState) -> PBPState:
        """Return the posterior of no rows; its random means break the symmetry of the units."""
        return init(
            rng,
            self.sizes,
            weight_prior=self.weight_prior,
            noise_prior=self.noise_prior,
            start_in_prior=start_in_prior(self.engine.inference, self.targets),
        )

    def passes(
        self, rows: Rows, start: PBPState, orders: Orders
    ) -> Iterator[tuple[PBPState, PBPInfo]]:
        """Yield state and info after each epoch: a pass over the rows, and refreshes of the prior.

        One at its end, or after every few rows (section 3.4).
        """
        from bayesprop.moments.pbp import engine

        data, epochs = (rows.x, self._targets(rows.y)), map(self.engine.blocks, orders)
        rule: Rule = {"inference": self.engine.inference, "targets": self.targets}
        if self.engine.is_compiled:
            guarded = self.engine.guarded
            for state, info in engine.passes(
                start, *data, epochs, rows.weight, guarded=guarded, **rule
            ):
                if not guarded:
                    _check_noise(state)
                yield state, info
            return
        from bayesprop.moments.pbp.updates import data_pass

        activation, batch_size = self.engine.activation, self.engine.batch_size
        absorb = partial(data_pass, activation=activation, batch_size=batch_size, **rule)
        state = start
        for blocks in epochs:
            total = PBPInfo()
            for block in blocks:
                state, info = absorb(state, *data, block, rows.weight)
                state, refreshed = engine.refresh_prior(state, **rule)
                total += info + refreshed
            yield state, total

    def output_moments(
        self, state: PBPState, x: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n o"], Float[np.ndarray, "n o"]]:
        """Mean and variance of the noise-free output at standardised rows."""
        if self.engine.predicts_compiled:
            from bayesprop.moments.pbp import engine

            return engine.predict_moments(state, x)
        from bayesprop.moments.pbp import updates

        return updates.predict_moments(state, x, activation=self.engine.activation)

    def before_new_rows(self, state: PBPState) -> PBPState:
        """Return the state with no row in its average factor, where that is looked at."""
        if self.engine.inference == "adf":
            return state
        return state.without_average_factor()

    def without_rows(self, learned: Learned) -> Learned:
        """Return the prior of what was learnt: the weights' prior factors, the noise's prior."""
        state = learned.state.prior_factors(self.noise_prior)
        return Learned(state, merged_report([], [], {}), 0)

    def combined(self, parts: Sequence[Learned], powers: Sequence[float]) -> Learned:
        """Multiply what the rows of the parts say, then refresh the factors of the prior."""
        from bayesprop.moments.pbp import engine

        state, undone = product([part.state for part in parts], powers)
        rule = {"targets": self.targets, "guarded": self.engine.guarded}
        state, refreshed = engine.refresh_prior(state, **rule)
        guards = (undone + refreshed).guards
        return Learned(state, merged_report(parts, powers, guards), parts[0].n_iter)

    def guards(self, infos: list[PBPInfo]) -> dict[str, int]:
        """Count the guards that fired."""
        return sum(infos, start=PBPInfo()).guards

    def advice(self, guards: dict[str, int], n_updates: int) -> list[str]:
        """Say so where more than one weight update in a hundred was undone."""
        n_undone = guards["weights_undone"]
        if n_undone <= 0.01 * n_updates:
            return []
        return [
            f"{n_undone / n_updates:.1%} of the weight updates were undone: "
            "look for extreme values in the table, or use fewer layers"
        ]

    def gaussians(self, state: PBPState) -> WeightGaussians:
        """Return the posterior of the weights."""
        return WeightGaussians(state.m, tuple(map(np.sqrt, state.v)))

    def masked(self, state: PBPState, keep: PyTree) -> PBPState:
        """Return the state with every weight exactly zero whose mask is False."""

        def left(layers: PyTree) -> PyTree:
            return tuple(np.where(mask, w, 0.0) for mask, w in zip(keep, layers, strict=True))

        return state._replace(m=left(state.m), v=left(state.v))

    @property
    def state_kind(self) -> PBPState:
        """A state of the shapes of this network."""
        return example(self.sizes)


@dataclass(frozen=True, eq=False)
class PBPNumbers(PBPNetwork):
    """A network for numbers, whose noise has one precision an output.

    y_scale
        One standardised unit of every target, in y: the report's noise is in y.
    log_unit
        Its log, summed over targets, for the report's evidence.
    """

    y_scale: Float[np.ndarray, " o"] = field(kw_only=True)
    log_unit: float = field(kw_only=True)

    targets = "numbers"

    def stream_start(self, rng: np.random.Generator, n_recalled: int) -> StreamState:
        """Return a stream that has met no row."""
        from bayesprop.moments.pbp.stream import StreamState

        return StreamState.of(self.start(rng), n_recalled)

    def stream_kind(self, n_recalled: int) -> StreamState:
        """Return the example by which the state of a stream is read from a file."""
        from bayesprop.moments.pbp.stream import StreamState

        n_rows, x, y = n_recalled + 1, self.sizes[0], self.sizes[-1]
        inputs, targets = (Float64[np.ndarray, f"{n_rows} {n}"] for n in (x, y))
        kinds: Any = self.state_kind, inputs, Annotated[targets, UNBOUNDED], int
        return StreamState(*kinds)

    def stream(self, start: StreamState, recall_weight: float) -> PBPStream:
        """Return a stream in compiled memory, to be taught row by row."""
        from bayesprop.moments.pbp.stream import PBPStream

        return PBPStream(start, recall_weight=recall_weight)

    def _targets(self, y: np.ndarray) -> Float[np.ndarray, "n o"]:
        return y

    def fit(self, rows: Rows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Learn from scratch; of few rows, from random means that the first refresh removes.

        Few rows do not outweigh random means that count as pseudo-data: q(lambda) grows with them.
        """
        start = self.start(rng)
        if self.engine.guarded and rows.weights.sum() < _FEW_ROWS:
            pulls = tuple(p * m for p, m in zip(start.site_prec, start.m, strict=True))
            start = start._replace(site_prec_mean=pulls)
        return self._shuffled(rows, start, 0, rng, progress)

    def course(self, state: PBPState, info: PBPInfo, n_rows: int) -> dict[str, float]:
        """Return the noise, in y, and the mean epistemic share."""
        noise_std = float(np.sqrt(state.noise_var[0]) * self.y_scale[0])
        return {"noise_std": noise_std, "epistemic_share": info.epistemic_share / n_rows}

    def settled(self, learned: Learned, rows: Rows) -> Learned:
        """Tell the last epistemic share as the whole table leaves it, not as rows were met."""
        seen = self.predict(learned.state, rows.x[:_SHARE_ROWS])
        learned.report.trace["epistemic_share"][-1] = seen.epistemic_share
        return learned

    def predict(self, state: PBPState, x: Float[np.ndarray, "n d"]) -> GaussianPredictive:
        """Propagate moments through the network."""
        m, v = self.output_moments(state, x)
        return GaussianPredictive(m, v, np.broadcast_to(state.noise_var, m.shape))

    def graph(self, state: PBPState, x: Node) -> NumberNodes:
        """Write `predict` as a graph of ONNX; ValueError for an activation without one."""
        mean, var = scaled_propagated(state.m, state.v, x, self.engine.activation)
        return NumberNodes(mean, var, state.noise_var)

    def draw(
        self, state: PBPState, x: Float[np.ndarray, "n d"], rng: np.random.RandomState, n: int
    ) -> Drawn:
        """Evaluate networks drawn from the posterior."""
        from bayesprop.moments.pbp.updates import sample_functions

        f = sample_functions(rng, state, x, n, activation=self.engine.activation)
        return Drawn.of(f, state.noise_var, rng)


@dataclass(frozen=True, eq=False)
class PBPClasses(PBPNetwork):
    """A network for classes: two have one output, more have one each."""

    targets = "classes"

    def _targets(self, y: np.ndarray) -> Float[np.ndarray, "n 1"]:
        """Return signs of two classes, codes of more."""
        column = y[:, None].astype(np.float64)
        return 2.0 * column - 1.0 if self.sizes[-1] == 1 else column

    def course(self, state: PBPState, info: PBPInfo, n_rows: int) -> dict[str, float]:
        """Return the mean share of the outputs' variance that a label removed."""
        del state
        return {"variance_removed": info.epistemic_share / n_rows}

    def predict(self, state: PBPState, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
        """Integrate the probit over the moments of the outputs."""
        from bayesprop.moments.pbp import engine
        from bayesprop.numerics.gaussian_logits import gaussian_nodes

        m, v = self.output_moments(state, x)
        if m.shape[1] == 1:
            return _signs(m, v).target(0)
        nodes = gaussian_nodes(m.shape[1], _N_PAIRS)
        proba = np.exp(engine.log_class_probabilities(m, v))
        return ClassPredictive.of_codes(proba, engine.expected_entropies(m, v, nodes))

    def graph(self, state: PBPState, x: Node) -> ClassNodes:
        """Write `predict` as a graph of ONNX; ValueError for an activation without one."""
        from bayesprop.numerics.gaussian_logits import multinomial_probit_graph, probit_graph

        m, v = scaled_propagated(state.m, state.v, x, self.engine.activation)
        if self.sizes[-1] == 1:
            return probit_graph(m, v)
        return multinomial_probit_graph(m, v, self.sizes[-1], _N_PAIRS)


@dataclass(frozen=True, eq=False)
class PBPLabels(PBPNetwork):
    """A network for several labels of a row, each 0 or 1 and independent given its own output."""

    targets = "classes"
    course = PBPClasses.course

    def _targets(self, y: np.ndarray) -> Float[np.ndarray, "n o"]:
        """Return signs."""
        return 2.0 * y - 1.0

    def predict(self, state: PBPState, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
        """Integrate the probits over the moments of the outputs."""
        return _signs(*self.output_moments(state, x))


def _signs(m: Float[np.ndarray, "n o"], v: Float[np.ndarray, "n o"]) -> ClassPredictive:
    """Predict the sign of every output plus unit noise."""
    from bayesprop.moments.pbp import engine
    from bayesprop.numerics.gaussian_logits import probit_entropy

    proba = np.exp(engine.log_class_probabilities(m.reshape(-1, 1), v.reshape(-1, 1)))
    entropy = np.maximum(probit_entropy(m.ravel(), v.ravel()), 0.0)
    return ClassPredictive.of_codes(proba.reshape(*m.shape, 2), entropy.reshape(m.shape))
