"""The compiled engine of probabilistic backpropagation: ReLU hidden layers, Gaussian noise.

It computes what `pbp.py` says, one datum at a time, and must equal it to rounding. States go in and
come out; nothing that goes in is changed. The compiled functions run without the interpreter lock,
so that threads train models side by side.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.moments import kernel_adf, kernel_gamma, kernel_predict
from bayesprop.moments.kernel_workspace import (
    Sites,
    Workspace,
    pack,
    pack_sites,
    unpack,
    unpack_sites,
)
from bayesprop.moments.pbp_state import PBPInfo, PBPState

_CHUNK_ROWS = 16_384


class _Data(NamedTuple):
    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, "n o"]
    weight: Float[np.ndarray, " n"]


def adf_pass(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    order: Int[np.ndarray, " k"],
    sample_weight: Float[np.ndarray, " n"] | None = None,
    *,
    reference: bool = False,
) -> tuple[PBPState, PBPInfo]:
    """Absorb the rows named by `order` one after the other (Hernández-Lobato & Adams 2015, sec. 3).

    x, y
        Standardised rows.
    order
        Row numbers in the order of visit; a row with weight 0 is passed over.
    sample_weight
        How many times each row counts: its noise variance is divided by the weight, and the change
        of q(gamma) multiplied by it.
    reference
        Accept noise updates that the authors' code accepts, valid or not.
    """
    data = _checked(state, x, y, sample_weight)
    work = pack(state)
    info = _pass(work, data, _checked_order(order, len(data.x)), reference=reference)
    return unpack(work, state), info


def refresh_prior(state: PBPState, *, reference: bool = False) -> tuple[PBPState, PBPInfo]:
    """Refine every weight's prior factor by expectation propagation (supplement section 6)."""
    work, sites = pack(state), pack_sites(state)
    info = _refresh(work, sites, reference=reference)
    return unpack_sites(sites, unpack(work, state)), info


def train(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    orders: Iterable[Int[np.ndarray, " k"]],
    sample_weight: Float[np.ndarray, " n"] | None = None,
    *,
    reference: bool = False,
) -> tuple[PBPState, list[PBPInfo]]:
    """Run `adf_pass` and `refresh_prior` once for every row of `orders`, an epoch each."""
    data = _checked(state, x, y, sample_weight)
    work, sites = pack(state), pack_sites(state)
    infos = []
    for order in orders:
        info = _pass(work, data, _checked_order(order, len(data.x)), reference=reference)
        infos.append(info + _refresh(work, sites, reference=reference))
    return unpack_sites(sites, unpack(work, state)), infos


def predict_moments(
    state: PBPState, x: Float[np.ndarray, "n d"], *, n_threads: int | None = None
) -> tuple[Float[np.ndarray, "n o"], Float[np.ndarray, "n o"]]:
    """Mean and variance of the noise-free outputs at standardised rows, noise not included.

    n_threads
        Threads to share the rows; None means one a core.
    """
    _check_columns("x", x, state.layer_sizes[0])
    n, n_out = len(x), state.layer_sizes[-1]
    m, v = np.empty((n, n_out)), np.empty((n, n_out))

    def predict(start: int) -> None:
        rows = slice(start, start + _CHUNK_ROWS)
        chunk = np.ascontiguousarray(x[rows], dtype=np.float64)
        kernel_predict.predict_rows(pack(state), chunk, m[rows], v[rows])

    starts = range(0, n, _CHUNK_ROWS)
    n_threads = min(len(starts), n_threads or _n_cores())
    if n_threads <= 1:
        for start in starts:
            predict(start)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(predict, starts))
    return m, v


def _n_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pass(
    work: Workspace, data: _Data, order: Int[np.ndarray, " k"], *, reference: bool
) -> PBPInfo:
    log_z, undone, kept = kernel_adf.adf_pass(work, *data, order, reference)
    return PBPInfo(log_z, weights_undone=int(undone), noise_kept=kept)


def _refresh(work: Workspace, sites: Sites, *, reference: bool) -> PBPInfo:
    return PBPInfo(prior_kept=kernel_gamma.refresh(work.weights, sites, reference))


def _checked(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    sample_weight: Float[np.ndarray, " n"] | None,
) -> _Data:
    """Return contiguous float64 arrays of matching shapes; compiled code checks no bounds."""
    sizes = state.layer_sizes
    _check_columns("x", x, sizes[0])
    _check_columns("y", y, sizes[-1])
    weight = np.ones(len(x)) if sample_weight is None else sample_weight
    if not len(x) == len(y) == len(weight):
        lengths = f"{len(x)}, {len(y)} and {len(weight)}"
        raise ValueError(f"x, y and sample_weight must have as many rows each, got {lengths}")
    data = _Data(*(np.ascontiguousarray(a, dtype=np.float64) for a in (x, y, weight)))
    if not np.all(data.weight >= 0.0) or np.isinf(data.weight).any():
        raise ValueError("sample_weight must be finite and >= 0")
    return data


def _check_columns(name: str, table: np.ndarray, n_columns: int) -> None:
    if np.ndim(table) != 2 or np.shape(table)[1] != n_columns:
        raise ValueError(f"{name} must be (n, {n_columns}), got shape {np.shape(table)}")


def _checked_order(order: Int[np.ndarray, " k"], n: int) -> Int[np.ndarray, " k"]:
    order = np.ascontiguousarray(order, dtype=np.int64)
    if order.ndim != 1 or (order.size and not 0 <= order.min() <= order.max() < n):
        raise ValueError(f"order must be row numbers, each >= 0 and < {n}")
    return order
