"""A PBP posterior that stays in the compiled layout between rows: for streams of single rows.

It computes what `engine` does, without copying the state in and out at every call, and draws
functions at a few inputs. A call takes microseconds, most of them outside the compiled code: hence
the memory that is made once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.moments.pbp import kernel_draw, kernel_gamma, kernel_pass
from bayesprop.moments.pbp.kernel_workspace import BLOCK, pack, unpack
from bayesprop.moments.pbp.state import PBPInfo, PBPState, least_information

_MOST_JOINT = 64
_CHUNK_DRAWS = 128
_STATE, _X, _Y = "state.", "last.x", "last.y"


class LastRows(NamedTuple):
    """The rows that will be recalled, in a ring, and how many rows came in all.

    y is NaN where an output was not seen, and in the places that are still empty.
    """

    x: Float[np.ndarray, "r d"]
    y: Float[np.ndarray, "r o"]
    n_seen: int


class PBPStream:
    """A posterior of a ReLU network that meets numbers with Gaussian noise, one row after another.

    Every row is absorbed by assumed density filtering (Hernández-Lobato & Adams 2015, section 3),
    and then the rows before it once more, newest first. The noise learns from the first visit
    alone: rows that were absorbed before fit better than new ones will.

    Parameters
    ----------
    state : PBPState
        Where it begins, standardised; never changed.
    n_recalled : int
        Rows absorbed again with each new one.
    recall_weight : float
        How many times a row counts when it is recalled.
    last : LastRows or None
        Of a stream that is taken up again.
    """

    def __init__(
        self,
        state: PBPState,
        *,
        n_recalled: int = 0,
        recall_weight: float = 1.0,
        last: LastRows | None = None,
    ) -> None:
        self._like, self.layer_sizes = state, state.layer_sizes
        n_in, n_out, size = self.layer_sizes[0], self.layer_sizes[-1], n_recalled + 1
        self._packed = pack(state)
        self._x, self._y, self._n_seen = np.zeros((size, n_in)), np.full((size, n_out), np.nan), 0
        if last is not None:
            self._x[:], self._y[:], self._n_seen = last
        self._rows = _read_only(self._x), _read_only(self._y)
        places = np.arange(size)
        self._orders = (places[:, None] - places) % size
        self._weights = _read_only(np.ones(size)), _read_only(np.full(size, float(recall_weight)))
        self._noise = np.empty((2, n_out))
        self._width = max(BLOCK * (units // BLOCK + 1) for units in self.layer_sizes[:-1])
        self._memory_for = lru_cache(maxsize=4)(self._new_memory)

    @property
    def state(self) -> PBPState:
        """A copy of the posterior as it is now."""
        return unpack(self._packed, self._like)

    @property
    def last(self) -> LastRows:
        """A copy of the rows that will be recalled."""
        return LastRows(self._x.copy(), self._y.copy(), self._n_seen)

    def absorb(self, x: Float[np.ndarray, " d"], y: Float[np.ndarray, " o"]) -> PBPInfo:
        """Absorb a row, NaN in y for an output that was not seen, and recall those before it."""
        place = self._n_seen % len(self._x)
        self._x[place], self._y[place] = x, y
        order = self._orders[place]
        order = order if self._n_seen >= len(order) else order[: self._n_seen + 1]
        log_z, share, undone, kept = kernel_pass.absorb_and_recall(
            self._packed.work, *self._rows, *self._weights, order[:1], order[1:], self._noise
        )
        self._n_seen += 1
        return PBPInfo(log_z, share, weights_undone=int(undone), noise_kept=kept)

    def refresh(self) -> PBPInfo:
        """Refine the prior factors."""
        kept, uninformed = kernel_gamma.refresh(
            self._packed.work.weights, self._packed.sites, least_information("numbers"), True
        )
        return PBPInfo(prior_kept=kept, prior_uninformed=uninformed)

    def moments(
        self, x: Float[np.ndarray, "k d"]
    ) -> tuple[Float[np.ndarray, "k o"], Float[np.ndarray, "k o"]]:
        """Mean and variance of the outputs, noise not included."""
        x = self._checked(x)
        m, v = np.empty((2, len(x), self.layer_sizes[-1]))
        kernel_pass.predict_rows(self._packed.work, x, m, v)
        return m, v

    def draw(
        self, rng: np.random.Generator, x: Float[np.ndarray, "k d"], n_draws: int
    ) -> Float[np.ndarray, "s k o"]:
        """Draw functions, jointly over the rows of x: the same in distribution as drawn weights.

        Beyond 64 rows weights are drawn, which is cheaper then.
        """
        x = self._checked(x)
        if len(x) > _MOST_JOINT:
            from bayesprop.moments.pbp.updates import sample_functions

            return sample_functions(rng, self.state, x, n_draws)
        out = np.empty((n_draws, len(x), self.layer_sizes[-1]))
        for first in range(0, n_draws, _CHUNK_DRAWS):
            part = out[first : first + _CHUNK_DRAWS]
            normals, scratch, acts, spare = self._memory_for(len(part), len(x))
            rng.standard_normal(out=normals)
            kernel_draw.draw_functions(self._packed.work, x, normals, scratch, acts, spare, part)
        return out

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Name all arrays."""
        arrays = {_STATE + name: array for name, array in self.state.to_arrays().items()}
        return arrays | {_X: self._x.copy(), _Y: self._y.copy()}

    def restored(self, arrays: dict[str, np.ndarray], *, n_seen: int, **recall: Any) -> PBPStream:
        """Rebuild from `to_arrays` what began as this one; ValueError where they do not fit it.

        recall
            n_recalled and recall_weight.
        """
        state = {k.removeprefix(_STATE): a for k, a in arrays.items() if k.startswith(_STATE)}
        posterior, x, y = PBPState.from_arrays(state), arrays[_X], arrays[_Y]
        if posterior.layer_sizes != self.layer_sizes:
            raise ValueError("the stored network is not that of the settings")
        for part, begun in ((x, self._x), (y, self._y)):
            if part.shape != begun.shape or part.dtype != begun.dtype or np.isinf(part).any():
                raise ValueError("the stored rows do not fit the settings")
        is_there = np.arange(len(y)) < n_seen
        if n_seen < 0 or np.isnan(x).any() or (np.isnan(y).all(axis=1) == is_there).any():
            raise ValueError("the stored rows must be numbers")
        return PBPStream(posterior, last=LastRows(x, y, n_seen), **recall)

    def _new_memory(self, n_draws: int, k: int) -> tuple[np.ndarray, ...]:
        """Return what `draw_functions` works with."""
        normals = np.empty((n_draws, kernel_draw.n_normals(self.layer_sizes, k)))
        acts, spare = np.zeros((2, n_draws, k, self._width))
        return normals, np.empty(kernel_draw.scratch_size(k)), acts, spare

    def _checked(self, x: np.ndarray) -> np.ndarray:
        if x.ndim != 2 or x.shape[1] != self.layer_sizes[0]:
            raise ValueError(f"x must be (k, {self.layer_sizes[0]}), got shape {x.shape}")
        return _read_only(np.ascontiguousarray(x, dtype=np.float64))


def _read_only(table: np.ndarray) -> np.ndarray:
    """Return a view that the compiled code cannot write to; see `engine`."""
    view = table.view()
    view.setflags(write=False)
    return view
