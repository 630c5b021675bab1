"""The compiled engine of probabilistic backpropagation: ReLU hidden layers, numbers or classes.

It computes what `updates.py` says, one datum at a time, and must equal it to rounding. States go in
and come out; nothing that goes in is changed. The compiled functions run without the interpreter
lock, so that threads train models side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Float, Int

from bayesprop.moments.pbp import kernel_gamma, kernel_pass, kernel_probit
from bayesprop.moments.pbp.kernel_workspace import pack, pack_work, unpack
from bayesprop.moments.pbp.state import (
    Inference,
    PBPInfo,
    PBPState,
    Targets,
    least_information,
)
from bayesprop.numerics.cores import n_cores

_CHUNK_ROWS = 16_384


class Run:
    """A state in the layout of the compiled code, and the rows that it learns from.

    Parameters
    ----------
    state : PBPState
        Where it begins.
    x, y : arrays
        Standardised rows.
    sample_weight : array or None
        How many times each row counts: its noise variance is divided by the weight, and the change
        of q(gamma) multiplied by it; a class's factor is raised to this power.
    inference : {"adf", "sep"}
        Assumed density filtering (Hernández-Lobato & Adams 2015, section 3), or stochastic EP (Li,
        Hernández-Lobato & Turner 2015): each row meets q without the average likelihood factor, so
        that many passes do not shrink the variance. The first pass only collects that factor.
    targets : {"numbers", "classes"}
        What a row of y is.
    guarded : bool
        False accepts updates of the noise and of the prior factors that leave no distribution, and
        refreshes factors of weights that no datum speaks of, as the authors' code does: for the
        tables of their paper.
    """

    def __init__(
        self,
        state: PBPState,
        x: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, "n o"],
        sample_weight: Float[np.ndarray, " n"] | None = None,
        *,
        inference: Inference = "adf",
        targets: Targets = "numbers",
        guarded: bool = True,
    ) -> None:
        weight = np.ones(len(x)) if sample_weight is None else sample_weight
        _check_rows(state, x, y, weight, targets)
        self._rows = tuple(_frozen(a) for a in (x, y, weight))
        self._has_absent_rows = not np.all(weight)
        self._start, self._packed = state, pack(state, with_average=inference == "sep")
        self._least, self._guarded = least_information(targets), guarded
        is_class = targets == "classes"
        self._scratch = kernel_probit.scratch_for(state.layer_sizes[-1]) if is_class else None

    def absorb(self, order: Int[np.ndarray, " k"]) -> PBPInfo:
        """Absorb the rows named by `order`, one after another; a row of weight 0 is passed over."""
        x, y, weight = self._rows
        order = _checked_order(order, len(x))
        if self._has_absent_rows:
            order = order[weight[order] > 0.0]
        work, average = self._packed.work, self._packed.average
        if average is not None and len(order):
            n_removed = float(average.average.any())
            average.rule[:] = n_removed, 1.0 / len(order), n_removed
        log_z, share, undone, kept = kernel_pass.absorb_rows(
            work, average, self._scratch, x, y, weight, order, self._guarded, False
        )
        return PBPInfo(log_z, share, weights_undone=int(undone), noise_kept=kept)

    def refresh(self) -> PBPInfo:
        """Refine every weight's prior factor by expectation propagation (supplement section 6)."""
        kept, uninformed = kernel_gamma.refresh(
            self._packed.work.weights, self._packed.sites, self._least, self._guarded
        )
        return PBPInfo(prior_kept=kept, prior_uninformed=uninformed)

    def epochs(self, orders: Iterable[Int[np.ndarray, " k"]]) -> Iterator[PBPInfo]:
        """Yield the info of each epoch: one pass over a row of `orders`, one prior refresh."""
        for order in orders:
            yield self.absorb(order) + self.refresh()

    @property
    def state(self) -> PBPState:
        """A copy of the state as it is now."""
        return unpack(self._packed, self._start)


