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

import math
from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Float, Float64

from bayesprop.codec import UNBOUNDED
from bayesprop.moments.pbp.engine import (
    absorbed,
    checked,
    predict_rows,
    read_only,
    refreshed,
    room_for,
)
from bayesprop.moments.pbp.loops import M, V
from bayesprop.moments.pbp.state import N_IN, N_OUT, WEIGHTS, WIDTH, PBPInfo, PBPState
from bayesprop.numerics.compiled import called, compiled

_LANES = 8
"""Units of a hidden layer, its bias one of them, that are drawn together: the order of normals."""
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
        self._packed = start.posterior.packed()
        self._x, self._y, self.n_seen = start.x.copy(), start.y.copy(), start.n_seen
        size = len(self._y)
        self._rows = read_only(self._x), read_only(self._y)
        places = np.arange(size)
        self._orders = (places[:, None] - places) % size
        self._weights = read_only(np.ones(size)), read_only(np.full(size, float(recall_weight)))
        self._room = room_for(self._packed.layers)

    @property
    def state(self) -> StreamState:
        """A copy of the stream as it is now."""
        posterior = self._like.unpacked(self._packed)
        return StreamState(posterior, self._x.copy(), self._y.copy(), self.n_seen)

    def absorb(self, x: Float[np.ndarray, " d"], y: Float[np.ndarray, " o"]) -> PBPInfo:
        """Absorb a row, NaN in y for an output that was not seen, and recall those before it."""
        place = self.n_seen % len(self._x)
        self._x[place], self._y[place] = x, y
        order = self._orders[place]
        order = order if self.n_seen >= len(order) else order[: self.n_seen + 1]
        self.n_seen += 1
        once, again = self._weights
        info = absorbed(self._packed, *self._rows, once, order[:1], may_miss=True)
        if len(order) == 1:
            return info
        noise = self._packed.noise.copy()
        more = absorbed(self._packed, *self._rows, again, order[1:], may_miss=True)
        self._packed.noise[:] = noise
        return info._replace(weights_undone=info.weights_undone + more.weights_undone)

    def refresh(self) -> PBPInfo:
        """Refine the prior factors."""
        return refreshed(self._packed)

    def moments(
        self, x: Float[np.ndarray, "k d"]
    ) -> tuple[Float[np.ndarray, "k o"], Float[np.ndarray, "k o"]]:
        """Mean and variance of the outputs, noise not included."""
        x = checked("x", x, self.layer_sizes[0])
        m, v = np.empty((2, len(x), self.layer_sizes[-1]))
        predict_rows(self._packed.layers, self._packed.weights, *self._room, x, m, v)
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
            mean, roots = np.empty((len(x), _LANES)), np.empty((len(x), len(x), _LANES))
            acts, spare = np.ones((2, *part.shape[:2], max(self.layer_sizes[:-1]) + 1))
            spare[:, :, : x.shape[1]], spare[:, :, x.shape[1]] = x, 1.0
            layers, weights = self._packed.layers, self._packed.weights
            draw_functions(layers, weights, normals, mean, roots, acts, spare, part)
        return out


def n_normals(layer_sizes, k):
    """Return how many standard normals a draw at k inputs takes."""
    hidden = sum(_LANES * (size // _LANES + 1) for size in layer_sizes[1:-1])
    return k * (hidden + layer_sizes[-1])


@called
def _take_roots(width, cov):
    """Replace covariances by their Cholesky factors, whose diagonals may have zeros.

    The same inputs have the same entries, so that nothing is left of the variance of the second.
    """
    k = cov.shape[0]
    for u in range(width):
        for j in range(k):
            least = _LEAST_PIVOT * cov[j, j, u]
            for i in range(j, k):
                for p in range(j):
                    cov[i, j, u] -= cov[i, p, u] * cov[j, p, u]
            root = math.sqrt(cov[j, j, u]) if cov[j, j, u] > least else 0.0
            for i in range(j, k):
                cov[i, j, u] = cov[i, j, u] / root if root > 0.0 else 0.0


@called
def _moments(weights, at, step, n_in, width, z, mean, cov):
    """Write mean and roots of the covariance of some units for the inputs z.

    Their weights begin at `at`, those of the next input `step` further on.
    """
    k, scale = z.shape[0], 1.0 / math.sqrt(n_in + 1.0)
    mean[:], cov[:] = 0.0, 0.0
    for i in range(n_in + 1):
        place = at + i * step
        for a in range(k):
            for u in range(width):
                mean[a, u] += scale * weights[M, place + u] * z[a, i]
            for b in range(a + 1):
                both = scale * scale * z[a, i] * z[b, i]
                for u in range(width):
                    cov[a, b, u] += weights[V, place + u] * both
    _take_roots(width, cov)


@compiled
def draw_functions(layers, weights, normals, mean, roots, acts, spare, out):
    """Write draws of all outputs at some rows, at most a few: (s, k, o).

    normals
        (s, `n_normals`), used in the order of the layers.
    mean, roots
        (k, 8) and (k, k, 8), to work with.
    acts, spare
        (s, k, units of the largest layer, inputs too, and a one), two of them; the second begins
        with every row.
    """
    n_draws, k, used, last = spare.shape[0], spare.shape[1], 0, layers.shape[0] - 1
    for depth in range(last + 1):
        is_last, n_in, n_out = depth == last, layers[depth, N_IN], layers[depth, N_OUT]
        lanes, n_units = (1, n_out) if is_last else (_LANES, n_out + 1)
        for first in range(0, n_units, lanes):
            width = min(lanes, n_out - first)
            at = layers[depth, WEIGHTS] + (first * (n_in + 1) if is_last else first)
            for s in range(n_draws):
                if depth > 0 or s == 0:
                    step = 1 if is_last else layers[depth, WIDTH]
                    _moments(weights, at, step, n_in, width, spare[s], mean, roots)
                for a in range(k):
                    for u in range(width):
                        value = mean[a, u]
                        for j in range(a + 1):
                            value += roots[a, j, u] * normals[s, used + lanes * j + u]
                        if is_last:
                            out[s, a, first] = value
                        else:
                            acts[s, a, first + u] = max(value, 0.0)

            used += lanes * k
        for s in range(n_draws):
            for a in range(k):
                acts[s, a, n_out if not is_last else 0] = 1.0
        acts, spare = spare, acts
