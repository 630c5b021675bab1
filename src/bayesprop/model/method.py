"""The interface of methods, and their optional abilities. Types only.

A method is built from hyper-parameters for one task and a number of inputs: a frozen dataclass of
pure functions of a state, in standardised units. It knows nothing of units, labels or files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.measured import TrueInputs
from bayesprop.distributions.predictive import Predictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.progress import Progress
from bayesprop.numerics.rows import Rows

if TYPE_CHECKING:
    from jaxtyping import PyTree  # which loads JAX

    from bayesprop.codec import Part
    from bayesprop.numerics.graphs import ClassNodes, Node, NumberNodes

MOST_ROWS = 131_072
"""Rows of a prediction at a time, at most: the memory of what lies between input and output."""
FURTHEST_INPUT = 1e50
"""In standard deviations: methods in float64 square their inputs."""


class Parts(NamedTuple):
    """A table larger than memory, as a method sees it.

    sample
        Some of its rows, at random.
    n_rows, total
        How many rows there are to learn, those of the sample among them, and their weight.
    n_blocks
        In which they come, at most.
    blocks
        Gives every row once, about as many at a time as the sample has, in another random order
        every time it is called. Their `group` has numbers of groups of the sample, or of its rows
        where these have no groups, and -1 elsewhere.
    """

    sample: Rows
    n_rows: int
    total: float
    n_blocks: int
    blocks: Callable[[], Iterator[Rows]]

    @property
    def passes(self) -> Iterator[Rows]:
        """Blocks without end, pass after pass."""
        return chain.from_iterable(self.blocks() for _ in count())


class Learned(NamedTuple):
    """Result of learning: the state, its report, and the number of passes or steps."""

    state: PyTree
    report: FitReport
    n_iter: int


@runtime_checkable
class Method(Protocol):
    """A way to learn from rows and to predict."""

    @property
    def rows_at_once(self) -> int:
        """Rows of a prediction at a time, so that memory stays bounded."""
        ...

    @property
    def furthest_input(self) -> float:
        """How many training standard deviations from the mean an input may lie."""
        ...

    def fit(self, rows: Rows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Learn from scratch."""
        ...

    def predict(self, state: PyTree, x: Float[np.ndarray, "n d"]) -> Predictive | ClassPredictive:
        """Predict standardised targets, or codes of classes, at standardised rows."""
        ...

    @property
    def state_kind(self) -> Part:
        """The annotation or the example by which `codec` writes and reads a state."""
        ...


@runtime_checkable
class ChecksStates(Protocol):
    """Asks more of a state in a file than its kind says."""

    def check_state(self, state: PyTree) -> None:
        """Raise ValueError for a state of another method, TypeError for one that no file holds."""
        ...


@runtime_checkable
class Drafts(Protocol):
    """Has a quicker version, by which inputs of training rows are drawn before it learns."""

    def draft(self) -> Method:
        """Return a method that learns the same in less time, and less well."""
        ...


@runtime_checkable
class LearnsMeasured(Protocol):
    """Learns from inputs with errors itself."""

    def fit_measured(
        self, rows: Rows, inputs: TrueInputs, rng: np.random.RandomState
    ) -> Learned | None:
        """Learn from measured rows and what their true inputs are; None: not with its settings."""
        ...


T = TypeVar("T")


@runtime_checkable
class KnowsGroups(Protocol):
    """Holds out rows in its fit, whole groups if rows have groups, whose effects it learns.

    By these the prediction of a known group's rows is moved.
    """

    def in_groups(
        self,
        state: PyTree,
        predicted: T,
        group: Int[np.ndarray, "n ..."],
        x: Float[np.ndarray, "n d"],
    ) -> T:
        """Return the prediction of rows of groups, by their numbers in the fit; -1: a new one."""
        ...


@runtime_checkable
class Resumes(Protocol):
    """Goes on training where an earlier fit stopped (`warm_start`)."""

    def resume(
        self, rows: Rows, before: Learned, rng: np.random.RandomState, progress: Progress
    ) -> Learned:
        """Learn on from what an earlier call left."""
        ...


