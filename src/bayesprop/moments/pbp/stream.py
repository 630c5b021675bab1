"""A PBP posterior that stays in the compiled layout between rows: for streams of single rows.

It computes what `engine` does, without copying the state in and out at every call, and draws
functions at a few inputs without drawing the weights.

The weights into a unit are independent Gaussians, so that what the unit computes at k inputs, the
rows of X, is jointly Gaussian,

    a ~ N(s X m, s² X diag(v) X')        s = 1/sqrt(number of inputs, bias included)

and given the drawn inputs of the next layer, so are its units: k normals a unit instead of one a
weight, and the same distribution.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Float, Float64

from bayesprop.codec import UNBOUNDED
from bayesprop.moments.pbp.engine import absorb_and_recall, checked, predict_rows, refreshed
from bayesprop.moments.pbp.kernel_layers import n_blocks
from bayesprop.moments.pbp.kernel_workspace import (
    BLOCK,
    N_OUT,
    N_ROWS,
    PAIR,
    WEIGHTS,
    pack,
    read_only,
    unpack,
)
from bayesprop.moments.pbp.state import PBPInfo, PBPState
from bayesprop.simd.lanes import (
    compiled,
    inlined,
    load8,
    select,
    spread8,
    spread_at,
    store,
    total,
)
from bayesprop.simd.normals import roots

_MOST_JOINT = 64
_CHUNK_DRAWS = 128
_LEAST_PIVOT = 1e-13
"""What is left of a variance, as a share of it, below which it counts as rounding."""


class StreamState(NamedTuple):
    """The posterior, and a ring of the last rows: the next one, and those it will recall.

    y
        NaN where there is no row yet, and for an output that was not seen.
    n_seen
        Rows that it has met.
    """

    posterior: PBPState
    x: Float64[np.ndarray, "r d"]
    y: Annotated[Float64[np.ndarray, "r o"], UNBOUNDED]
    n_seen: int

    @classmethod
    def of(cls, posterior: PBPState, n_recalled: int) -> StreamState:
        """Return a stream that has met no row."""
        n_in, *_, n_out = posterior.layer_sizes
        size = n_recalled + 1
        return cls(posterior, np.zeros((size, n_in)), np.full((size, n_out), np.nan), 0)

    def validate(self) -> None:
        """Raise ValueError unless there are as many rows as the stream has met."""
        is_there, is_row = np.arange(len(self.y)) < self.n_seen, ~np.isnan(self.y).all(axis=1)
        if self.n_seen < 0 or np.isinf(self.y).any() or (is_there != is_row).any():
            raise ValueError("the stored rows must be numbers")


class PBPStream:
    """A posterior of a ReLU network that meets numbers with Gaussian noise, one row after another.

    Every row is absorbed by assumed density filtering (Hernández-Lobato & Adams 2015, section 3),
    and then the rows before it once more, newest first. The noise learns from the first visit
    alone: rows that were absorbed before fit better than new ones will.

    Parameters
    ----------
    start : StreamState
        Where it begins, standardised; never changed. Each new row recalls all others of the ring.
    recall_weight : float
        How many times a row counts when it is recalled.

    Attributes
    ----------
    n_seen : int
        Rows that it has met.
    """

    def __init__(self, start: StreamState, *, recall_weight: float = 1.0) -> None:
        self._like, self.layer_sizes = start.posterior, start.posterior.layer_sizes
        self._packed = pack(start.posterior)
        self._x, self._y, self.n_seen = start.x.copy(), start.y.copy(), start.n_seen
        size, n_out = self._y.shape
        self._rows = read_only(self._x), read_only(self._y)
        places = np.arange(size)
        self._orders = (places[:, None] - places) % size
        self._weights = read_only(np.ones(size)), read_only(np.full(size, float(recall_weight)))
        self._noise = np.empty((2, n_out))
        self._width = max(BLOCK * (units // BLOCK + 1) for units in self.layer_sizes[:-1])

    @property
    def state(self) -> StreamState:
        """A copy of the stream as it is now."""
        posterior = unpack(self._packed, self._like)
        return StreamState(posterior, self._x.copy(), self._y.copy(), self.n_seen)

    def absorb(self, x: Float[np.ndarray, " d"], y: Float[np.ndarray, " o"]) -> PBPInfo:
        """Absorb a row, NaN in y for an output that was not seen, and recall those before it."""
        place = self.n_seen % len(self._x)
        self._x[place], self._y[place] = x, y
        order = self._orders[place]
        order = order if self.n_seen >= len(order) else order[: self.n_seen + 1]
        log_z, share, undone, kept = absorb_and_recall(
            self._packed.work, *self._rows, *self._weights, order[:1], order[1:], self._noise
        )
        self.n_seen += 1
        return PBPInfo(log_z, share, weights_undone=int(undone), noise_kept=kept)

    def refresh(self) -> PBPInfo:
        """Refine the prior factors."""
        return refreshed(self._packed)

    def moments(
        self, x: Float[np.ndarray, "k d"]
    ) -> tuple[Float[np.ndarray, "k o"], Float[np.ndarray, "k o"]]:
        """Mean and variance of the outputs, noise not included."""
        x = checked("x", x, self.layer_sizes[0])
        m, v = np.empty((2, len(x), self.layer_sizes[-1]))
        predict_rows(self._packed.work, x, m, v)
        return m, v

    def draw(
        self, rng: np.random.Generator, x: Float[np.ndarray, "k d"], n_draws: int
    ) -> Float[np.ndarray, "s k o"]:
        """Draw functions, jointly over the rows of x: the same in distribution as drawn weights.

        Beyond 64 rows weights are drawn, which is cheaper then.
        """
        x = checked("x", x, self.layer_sizes[0])
        if len(x) > _MOST_JOINT:
            from bayesprop.moments.pbp.updates import sample_functions

            return sample_functions(rng, self.state.posterior, x, n_draws)
        out = np.empty((n_draws, len(x), self.layer_sizes[-1]))
        for first in range(0, n_draws, _CHUNK_DRAWS):
            part = out[first : first + _CHUNK_DRAWS]
            normals = rng.standard_normal((len(part), n_normals(self.layer_sizes, len(x))))
            acts, spare = np.zeros((2, *part.shape[:2], self._width))
            scratch = np.empty(scratch_size(len(x)))
            draw_functions(self._packed.work, x, normals, scratch, acts, spare, part)
        return out


def n_normals(layer_sizes, k):
    """Return how many standard normals a draw at k inputs takes."""
    hidden = sum(BLOCK * (size // BLOCK + 1) for size in layer_sizes[1:-1])
    return k * (hidden + layer_sizes[-1])


def scratch_size(k):
    """Return the floats that `draw_functions` works with at k inputs: means, roots, covariances."""
    return BLOCK * (2 * k + k * (k + 1) // 2)


@inlined
def _entry(k, i, j):
    """Where the covariance of inputs i >= j lies in the scratch memory."""
    return BLOCK * (2 * k + i * (i + 1) // 2 + j)


@inlined
def _write_moments(work, depth, acts, s, at, scratch, last):
    """Write mean and covariance of eight units, whose weights begin at `at`, for inputs acts[s].

    In the last layer, of one output: its eight lanes are all the same.
    """
    n_rows, k, scale = work.layers[depth, N_ROWS], acts.shape[1], work.scales[depth]
    step = BLOCK if last else 1
    for a in range(k):
        start = (s * k + a) * acts.shape[2]
        m_a, pair = spread8(0.0), at
        for i in range(start, start + n_rows, step):
            m_a = m_a + load8(work.weights, pair) * (load8(acts, i) if last else spread_at(acts, i))
            pair += PAIR
        store(scratch, BLOCK * a, scale * (spread8(total(m_a)) if last else m_a))
        for b in range(a + 1):
            gap = (b - a) * acts.shape[2]
            v_ab, pair = spread8(0.0), at + BLOCK
            for i in range(start, start + n_rows, step):
                if last:
                    product = load8(acts, i) * load8(acts, i + gap)
                else:
                    product = spread_at(acts, i) * spread_at(acts, i + gap)
                v_ab = v_ab + load8(work.weights, pair) * product
                pair += PAIR
            v_ab = spread8(total(v_ab)) if last else v_ab
            store(scratch, _entry(k, a, b), scale * scale * v_ab)


@inlined
def _remainder(k, scratch, i, j):
    """Return the covariance of inputs i and j without what the inputs before j explain."""
    rest = load8(scratch, _entry(k, i, j))
    for p in range(j):
        root = load8(scratch, BLOCK * (k + p))
        rest = rest - (
            load8(scratch, _entry(k, i, p)) * root * (load8(scratch, _entry(k, j, p)) * root)
        )
    return rest


@inlined
def _factorise(k, scratch):
    """Replace covariances by L, of L D L', and write the roots of D; D may have zeros.

    The same inputs have the same entries, so that their row of L is exactly that of the first one,
    and what is left of their variance is 0.
    """
    for j in range(k):
        least = _LEAST_PIVOT * load8(scratch, _entry(k, j, j))
        rest = _remainder(k, scratch, j, j)
        is_uncertain = rest > least
        pivot = select(is_uncertain, rest, 1.0)
        root, _ = roots(pivot)
        store(scratch, BLOCK * (k + j), select(is_uncertain, root, 0.0))
        store(scratch, _entry(k, j, j), spread8(1.0))
        for i in range(j + 1, k):
            part = _remainder(k, scratch, i, j) / pivot
            store(scratch, _entry(k, i, j), select(is_uncertain, part, 0.0))


@inlined
def _drawn(k, a, scratch, normals, at):
    """Return what eight units compute at input a; their normals begin at `at`, eight an input."""
    value = load8(scratch, BLOCK * a)
    for j in range(a + 1):
        step = load8(scratch, BLOCK * (k + j)) * load8(normals, at + BLOCK * j)
        value = value + load8(scratch, _entry(k, a, j)) * step
    return value


@inlined
def _activate(k, scratch, normals, at, acts, s, unit):
    """Write the activations of eight units in one draw."""
    for a in range(k):
        value = _drawn(k, a, scratch, normals, at)
        place = (s * k + a) * acts.shape[2] + unit
        store(acts, place, select(value > 0.0, value, 0.0))


@inlined
def _copy_rows(x, acts):
    """Make the rows of x, and a one for the bias, the inputs of every draw."""
    for s in range(acts.shape[0]):
        for a in range(x.shape[0]):
            for i in range(x.shape[1]):
                acts[s, a, i] = x[a, i]
            acts[s, a, x.shape[1]] = 1.0


@compiled
def draw_functions(work, x, normals, scratch, acts, spare, out):
    """Write draws of all outputs at all rows of x, at most a few: (s, k, o).

    normals
        (s, `n_normals`), used in the order of the layers.
    scratch
        `scratch_size` floats.
    acts, spare
        (s, k, units of the largest layer, inputs too, filled up as in the workspace), two of them.
    """
    last, k = work.layers.shape[0] - 1, x.shape[0]
    n_draws, n_normals = normals.shape
    used = 0
    _copy_rows(x, spare)
    for depth in range(last):
        at, size = work.layers[depth, WEIGHTS], PAIR * work.layers[depth, N_ROWS]
        for unit in range(0, work.layers[depth, N_OUT] + 1, BLOCK):
            for s in range(n_draws):
                if depth > 0 or s == 0:
                    _write_moments(work, depth, spare, s, at, scratch, False)
                    _factorise(k, scratch)
                _activate(k, scratch, normals, s * n_normals + used, acts, s, unit)
            at += size
            used += BLOCK * k
        acts, spare = spare, acts
    for s in range(n_draws):
        for o in range(work.layers[last, N_OUT]):
            size = 2 * BLOCK * n_blocks(work.layers[last, N_ROWS])
            at = work.layers[last, WEIGHTS] + o * size
            _write_moments(work, last, spare, s, at, scratch, True)
            _factorise(k, scratch)
            for a in range(k):
                value = scratch[BLOCK * a]
                for j in range(a + 1):
                    step = scratch[BLOCK * (k + j)] * normals[s, used + o * k + j]
                    value += scratch[_entry(k, a, j)] * step
                out[s, a, o] = value
