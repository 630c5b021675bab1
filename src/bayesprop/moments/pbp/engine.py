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

from bayesprop.moments.pbp import probit
from bayesprop.moments.pbp.factors import (
    absorb_gamma,
    first_cavity,
    is_valid,
    next_cavity,
    refresh_prior_factors,
    start_datum,
)
from bayesprop.moments.pbp.loops import (
    F_M,
    F_V,
    M,
    V,
    absorb,
    count_tiny,
    propagate,
    set_output_gradient,
)
from bayesprop.moments.pbp.state import (
    LEAST_INFORMATION,
    Inference,
    Packed,
    PBPInfo,
    PBPState,
    Targets,
    flat,
    layout,
    start_in_prior,
    units_room,
)
from bayesprop.numerics import LOG_2PI
from bayesprop.numerics.compiled import called, compiled, disjoint, inlined
from bayesprop.numerics.machine import aligned_zeros, side_by_side

_CHUNK_ROWS = 16_384


@inlined
def _absorb_noise(noise, k, f_v, square, weight, guarded):
    """Update q(gamma) of output k by eq. 9-10; return 1 if it had to stay as it was."""
    shape, rate = noise[0, k], noise[1, k]
    new_shape, new_rate = absorb_gamma(shape, rate, f_v, square)
    new_shape = shape + weight * (new_shape - shape)
    new_rate = rate + weight * (new_rate - rate)
    if guarded and not is_valid(new_shape, new_rate):
        return 1
    noise[0, k], noise[1, k] = new_shape, new_rate
    return 0


@called
def _meet_numbers(outputs, noise, y, row, weight, guarded, may_miss):
    """Compare the outputs with a row of y: the gradients of log Z, then the noise.

    With `may_miss`, NaN is a target that was not seen, and its output learns and teaches nothing.
    Returns log Z times the weight, the epistemic share of the outputs' variance, and how many
    q(gamma) stayed as they were.
    """
    log_z, share, kept = 0.0, 0.0, 0
    for k in range(y.shape[1]):
        if may_miss and math.isnan(y[row, k]):
            set_output_gradient(outputs, k, 0.0, 0.0)
            continue
        noise_var = noise[1, k] / (noise[0, k] - 1.0)
        residual, f_v = y[row, k] - outputs[F_M, k], outputs[F_V, k]
        inverse = 1.0 / (f_v + noise_var / weight)
        set_output_gradient(outputs, k, residual * inverse, inverse)
        square = residual * residual
        var = f_v + noise_var
        share += f_v / var
        log_z -= 0.5 * (LOG_2PI + math.log(var) + square / var)
        kept += _absorb_noise(noise, k, f_v, square, weight, guarded)
    return weight * log_z, share / y.shape[1], kept


@compiled
def absorb_rows(
    layers, weights, noise, units, outputs, x, y, counts, order, guarded, may_miss, sep, label
):
    """Absorb the rows named by `order`; return log Z, epistemic shares, weights undone, noise kept.

    sep
        None for assumed density filtering; for stochastic EP what `next_cavity` takes.
    label
        None for numbers with Gaussian noise, NaN among them with `may_miss` where one was not seen;
        for classes seen through a probit what `probit.room_for` returns.
    """
    disjoint()
    mean, var = weights[M], weights[V]
    log_z, share, undone, kept, n = 0.0, 0.0, 0, 0, order.size
    if sep is not None:
        undone += first_cavity(weights, noise, sep)
    tiny = count_tiny(var)
    for t in range(n):
        row = order[t]
        propagate(layers, mean, var, units, outputs, x, row)
        if sep is not None:
            start_datum(weights, noise, sep, t == n - 1)
        if label is None:
            numbers = _meet_numbers(outputs, noise, y, row, counts[row], guarded, may_miss)
            log_z, share, kept = log_z + numbers[0], share + numbers[1], kept + numbers[2]
        else:
            sums, points = label
            classes = probit.meet_class(outputs, sums, points, y, row, counts[row])
            log_z, share = log_z + classes[0], share + classes[1]
        undone += absorb(layers, mean, var, units, outputs, tiny)
        if sep is not None:
            undone += next_cavity(weights, noise, sep)
    return log_z, share, undone, kept


