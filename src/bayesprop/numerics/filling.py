"""Tables filled up with rows of weight zero: few shapes, few compilations.

JAX compiles a program for every shape that it meets, which takes seconds. A table that grows by a
row, as in active learning, or loses a fold, as in cross-validation, should be no new program.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesprop.numerics.machine import check_not_forked
from bayesprop.numerics.rows import Rows

_LEAST_STEP = 64
_BLOCK = 16


def slots(n_rows: int) -> int:
    """Say how much room a table gets whose filling is shuffled, but not visited.

    The next multiple of 64, or of an eighth of the power of two below n_rows where that is more.
    """
    power = 1 << max(n_rows - 1, 1).bit_length() - 1
    return blocks(n_rows, max(_LEAST_STEP, power // 8))


def blocks(n_rows: int, size: int = _BLOCK) -> int:
    """Say how much room a table gets whose filling costs time: the next multiple of `size`."""
    return -(-n_rows // size) * size


def filled(rows: Rows, n_slots: int) -> Rows:
    """Append rows of zeros, of weight zero, and put the table on the device, without groups."""
    check_not_forked("JAX")

    def longer(part: np.ndarray) -> Array:
        # By NumPy, which compiles nothing.
        missing = n_slots - len(part)
        return jnp.asarray(np.pad(part, [(0, missing)] + [(0, 0)] * (part.ndim - 1)))

    return Rows(*jax.tree.map(longer, (rows.x, rows.y, rows.weights)))


def padded(x: Float[np.ndarray, "n d"], least: int = _LEAST_STEP) -> Float[np.ndarray, "m d"]:
    """Fill up with zero rows to a power of two, at least `least`.

    Few shapes mean few compilations; and a row's sums, taken in float32, no longer depend on how
    many rows come with it.
    """
    check_not_forked("JAX")
    n = max(least, 1 << (len(x) - 1).bit_length())
    return np.concatenate([x, np.zeros((n - len(x), x.shape[1]), x.dtype)])


def device_rows(rows: Rows, n_slots: int) -> Rows:
    """Put rows on the device, in float32; codes of classes stay whole numbers.

    n_slots
        Room for how many rows: the rest is filled with rows of weight zero.
    """
    kind = np.int32 if np.issubdtype(rows.y.dtype, np.integer) else np.float32
    x, weight = rows.x.astype(np.float32), rows.weights.astype(np.float32)
    return filled(Rows(x, rows.y.astype(kind), weight), n_slots)