def predict_moments(
    state: PBPState, x: Float[np.ndarray, "n d"], *, n_threads: int | None = None
) -> tuple[Float[np.ndarray, "n o"], Float[np.ndarray, "n o"]]:
    """Mean and variance of the outputs at standardised rows, noise not included.

    n_threads
        Threads that share the rows; None means one a core.
    """
    _check_columns("x", x, state.layer_sizes[0])
    n, n_out = len(x), state.layer_sizes[-1]
    m, v = np.empty((n, n_out)), np.empty((n, n_out))

    def predict(start: int) -> None:
        rows = slice(start, start + _CHUNK_ROWS)
        kernel_pass.predict_rows(pack_work(state), _frozen(x[rows]), m[rows], v[rows])

    starts = range(0, n, _CHUNK_ROWS)
    n_threads = min(len(starts), n_threads or n_cores())
    if n_threads <= 1:
        for start in starts:
            predict(start)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(predict, starts))
    return m, v


def log_class_probabilities(
    m: Float[np.ndarray, "n o"], v: Float[np.ndarray, "n o"]
) -> Float[np.ndarray, "n c"]:
    """Log Z of every class, given the outputs' moments: the predictive probabilities, nats."""
    out = np.empty((len(m), max(2, m.shape[1])))
    kernel_probit.log_class_probabilities(*_outputs(m, v), out)
    return out


def expected_entropies(
    m: Float[np.ndarray, "n o"], v: Float[np.ndarray, "n o"], nodes: Float[np.ndarray, "r o"]
) -> Float[np.ndarray, " n"]:
    """Entropy of three classes or more, averaged over outputs m + sqrt(v) nodes, nats."""
    out = np.empty(len(m))
    m, v, scratch = _outputs(m, v)
    kernel_probit.expected_entropies(m, v, _frozen(nodes), scratch, out)
    return out


def _outputs(m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
    return _frozen(m), _frozen(v), kernel_probit.scratch_for(m.shape[1])


def _check_rows(
    state: PBPState, x: np.ndarray, y: np.ndarray, weight: np.ndarray, targets: Targets
) -> None:
    """Raise ValueError where rows do not fit the state; compiled code checks no bounds."""
    n_in, n_out = state.layer_sizes[0], state.layer_sizes[-1]
    if targets not in ("numbers", "classes"):
        raise ValueError(f"targets must be numbers or classes for this engine, got {targets!r}")
    _check_columns("x", x, n_in)
    _check_columns("y", y, 1 if targets == "classes" else n_out)
    if targets == "classes":
        allowed = (-1, 1) if n_out == 1 else range(n_out)
        if not np.isin(y, list(allowed)).all():
            raise ValueError(f"y must hold labels among {list(allowed)}")
    if not len(x) == len(y) == len(weight):
        lengths = f"{len(x)}, {len(y)} and {len(weight)}"
        raise ValueError(f"x, y and sample_weight must have as many rows each, got {lengths}")
    if not np.all(np.greater_equal(weight, 0.0)) or np.isinf(weight).any():
        raise ValueError("sample_weight must be finite and >= 0")


def _frozen(table: np.ndarray) -> np.ndarray:
    """Return a contiguous float64 view or copy that is read-only.

    Always read-only, because code for arrays that may be written to would be compiled apart, and
    shared memory comes either way.
    """
    view = np.ascontiguousarray(table, dtype=np.float64).view()
    view.setflags(write=False)
    return view


def _check_columns(name: str, table: np.ndarray, n_columns: int) -> None:
    if np.ndim(table) != 2 or np.shape(table)[1] != n_columns:
        raise ValueError(f"{name} must be (n, {n_columns}), got shape {np.shape(table)}")


def _checked_order(order: Int[np.ndarray, " k"], n: int) -> Int[np.ndarray, " k"]:
    order = np.ascontiguousarray(order, dtype=np.int64)
    # Negative numbers are large ones once unsigned.
    if order.ndim != 1 or (order.size and order.view(np.uint64).max() >= n):
        raise ValueError(f"order must be row numbers, each >= 0 and < {n}")
    return order