@compiled
def predict_rows(layers, weights, units, outputs, x, m, v):
    """Write the mean and variance of every output at every row of x."""
    disjoint()
    mean, var = weights[M], weights[V]
    for row in range(x.shape[0]):
        propagate(layers, mean, var, units, outputs, x, row)
        for k in range(m.shape[1]):
            m[row, k], v[row, k] = outputs[F_M, k], outputs[F_V, k]


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
    n_outputs = state.layer_sizes[-1]
    is_largest = targets == "classes" and np.shape(y)[1:] == (1,)
    y = checked("y", y, 1 if is_largest else n_outputs)
    if not len(x) == len(y) == len(weight):
        lengths = f"{len(x)}, {len(y)} and {len(weight)}"
        raise ValueError(f"x, y and sample_weight must have as many rows each, got {lengths}")
    weight, has_absent_rows = _contiguous(weight), not np.all(weight)
    is_class, is_sep = targets == "classes", inference == "sep"
    packed = state.packed(with_average=is_sep)
    for orders in epochs:
        info = PBPInfo()
        for order in orders:
            order = np.ascontiguousarray(order, dtype=np.int64)
            order = order[weight[order] > 0.0] if has_absent_rows else order
            got = absorbed(packed, x, y, weight, order, is_class=is_class, guarded=guarded)
            info += got
            if refreshes:
                info += refreshed(packed, inference, targets, guarded=guarded)
        yield state.unpacked(packed), info


def absorbed(
    packed: Packed,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    weight: Float[np.ndarray, " n"],
    order: Int[np.ndarray, " k"],
    *,
    is_class: bool = False,
    guarded: bool = True,
    may_miss: bool = False,
) -> PBPInfo:
    """Absorb rows in place."""
    layers, weights, noise, _, average = packed
    sep = label = None
    if average is not None:
        removed = float(average.any())
        rule = np.array([removed, 1.0 / max(len(order), 1), removed])
        sep = average, np.empty_like(average), rule
    if is_class:
        label = probit.room_for(noise.shape[1])
    rows = x, y, weight, read_only(order)
    log_z, share, undone, kept = absorb_rows(
        layers, weights, noise, *room_for(layers), *rows, guarded, may_miss, sep, label
    )
    return PBPInfo(log_z, share, weights_undone=undone, noise_kept=kept)


def refreshed(
    packed: Packed,
    inference: Inference = "adf",
    targets: Targets = "numbers",
    *,
    guarded: bool = True,
) -> PBPInfo:
    """Refine the prior factors in place.

    With more than one hidden layer and the start in q, q(lambda) receives the variational update:
    else the random start of a layer would change, by eq. 9-10, the prior of the next layers.
    """
    counts = not start_in_prior(inference, targets)
    variational = counts and len(packed.layers) > 2
    least = 0.0 if counts else LEAST_INFORMATION[targets]
    kept, uninformed = refresh_prior_factors(
        packed.layers, packed.weights, packed.prior, variational, counts, least, guarded
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
    packed = state.packed()
    info = refreshed(packed, inference, targets, guarded=guarded)
    return state.unpacked(packed), info


def predict_moments(
    state: PBPState, x: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, "n o"], Float[np.ndarray, "n o"]]:
    """Mean and variance of the outputs at standardised rows, noise not included."""
    x = checked("x", x, state.layer_sizes[0])
    n, n_out = len(x), state.layer_sizes[-1]
    m, v = np.empty((2, n, n_out))
    layers = layout(state.layer_sizes)
    weights = flat(layers, state.m, state.v)

    def predict(start: int) -> None:
        rows = slice(start, start + _CHUNK_ROWS)
        predict_rows(layers, weights, *room_for(layers), x[rows], m[rows], v[rows])

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
    out, room = np.empty((len(m), max(2, m.shape[1]))), probit.room_for(m.shape[1])
    probit.log_class_probabilities(_contiguous(m), _contiguous(v), *room, out)
    return out


def expected_entropies(
    m: Float[np.ndarray, "n o"], v: Float[np.ndarray, "n o"], nodes: Float[np.ndarray, "r o"]
) -> Float[np.ndarray, " n"]:
    """Entropy of three classes or more, averaged over outputs m + sqrt(v) nodes, nats."""
    out, room = np.empty(len(m)), probit.room_for(m.shape[1])
    probit.expected_entropies(*map(_contiguous, (m, v, nodes)), *room, out)
    return out


def room_for(layers: Int[np.ndarray, "l 5"]) -> tuple[np.ndarray, np.ndarray]:
    """Return memory for all quantities of the hidden units, and `outputs`."""
    n_in, n_out, _, _, units = layers[-1].tolist()
    return aligned_zeros(units + units_room(n_in)), np.zeros((4, n_out))


def checked(name: str, table: np.ndarray, n_columns: int) -> np.ndarray:
    """Return a table as compiled code takes it, which checks no bounds; ValueError for a misfit."""
    if np.ndim(table) != 2 or np.shape(table)[1] != n_columns:
        raise ValueError(f"{name} must be (n, {n_columns}), got shape {np.shape(table)}")
    return _contiguous(table)


def _contiguous(table: np.ndarray) -> np.ndarray:
    return read_only(np.ascontiguousarray(table, dtype=np.float64))


def read_only(table: np.ndarray) -> np.ndarray:
    """Return a read-only view: code for arrays that may be written to would be compiled apart."""
    view = table.view()
    view.setflags(write=False)
    return view
