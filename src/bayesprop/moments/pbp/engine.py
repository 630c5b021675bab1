"""The compiled engine of probabilistic backpropagation: ReLU hidden layers, numbers or classes.

It computes what `updates.py` says, one datum at a time, and must equal it to rounding. States go in
and come out; nothing that goes in is changed. The compiled functions run without the interpreter
lock, so that threads train models side by side.

Stochastic EP (Li, Hernández-Lobato & Turner 2015, algorithm 1): q is the prior times one average
factor for every datum. A datum meets the cavity, which is q without one average factor, and what it
adds to the cavity moves the average by a share of 1/n. The weights hold the cavity where assumed
density filtering has q.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Float, Int

from bayesprop.moments.pbp import probit
from bayesprop.moments.pbp.loops import (
    F_M,
    F_V,
    SMALLEST_VAR,
    M,
    V,
    absorb,
    count_tiny,
    layer_of,
    propagate,
    set_output_gradient,
)
from bayesprop.moments.pbp.state import (
    LARGEST_CAVITY_VAR,
    LEAST_INFORMATION,
    MOST_FROM_ONE_WEIGHT,
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
from bayesprop.numerics.fast_math import exp2
from bayesprop.numerics.machine import aligned_zeros, side_by_side

SITE_SHAPE, SITE_RATE, SITE_PREC, SITE_PREC_MEAN = range(2, 6)
"""Rows of `weights` after the moments: what the prior factors say of the weights."""
REMOVED, SHARE, NEXT_REMOVED = range(3)
"""Entries of `rule`."""

_LOG2_E = 1.0 / math.log(2.0)
_LARGEST_EXPONENT = 1000.0
_SMALL = 1.0 / 64.0
_CHUNK_ROWS = 16_384


@inlined
def _expm1(x):
    """exp(x) - 1 for x >= 0, the exponent clamped at 2^1000; nearly always x is small."""
    if x < _SMALL:
        square = x * x
        tail = (1.0 / 120.0 + x / 720.0) + square / 5040.0
        return x * ((1.0 + x / 2.0) + square * ((1.0 / 6.0 + x / 24.0) + square * tail))
    return exp2(min(_LOG2_E * x, _LARGEST_EXPONENT)) - 1.0


@inlined
def absorb_gamma(shape, rate, v, square):
    """Match the mean and variance of a precision that has met N(r; 0, v + 1/precision), eq. 9-10.

    The 1/precision of Z, Z1 and Z2 is rate / (shape - 1), rate / shape and rate / (shape + 1). With
    the variances v0, v1, v2 of the three, all multiplied by p = shape (shape^2 - 1),

        v0 v2 - v1^2 = gap = rate (p v + v1)
        Z Z2 / Z1^2 = v1 / sqrt(v0 v2) exp(t)        t = rate p^2 v r^2 / (v0 v1 v2)

    so that Z Z2 / Z1^2 - 1 needs no difference of nearly equal numbers, however large the shape.
    The order of the operations keeps the way from shape and rate to their new values short: the
    refresh of the next factor waits for them.
    """
    below = shape * shape - 1.0
    p = shape * below
    v1 = below * (shape * v + rate)
    gap = rate * (p * v + v1)
    v0, v2 = v1 + rate * (shape + 1.0), v1 - rate * (shape - 1.0)
    inverse = 1.0 / (v0 * v1 * v2)
    pull = square * rate * p
    t = _expm1(inverse * (pull * (p * v)))
    closer = _expm1(inverse * (pull * (0.5 * (shape + 1.0) * v2)))
    root = math.sqrt(v0 * v2)
    width = root * (root + v1)
    shrink = 1.0 / ((width - (shape + 1.0) * gap) + t * ((shape + 1.0) * (width - gap)))
    ratio = math.sqrt(v1 * v1 * v2 * inverse) * (rate * width)
    return shape * width * shrink, (ratio + ratio * closer) * shrink


@inlined
def is_valid(shape, rate):
    """Whether 1/precision has a mean: both finite, shape > 1, rate > 0."""
    return shape > 1.0 and rate > 0.0 and shape < math.inf and rate < math.inf


@called
def first_cavity(weights, noise, sep):
    """Replace q by the cavity; return how many weights have none."""
    average, _, rule = sep
    improper, n_weights = 0, weights.shape[1]
    for w in range(n_weights):
        m, v = weights[M, w], weights[V, w]
        improper += _to_cavity(weights, average, w, rule[NEXT_REMOVED], m / v, 1.0 / v)
    for k in range(noise.shape[1]):
        _to_noise_cavity(noise, average, n_weights, k, rule[NEXT_REMOVED])
    return improper


@called
def start_datum(weights, noise, sep, is_last):
    """Remember the cavity that a datum meets; after the last datum nothing is removed."""
    _, before, rule = sep
    n_weights = weights.shape[1]
    for row in range(2):
        for w in range(n_weights):
            before[row, w] = weights[row, w]
        for k in range(noise.shape[1]):
            before[row, n_weights + k] = noise[row, k]
    if is_last:
        rule[NEXT_REMOVED] = 0.0


@called
def next_cavity(weights, noise, sep):
    """Move the average factor by what a datum has added to the cavity to make it q.

    The weights become the cavity for the next datum. Returns how many have none.

    sep
        The average factor, m/v and 1/v of the weights, then shape and rate of the noise; the
        cavity; and a rule: average factors that q lacked when the datum came, the share of a new
        factor in the average, and average factors that q will lack when the next datum comes.
    """
    average, before, rule = sep
    improper, n_weights = 0, weights.shape[1]
    removed, share, next_removed = rule[REMOVED], rule[SHARE], rule[NEXT_REMOVED]
    for w in range(n_weights):
        m, v, v_before = weights[M, w], weights[V, w], before[V, w]
        both = 1.0 / (v * v_before)
        prec, prec_before = both * v_before, both * v
        mean, mean_before = m * prec, before[M, w] * prec_before
        old_mean, old = average[0, w], average[1, w]
        average[0, w] = old_mean + share * ((mean - mean_before) - removed * old_mean)
        average[1, w] = old + share * ((prec - prec_before) - removed * old)
        improper += _to_cavity(weights, average, w, next_removed, mean, prec)
    for k in range(noise.shape[1]):
        for row in range(2):
            old, added = average[row, n_weights + k], noise[row, k] - before[row, n_weights + k]
            average[row, n_weights + k] = old + share * (added - removed * old)
        _to_noise_cavity(noise, average, n_weights, k, next_removed)
    return improper


@inlined
def _to_cavity(weights, average, w, removed, prec_mean, prec):
    """Take average factors out of a weight, where that is proper; return 1 where it is not."""
    rest, mean = prec - removed * average[1, w], prec_mean - removed * average[0, w]
    proper = rest > 0.0
    rest, mean = rest if proper else prec, mean if proper else prec_mean
    m, v = weights[M, w], weights[V, w]
    there = v > SMALLEST_VAR  # else it was pruned
    weights[M, w], weights[V, w] = mean / rest if there else m, 1.0 / rest if there else v
    return 0 if proper else 1


@inlined
def _to_noise_cavity(noise, average, n_weights, k, removed):
    """Do that to q(gamma) of output k."""
    shape = noise[0, k] - removed * average[0, n_weights + k]
    rate = noise[1, k] - removed * average[1, n_weights + k]
    if is_valid(shape, rate):
        noise[0, k], noise[1, k] = shape, rate


@compiled
def refresh_prior_factors(
    layers, weights, prior, variational, start_counts, least_information, guarded
):
    """Refresh every prior factor in turn by expectation propagation (supplement section 6).

    Returns the number of factors that were not refreshed or too large, and the number of factors
    about which the data contain almost no information. The factor is a Gaussian in the weight, so
    the refreshed factor is exactly N(0, rate / (shape - 1)) of the cavity; nothing is divided by
    the cavity.

    variational
        Whether q(lambda) receives the variational update from every weight, which adds a half to
        the shape and half of E[w²] to the rate, instead of eq. 9-10. Guarded, it receives that
        update anyway from a weight that would multiply E[1 / lambda] by more than
        `MOST_FROM_ONE_WEIGHT`.
    start_counts
        Whether the random start is in q as pseudo-data: a factor exp(h w), h the first prior
        precision times a mean from N(0, 1 / inputs). In a cavity of variance v it is a mean of
        h v, which without data grows beyond all bounds. Guarded, q(lambda) receives the variational
        update where the expected square of that mean exceeds the variance v + 1 / lambda.
    least_information
        Share of its prior that the data must say about a weight for its factor to be refreshed.
    guarded
        False: the authors' code.
    """
    shape, rate = prior
    start_shape, start_rate = shape, rate
    for w in range(weights.shape[1]):
        start_shape -= weights[SITE_SHAPE, w]
        start_rate -= weights[SITE_RATE, w]
    start_prec = (start_shape - 1.0) / start_rate
    start_pull = start_prec * start_prec if guarded and start_counts else 0.0
    kept = uninformed = 0
    last = layers.shape[0] - 1
    for depth in range(last + 1):
        n_in, n_out, width, start, _ = layer_of(layers, depth)
        start_var = 1.0 / (n_in + 1) if last > 0 else 0.0
        for t in range((n_in + 1) * n_out):  # by unit, then input: the order of the paper
            w = start + (t if depth == last else t % (n_in + 1) * width + t // (n_in + 1))
            inverse = 1.0 / weights[V, w]
            prec = inverse - weights[SITE_PREC, w]
            v = 1.0 / prec
            m = v * (weights[M, w] * inverse - weights[SITE_PREC_MEAN, w])
            cavity_shape, cavity_rate = shape - weights[SITE_SHAPE, w], rate - weights[SITE_RATE, w]
            is_proper = cavity_rate > 0.0 and cavity_shape > 1.0
            site_prec = (cavity_shape - 1.0) / cavity_rate
            if guarded and is_proper and abs(prec) < least_information * site_prec:
                uninformed += 1
                continue
            if not (is_proper and 0.0 < v < LARGEST_CAVITY_VAR):
                kept += 1
                continue
            share = 1.0 / (1.0 + v * site_prec)
            new_m, new_v = m * share, v * share
            is_start = prec * (prec + site_prec) < start_pull * start_var * site_prec
            is_large, by_square = False, guarded and (variational or is_start)
            new_shape, new_rate = shape, rate
            if not by_square:
                new_shape, new_rate = absorb_gamma(cavity_shape, cavity_rate, v, m * m)
                is_small = new_rate * site_prec < MOST_FROM_ONE_WEIGHT * (new_shape - 1.0)
                is_large = guarded and not (is_small and is_valid(new_shape, new_rate))
            if by_square or is_large:
                new_shape = cavity_shape + 0.5
                new_rate = cavity_rate + 0.5 * (new_m * new_m + new_v)
            is_sound = is_valid(new_shape, new_rate) and math.isfinite(new_m) and new_v > 0.0
            if guarded and not is_sound:
                kept += 1
                continue
            uninformed += is_start
            kept += is_large
            weights[M, w], weights[V, w] = new_m, new_v
            shape, rate = new_shape, new_rate
            weights[SITE_SHAPE, w], weights[SITE_RATE, w] = shape - cavity_shape, rate - cavity_rate
            weights[SITE_PREC, w], weights[SITE_PREC_MEAN, w] = site_prec, 0.0
    prior[0], prior[1] = shape, rate
    return kept, uninformed


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
