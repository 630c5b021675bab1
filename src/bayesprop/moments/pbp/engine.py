"""The compiled engine of probabilistic backpropagation: ReLU hidden layers, numbers or classes.

It computes what `updates.py` says, one datum at a time, and must equal it to rounding. States go in
and come out; nothing that goes in is changed. The compiled functions run without the interpreter
lock, so that threads train models side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Float, Int

from bayesprop.moments.pbp import kernel_probit
from bayesprop.moments.pbp.kernel_factors import (
    absorb_gamma,
    first_cavity,
    is_valid,
    next_noise,
    refresh_prior_factors,
)
from bayesprop.moments.pbp.kernel_layers import (
    absorb_and_propagate,
    absorb_hidden,
    absorb_outputs,
    next_row,
    prefetch_row,
    propagate,
    propagate_hidden,
    propagate_outputs,
    set_output_gradient,
)
from bayesprop.moments.pbp.kernel_probit import meet_class
from bayesprop.moments.pbp.kernel_workspace import (
    NEXT_REMOVED,
    Packed,
    pack,
    read_only,
    unpack,
    work_of,
)
from bayesprop.moments.pbp.state import (
    LEAST_INFORMATION,
    Inference,
    PBPInfo,
    PBPState,
    Targets,
    start_in_prior,
)
from bayesprop.numerics import LOG_2PI
from bayesprop.numerics.machine import side_by_side
from bayesprop.simd.lanes import compiled, inlined, prefetch

_CHUNK_ROWS = 16_384


@inlined
def absorb_noise(work, factor, k, square, weight, guarded):
    """Update q(gamma) of output k by eq. 9-10; return 1 if it had to stay as it was."""
    shape, rate = work.noise_shape[k], work.noise_rate[k]
    new_shape, new_rate = absorb_gamma(shape, rate, work.f_v[k], square)
    new_shape = shape + weight * (new_shape - shape)
    new_rate = rate + weight * (new_rate - rate)
    kept = guarded and not is_valid(new_shape, new_rate)
    if kept:
        new_shape, new_rate = shape, rate
    if factor is not None:
        new_shape, new_rate = next_noise(factor, k, shape, rate, new_shape, new_rate)
    work.noise_shape[k], work.noise_rate[k] = new_shape, new_rate
    return 1 if kept else 0


@inlined
def meet_targets(work, factor, y, row, weight, guarded, may_miss):
    """Compare the outputs with a row of y: the gradients of log Z, then the noise.

    With `may_miss`, NaN is a target that was not seen, and its output learns and teaches nothing.
    Returns log Z times the weight, the epistemic share of the outputs' variance, and how many
    q(gamma) stayed as they were.
    """
    log_z, share, kept = 0.0, 0.0, 0
    for k in range(y.shape[1]):
        if may_miss and math.isnan(y[row, k]):
            work.grad_f_m[k], work.grad_f_v[k] = 0.0, 0.0
            continue
        noise_var = work.noise_rate[k] / (work.noise_shape[k] - 1.0)
        residual, f_v = y[row, k] - work.f_m[k], work.f_v[k]
        inverse = 1.0 / (f_v + noise_var / weight)
        set_output_gradient(work, k, residual * inverse, inverse)
        square = residual * residual
        var = f_v + noise_var
        share += f_v / var
        log_z -= 0.5 * (LOG_2PI + math.log(var) + square / var)
        kept += absorb_noise(work, factor, k, square, weight, guarded)
    return weight * log_z, share / y.shape[1], kept


@compiled
def absorb_rows(work, factor, scratch, x, y, weights, order, guarded, may_miss):
    """Absorb the rows named by `order`; return log Z, epistemic shares, weights undone, noise kept.

    By assumed density filtering if `factor` is None, else by stochastic EP. The targets are numbers
    with Gaussian noise if `scratch` is None, NaN among them with `may_miss` where one was not seen,
    else classes seen through a probit. A hidden layer on the inputs absorbs a datum only when the
    next one comes, or the end.
    """
    last, n = work.layers.shape[0] - 1, order.size
    log_z, share, undone, kept, reach = 0.0, 0.0, 0.0, 0, 0.0
    if factor is not None:
        undone += first_cavity(work, factor)
    for i in range(work.v_bound.size):
        work.v_bound[i] = math.inf
    for t in range(n):
        row = order[t]
        next_reach = next_row(work, x, row)
        ahead = order[min(t + 1, n - 1)]
        prefetch_row(x, ahead)
        prefetch(y, ahead * y.shape[1])
        if t > 0 and last > 0:
            undone += absorb_and_propagate(work, factor, reach)
            for depth in range(1, last):
                propagate_hidden(work, depth)
            propagate_outputs(work, last)
        else:
            propagate(work, x, row)
        reach = next_reach
        if factor is not None and t == n - 1:
            factor.rule[NEXT_REMOVED] = 0.0
        weight = weights[row]
        if scratch is None:
            row_log_z, row_share, row_kept = meet_targets(
                work, factor, y, row, weight, guarded, may_miss
            )
            kept += row_kept
        else:
            row_log_z, row_share = meet_class(work, scratch, y, row, weight)
        log_z += row_log_z
        share += row_share
        undone += absorb_outputs(work, factor, last)
        for depth in range(last - 1, 0, -1):
            undone += absorb_hidden(work, factor, depth)
    if n > 0 and last > 0:
        next_row(work, x, order[n - 1])
        undone += absorb_and_propagate(work, factor, reach)
    return log_z, share, undone, kept


@compiled
def absorb_and_recall(work, x, y, weights, recall_weights, first, recalled, noise):
    """Absorb the row `first`, then others again, which change no noise; return as `absorb_rows`.

    y
        NaN for an output that was not seen.
    noise
        (2, o), to work with.
    """
    log_z, share, undone, kept = absorb_rows(work, None, None, x, y, weights, first, True, True)
    for k in range(noise.shape[1]):
        noise[0, k], noise[1, k] = work.noise_shape[k], work.noise_rate[k]
    _, _, more, _ = absorb_rows(work, None, None, x, y, recall_weights, recalled, True, True)
    for k in range(noise.shape[1]):
        work.noise_shape[k], work.noise_rate[k] = noise[0, k], noise[1, k]
    return log_z, share, undone + more, kept


@compiled
def refresh(weights, sites, variational, start_counts, least_information, guarded):
    """Refresh every prior factor: see `refresh_prior_factors`."""
    return refresh_prior_factors(
        weights, sites, variational, start_counts, least_information, guarded
    )


@compiled
def predict_rows(work, x, m, v):
    """Write the mean and variance of every output at every row of x."""
    for row in range(x.shape[0]):
        propagate(work, x, row)
        for k in range(m.shape[1]):
            m[row, k], v[row, k] = work.f_m[k], work.f_v[k]


def passes(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    epochs: Iterable[Iterable[Int[np.ndarray, " k"]]],
    sample_weight: Float[np.ndarray, " n"] | None = None,
    *,
    inference: Inference = "adf",
    targets: Targets = "numbers",
    guarded: bool = True,
    refreshes: bool = True,
) -> Iterator[tuple[PBPState, PBPInfo]]:
    """Yield the state after every epoch and the info of the epoch.

    x, y
        Standardised rows.
    epochs
        Orders in which each visits rows; the prior factors are refreshed after each order. A row of
        weight 0 is passed over.
    sample_weight
        How many times each row counts: its noise variance is divided by the weight, and the change
        of q(gamma) multiplied by it; a class's factor is raised to this power.
    inference
        See `updates.data_pass`.
    guarded
        False accepts updates of the noise and of the prior factors that leave no distribution, and
        believes factors of weights that no datum speaks of, as the authors' code does: for the
        tables of their paper.
    refreshes
        False leaves the prior factors as they are.
    """
    weight = np.ones(len(x)) if sample_weight is None else sample_weight
    x = checked("x", x, state.layer_sizes[0])
    y = checked("y", y, 1 if targets == "classes" else state.layer_sizes[-1])
    if not len(x) == len(y) == len(weight):
        lengths = f"{len(x)}, {len(y)} and {len(weight)}"
        raise ValueError(f"x, y and sample_weight must have as many rows each, got {lengths}")
    weight, has_absent_rows = _contiguous(weight), not np.all(weight)
    is_class = targets == "classes"
    scratch = kernel_probit.scratch_for(state.layer_sizes[-1]) if is_class else None
    packed = work, _, average = pack(state, with_average=inference == "sep")
    for orders in epochs:
        info = PBPInfo()
        for order in orders:
            order = np.ascontiguousarray(order, dtype=np.int64)
            order = read_only(order[weight[order] > 0.0] if has_absent_rows else order)
            if average is not None and len(order):
                n_removed = float(average.average.any())
                average.rule[:] = n_removed, 1.0 / len(order), n_removed
            log_z, share, undone, kept = absorb_rows(
                work, average, scratch, x, y, weight, order, guarded, False
            )
            info += PBPInfo(log_z, share, weights_undone=int(undone), noise_kept=kept)
            if refreshes:
                info += refreshed(packed, inference, targets, guarded=guarded)
        yield unpack(packed, state), info


def refreshed(
    packed: Packed,
    inference: Inference = "adf",
    targets: Targets = "numbers",
    *,
    guarded: bool = True,
) -> PBPInfo:
    """Refine the prior factors in place.

    With more than one hidden layer and the start in q, q(lambda) hears variational Bayes: what eq.
    9-10 make of the random start in one layer, the next ones learn from.
    """
    counts = not start_in_prior(inference, targets)
    variational = counts and len(packed.work.layers) > 2
    least = 0.0 if counts else LEAST_INFORMATION[targets]
    kept, uninformed = refresh(
        packed.work.weights, packed.sites, variational, counts, least, guarded
    )
    return PBPInfo(prior_kept=kept, prior_uninformed=uninformed)


def refresh_prior(
    state: PBPState,
    *,
    inference: Inference = "adf",
    targets: Targets = "numbers",
    guarded: bool = True,
) -> tuple[PBPState, PBPInfo]:
    """One full EP update of the weight-prior factors, whatever code absorbed the rows."""
    packed = pack(state)
    info = refreshed(packed, inference, targets, guarded=guarded)
    return unpack(packed, state), info


def predict_moments(
    state: PBPState, x: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, "n o"], Float[np.ndarray, "n o"]]:
    """Mean and variance of the outputs at standardised rows, noise not included."""
    x = checked("x", x, state.layer_sizes[0])
    n, n_out = len(x), state.layer_sizes[-1]
    m, v = np.empty((n, n_out)), np.empty((n, n_out))

    def predict(start: int) -> None:
        rows = slice(start, start + _CHUNK_ROWS)
        predict_rows(work_of(state), x[rows], m[rows], v[rows])

    starts = range(0, n, _CHUNK_ROWS)
    if len(starts) == 1:
        predict(0)
        return m, v
    side_by_side(predict, starts)
    return m, v


def log_class_probabilities(
    m: Float[np.ndarray, "n o"], v: Float[np.ndarray, "n o"]
) -> Float[np.ndarray, "n c"]:
    """Log Z of every class, given the outputs' moments: the predictive probabilities, nats."""
    out, scratch = np.empty((len(m), max(2, m.shape[1]))), kernel_probit.scratch_for(m.shape[1])
    kernel_probit.log_class_probabilities(_contiguous(m), _contiguous(v), scratch, out)
    return out


def expected_entropies(
    m: Float[np.ndarray, "n o"], v: Float[np.ndarray, "n o"], nodes: Float[np.ndarray, "r o"]
) -> Float[np.ndarray, " n"]:
    """Entropy of three classes or more, averaged over outputs m + sqrt(v) nodes, nats."""
    out, scratch = np.empty(len(m)), kernel_probit.scratch_for(m.shape[1])
    kernel_probit.expected_entropies(*map(_contiguous, (m, v, nodes)), scratch, out)
    return out


def checked(name: str, table: np.ndarray, n_columns: int) -> np.ndarray:
    """Return a table as compiled code takes it, which checks no bounds; ValueError for a misfit."""
    if np.ndim(table) != 2 or np.shape(table)[1] != n_columns:
        raise ValueError(f"{name} must be (n, {n_columns}), got shape {np.shape(table)}")
    return _contiguous(table)


def _contiguous(table: np.ndarray) -> np.ndarray:
    return read_only(np.ascontiguousarray(table, dtype=np.float64))