@runtime_checkable
class Streams(Protocol):
    """Takes further rows into its posterior (`partial_fit`)."""

    def absorb(
        self,
        rows: Rows,
        before: Learned | None,
        rng: np.random.RandomState,
        progress: Progress,
    ) -> Learned:
        """Condition on rows, the first of a stream where there was nothing before."""
        ...


@runtime_checkable
class LearnsParts(Protocol):
    """Learns a table larger than memory from blocks of its rows."""

    def fit_parts(self, parts: Parts, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Learn from scratch, every row at least once unless the time is over."""
        ...


@runtime_checkable
class Combines(Protocol):
    """Posteriors that went on from one add in natural parameters (shards)."""

    def combined(self, parts: Sequence[Learned], powers: Sequence[float]) -> Learned:
        """Return the product of posteriors to powers that add up to 1, the prior in it once.

        With the first part a common start q0, `[q0, q1, q2]` to the powers `[-1, 1, 1]` is the
        posterior of all rows, and `[q1, prior]` to `[s, 1 - s]` has forgotten a share 1 - s of its
        rows. Where the product is no distribution, that of the first part stands; guards count it.
        """
        ...


@runtime_checkable
class Merges(Combines, Protocol):
    """A method whose likelihood factors can be multiplied, so that models merge (`merge`)."""

    def without_rows(self, learned: Learned) -> Learned:
        """Return the prior of what was learnt: the same basis and precisions, no row."""
        ...


def merged_report(
    parts: Sequence[Learned], powers: Sequence[float], guards: dict[str, int]
) -> FitReport:
    """Account for a product of posteriors: its rows are the parts' to their powers."""
    n_rows = sum(power * part.report.n_rows for part, power in zip(parts, powers, strict=True))
    return FitReport(max(round(n_rows), 0), 1, 0.0, 1, guards, {}, step="product")


@runtime_checkable
class WritesGraph(Protocol):
    """Can write its prediction as a graph of ONNX (`to_onnx`)."""

    def graph(self, state: PyTree, x: Node) -> NumberNodes | ClassNodes:
        """Predict standardised rows, as `predict` does; ValueError for settings without a graph."""
        ...


class Drawn(NamedTuple):
    """What draws functions, (s, n, o), and what draws observations instead; call one of them."""

    functions: Callable[[], Float[np.ndarray, "s n o"]]
    observations: Callable[[], Float[np.ndarray, "s n o"]]

    @classmethod
    def of(
        cls, f: Float[np.ndarray, "s n o"], noise_var: np.ndarray, rng: np.random.RandomState
    ) -> Drawn:
        """Observe drawn functions with Gaussian noise, its variances of any shape that fits."""
        noise_std = np.sqrt(noise_var)
        return cls(lambda: f, lambda: f + noise_std * rng.standard_normal(f.shape))


@runtime_checkable
class DrawsFunctions(Protocol):
    """Draws functions from its posterior (`sample_y`)."""

    def draw(
        self, state: PyTree, x: Float[np.ndarray, "n d"], rng: np.random.RandomState, n: int
    ) -> Drawn:
        """Draw n functions jointly over standardised rows."""
        ...


@runtime_checkable
class Features(Protocol):
    """Has numbers whose inner products are the posterior covariances (`posterior_features`)."""

    def features(self, state: PyTree, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n o k"]:
        """Return them at standardised rows."""
        ...


class WeightGaussians(NamedTuple):
    """Means and standard deviations of all weights, two pytrees of one structure."""

    m: PyTree
    std: PyTree


@runtime_checkable
class Prunes(Protocol):
    """Has an independent Gaussian a weight, so that weights can be removed (`prune`)."""

    def gaussians(self, state: PyTree) -> WeightGaussians:
        """Return the posterior of the weights."""
        ...

    def masked(self, state: PyTree, keep: PyTree) -> PyTree:
        """Return the state with every weight exactly zero whose mask is False."""
        ...
