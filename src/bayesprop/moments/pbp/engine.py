"""The compiled engine of probabilistic backpropagation: ReLU hidden layers, numbers or classes.

It computes what `updates.py` says, one datum at a time, and must equal it to rounding. States go in
and come out; nothing that goes in is changed. The compiled functions run without the interpreter
lock, so that threads train models side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.moments.pbp import kernel_gamma, kernel_pass, kernel_predict, kernel_probit
from bayesprop.moments.pbp.kernel_workspace import (
    pack,
    pack_average,
    pack_sites,
    unpack,
    unpack_average,
    unpack_sites,
)
from bayesprop.moments.pbp.state import (
    Inference,
    PBPInfo,
    PBPState,
    Targets,
    least_information,
)
from bayesprop.numerics.cores import n_cores

_CHUNK_ROWS = 16_384


def adf_pass(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    order: Int[np.ndarray, " k"],
    sample_weight: Float[np.ndarray, " n"] | None = None,
    *,
    reference: bool = False,
    targets: Targets = "numbers",
) -> tuple[PBPState, PBPInfo]:
    """Absorb the rows named by `order` one after the other (Hernández-Lobato & Adams 2015, sec. 3).

    x, y
        Standardised rows.
    order
        Row numbers in the order of visit; a row with weight 0 is passed over.
    sample_weight
        How many times each row counts: its noise variance is divided by the weight, and the change
        of q(gamma) multiplied by it; a class's factor is raised to this power.
    reference
        Accept noise updates that the authors' code accepts, valid or not.
    targets
        "numbers" or "classes".
    """
    data = _checked(state, x, y, sample_weight, targets)
    run = _Run(state, data, "adf", reference=reference, targets=targets)
    info = run.absorb(order)
    return run.state, info


def sep_pass(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    order: Int[np.ndarray, " k"],
    sample_weight: Float[np.ndarray, " n"] | None = None,
    *,
    reference: bool = False,
    targets: Targets = "numbers",
) -> tuple[PBPState, PBPInfo]:
    """Do as `adf_pass` does by stochastic EP (Li, Hernández-Lobato & Turner 2015).

    Each row meets q without the average likelihood factor, so that many passes do not shrink the
    variance. The first pass has no factor to remove, and only collects it.
    """
    data = _checked(state, x, y, sample_weight, targets)
    run = _Run(state, data, "sep", reference=reference, targets=targets)
    info = run.absorb(order)
    return run.state, info


def refresh_prior(
    state: PBPState, *, reference: bool = False, targets: Targets = "numbers"
) -> tuple[PBPState, PBPInfo]:
    """Refine every weight's prior factor by expectation propagation (supplement section 6)."""
    no_rows = np.empty((0, state.layer_sizes[0])), np.empty((0, state.layer_sizes[-1]))
    data = _checked(state, *no_rows, None, "numbers")
    run = _Run(state, data, "adf", reference=reference, targets=targets)
    info = run.refresh()
    return run.state, info


def epochs(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    orders: Iterable[Int[np.ndarray, " k"]],
    sample_weight: Float[np.ndarray, " n"] | None = None,
    *,
    inference: Inference = "adf",
    reference: bool = False,
    targets: Targets = "numbers",
) -> Iterator[tuple[PBPState, PBPInfo]]:
    """Yield state and info after each epoch: one pass over a row of `orders`, one prior refresh.

    Faster than calling the passes, because the state stays in the layout of the compiled code.
    """
    data = _checked(state, x, y, sample_weight, targets)
    run = _Run(state, data, inference, reference=reference, targets=targets)
    for order in orders:
        info = run.absorb(order) + run.refresh()
        yield run.state, info


def train(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    orders: Iterable[Int[np.ndarray, " k"]],
    sample_weight: Float[np.ndarray, " n"] | None = None,
    *,
    inference: Inference = "adf",
    reference: bool = False,
    targets: Targets = "numbers",
) -> tuple[PBPState, list[PBPInfo]]:
    """Run all `epochs`; return the last state and the info of each."""
    data = _checked(state, x, y, sample_weight, targets)
    run = _Run(state, data, inference, reference=reference, targets=targets)
    infos = [run.absorb(order) + run.refresh() for order in orders]
    return run.state, infos


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
        kernel_predict.predict_rows(pack(state), _frozen(x[rows]), m[rows], v[rows])

    starts = range(0, n, _CHUNK_ROWS)
    n_threads = min(len(starts), n_threads or n_cores())
    if n_threads <= 1:
        for start in starts:
            predict(start)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(predict, starts))
    return m, v


class _Data(NamedTuple):
    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, "n o"]
    weight: Float[np.ndarray, " n"]


class _Run:
    """A state in the layout of the compiled code, and the data that it learns from."""

    def __init__(
        self,
        state: PBPState,
        data: _Data,
        inference: Inference,
        *,
        reference: bool,
        targets: Targets = "numbers",
    ) -> None:
        self._start = state
        self._data = data
        self._reference = reference
        self._work = pack(state)
        self._sites = pack_sites(state)
        self._average = pack_average(state) if inference == "sep" else None
        self._least = least_information(targets)
        is_class = targets == "classes"
        self._scratch = kernel_probit.scratch_for(state.layer_sizes[-1]) if is_class else None
        self._has_absent_rows = not data.weight.all()

    def absorb(self, order: Int[np.ndarray, " k"]) -> PBPInfo:
        """Absorb the rows in that order."""
        x, y, weight = self._data
        order = _checked_order(order, len(x))
        if self._has_absent_rows:
            order = order[weight[order] > 0.0]
        if self._average is not None and len(order):
            n_removed = float(self._average.average.any())
            self._average.rule[:] = n_removed, 1.0 / len(order), n_removed
        log_z, share, undone, kept = kernel_pass.absorb_rows(
            self._work, self._average, self._scratch, x, y, weight, order, self._reference, False
        )
        return PBPInfo(log_z, share, weights_undone=int(undone), noise_kept=kept)

    def refresh(self) -> PBPInfo:
        """Refresh the prior factors."""
        kept, uninformed = kernel_gamma.refresh(
            self._work.weights, self._sites, self._least, self._reference
        )
        return PBPInfo(prior_kept=kept, prior_uninformed=uninformed)

    @property
    def state(self) -> PBPState:
        """A copy of the state as it is now."""
        state = unpack_sites(self._sites, unpack(self._work, self._start))
        return state if self._average is None else unpack_average(self._average, state)


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


def _checked(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    sample_weight: Float[np.ndarray, " n"] | None,
    targets: Targets,
) -> _Data:
    """Return contiguous float64 arrays that fit the state; compiled code checks no bounds."""
    sizes = state.layer_sizes
    _check_columns("x", x, sizes[0])
    _check_columns("y", y, 1 if targets == "classes" else sizes[-1])
    if targets == "classes":
        allowed = (-1, 1) if sizes[-1] == 1 else range(sizes[-1])
        if not np.isin(y, list(allowed)).all():
            raise ValueError(f"y must hold labels among {list(allowed)}")
    elif targets != "numbers":
        raise ValueError(f"targets must be numbers or classes for this engine, got {targets!r}")
    weight = np.ones(len(x)) if sample_weight is None else sample_weight
    if not len(x) == len(y) == len(weight):
        lengths = f"{len(x)}, {len(y)} and {len(weight)}"
        raise ValueError(f"x, y and sample_weight must have as many rows each, got {lengths}")
    data = _Data(*(_frozen(a) for a in (x, y, weight)))
    if not np.all(data.weight >= 0.0) or np.isinf(data.weight).any():
        raise ValueError("sample_weight must be finite and >= 0")
    return data


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
