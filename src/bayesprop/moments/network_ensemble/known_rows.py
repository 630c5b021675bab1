"""What is remembered of inputs that have been measured: the next measurement may be like the last.

Some tables hold the same inputs more than once: a recipe tried again, a row copied twice. Their
targets can lie closer together than the networks' noise says, because part of it belongs to the
inputs and comes back with them. With B what does not, of the noise variance s (1 - B / s is the
intraclass correlation; Fisher 1925, "Statistical methods for research workers", chapter 7), m and v
what everything else says of the function, and ybar the mean of measurements that count W, the next
is

    y ~ noise around N(m*, v*),    A = v + s - B,
    m* = m + W A / (W A + B) (ybar - m),    v* = A B / (W A + B),

the noise as the networks say, but of variance B, or a little more: its floor stays. Inputs that
were never measured gain nothing from it, and lose nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int


class KnownRows(NamedTuple):
    """Inputs that have been measured, n of d columns, and what they are known to give; float32.

    rows
        Standardised, all different, sorted by their bits, (n, d); none where nothing comes back.
    m, v
        m* and v* of every output, (n, o).
    log_own
        log(B / s), (o,); 0: the noise of that output never comes back.
    """

    rows: Float32[np.ndarray, "n d"]
    m: Float32[np.ndarray, "n o"]
    v: Float32[np.ndarray, "n o"]
    log_own: Float32[np.ndarray, " o"]

    @classmethod
    def none(cls, n_inputs: int, n_outputs: int) -> KnownRows:
        """Remember nothing."""
        shapes = (0, n_inputs), (0, n_outputs), (0, n_outputs), (n_outputs,)
        return cls(*(np.zeros(shape, np.float32) for shape in shapes))

    @classmethod
    def of(
        cls,
        rows: Float[np.ndarray, "n d"],
        m: Float[np.ndarray, "n o"],
        v: Float[np.ndarray, "n o"],
        log_own: Float[np.ndarray, " o"],
    ) -> KnownRows:
        """Sort different rows, and what is known of them."""
        order = np.argsort(bits(rows))
        parts = rows[order], m[order], v[order], log_own
        return cls(*(np.asarray(part, np.float32) for part in parts))

    def check(self, n_inputs: int, n_outputs: int) -> None:
        """Raise ValueError unless the arrays belong together."""
        n, o = len(self.rows), n_outputs
        shapes = (n, n_inputs), (n, o), (n, o), (o,)
        for name, part, shape in zip(self._fields, self, shapes, strict=True):
            if np.shape(part) != shape:
                raise ValueError(f"the known rows' {name} must have shape {shape}")
        if (self.v < 0.0).any() or (self.log_own > 0.0).any():
            raise ValueError("the known rows' v must be at least 0, their log_own at most 0")
        if (np.argsort(bits(self.rows), kind="stable") != np.arange(n)).any():
            raise ValueError("the known rows must be sorted by their bits")

    def find(
        self, x: Float[np.ndarray, "m d"]
    ) -> tuple[Int[np.ndarray, " f"], Int[np.ndarray, " f"]]:
        """Places in x of inputs that are known to the last bit, and their numbers."""
        if not len(self.rows):
            return np.zeros(0, int), np.zeros(0, int)
        known, asked = bits(self.rows), bits(x)
        numbers = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        places = np.flatnonzero(known[numbers] == asked)
        return places, numbers[places]

    def overwritten(
        self,
        rng: np.random.Generator,
        x: Float[np.ndarray, "m d"],
        draws: Float[np.ndarray, "s m o"],
    ) -> Float[np.ndarray, "s m o"]:
        """Put draws of what is known into functions at x, the same for inputs that are the same."""
        places, numbers = self.find(x)
        if len(places):
            comes_back = self.log_own < 0.0
            number, which = np.unique(numbers, return_inverse=True)
            m, v = (part[np.ix_(number, comes_back)] for part in (self.m, self.v))
            known = m + np.sqrt(v) * rng.standard_normal((len(draws), *m.shape))
            draws[:, *np.ix_(places, comes_back)] = known[:, which]
        return draws


def bits(x: Float[np.ndarray, "n d"]) -> np.ndarray:
    """Return rows of float32 as one value each, (n,); the two zeros are one number."""
    x = np.ascontiguousarray(x, np.float32) + np.float32(0.0)
    return x.view(np.dtype((np.void, x.shape[1] * x.itemsize))).ravel()


def recalled(
    m: Float[np.ndarray, " n"],
    v: Float[np.ndarray, " n"],
    s: Float[np.ndarray, " n"],
    log_own: float,
    count: Float[np.ndarray, " n"],
    mean: Float[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return m* and v*.

    log_own
        log(B / s).
    count, mean
        W and ybar.
    """
    own, shared = np.exp(log_own) * s, v - np.expm1(log_own) * s
    total = count * shared + own
    return m + count * shared / total * (mean - m), shared * own / total
