"""What the rows nearest to a row leave: a Gaussian process that knows every row of a large table.

A network learns what holds everywhere; what holds only here (a street, a week) it leaves (after
Qiu, Meyerson & Miikkulainen 2020, "Quantifying point-prediction uncertainty in neural networks via
residual estimation with an I/O kernel"). With g what an ensemble leaves of a target, measured in
the root of its own standard deviation there,

    g ~ GP(0, a² (1 + √3 r) exp(-√3 r))  (Matérn 3/2),    r² = sum_d (x_d - x'_d)² / l_d²,

and of g at a row only the N_NEAREST rows that are nearest by r are asked (Vecchia 1988, "Estimation
and model identification for continuous spatial processes"; Datta et al. 2016, "Hierarchical
nearest-neighbor Gaussian process models"): the price grows with the rows that are asked about, not
with the cube of those known. How lengths and variances are learnt: `neighbour_evidence`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.moments.network_ensemble import nearest_rows
from bayesprop.moments.network_ensemble.nearest_rows import (
    MOST_ROWS,
    N_NEAREST,
    correlation,
    measured,
    squares,
)
from bayesprop.numerics.machine import chunks

MOST_LOGARITHM = 60.0
"""Of lengths and variances in a file."""

JITTER = 1e-10
"""Of a²: rows at no distance that count without end leave a matrix that can be inverted."""

_IN_CACHE = 16  # times fewer rows than fit in memory
_N_FREQUENCIES = 512  # of a function that is drawn
_LARGEST = 1e15  # of what a file may hold, whose square is still a number in float32


class Hyper(NamedTuple):
    """Logarithms of the lengths (d,), of a² and of s, the variance around g of a row counted once.

    One array of these in that order is what is optimised.
    """

    lengths: Float[np.ndarray, " d"]
    var: float
    noise: float

    @classmethod
    def of(cls, logarithms: Float[np.ndarray, " h"]) -> Hyper:
        """Take them apart."""
        return cls(logarithms[:-2], float(logarithms[-2]), float(logarithms[-1]))


@dataclass(frozen=True, eq=False)
class NeighbourProcess:
    """Rows that it knows, what is left there, (n,), and how often each counts; float32.

    x
        The first columns of what its ensemble is given: without ramps.

    log_lengths, log_var, log_noise
        Of the lengths (d,), of a² and of s; float64.
    log_doubt
        Of the epistemic variance of the networks that few of these rows exceed; float64.
    """

    x: Float[np.ndarray, "n d"]
    g: Float[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    log_lengths: Float[np.ndarray, " d"]
    log_var: Float[np.ndarray, ""]
    log_noise: Float[np.ndarray, ""]
    log_doubt: Float[np.ndarray, ""]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Name every array."""
        return {part.name: np.asarray(getattr(self, part.name)) for part in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], n_inputs: int) -> NeighbourProcess:
        """Undo `to_arrays`; KeyError where one is missing, ValueError where they do not fit."""
        process = cls(**{part.name: arrays[part.name] for part in fields(cls)})
        n, d = len(process.g), min(np.size(process.log_lengths), n_inputs)
        shapes = ((n, d), (n,), (n,), (d,), (), (), ())
        for (name, array), shape in zip(process.to_arrays().items(), shapes, strict=True):
            is_log = name.startswith("log_")
            dtype, most = (np.float64, MOST_LOGARITHM) if is_log else (np.float32, _LARGEST)
            if array.shape != shape or array.dtype != dtype or not (np.abs(array) < most).all():
                raise ValueError(
                    f"the neighbours' {name} must be {dtype.__name__} of shape {shape}, "
                    f"below {most:g}"
                )
        if not N_NEAREST < n <= MOST_ROWS:
            raise ValueError(f"the neighbours must be {N_NEAREST + 1} to {MOST_ROWS}, got {n}")
        if (process.weight <= 0.0).any():
            raise ValueError("the neighbours' weight must be > 0")
        return process

    def __reduce__(self) -> tuple:
        """Leave out what can be computed again."""
        return type(self), tuple(self.to_arrays().values())

    @property
    def hyper(self) -> Hyper:
        """Lengths and variances."""
        return Hyper(self.log_lengths, float(self.log_var), float(self.log_noise))

    @cached_property
    def _tree(self) -> Any:
        return nearest_rows.tree(self.x, self.log_lengths)

    def moments(
        self, x: Float[np.ndarray, "m d"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Mean and variance of g."""
        m, v = np.empty((2, len(x)))
        for part, number, shares, left in self._asked(x):
            m[part], v[part] = np.sum(shares * self.g[number], axis=1), left
        return m, v

    def draw(
        self, rng: np.random.Generator, x: Float[np.ndarray, "m d"], n: int
    ) -> Float[np.ndarray, "s m"]:
        """Draw n functions at all rows, with the moments of `moments` at each.

        A function of the prior, of random frequencies (Rahimi & Recht 2007), is corrected by what
        it gets wrong at the nearest rows (Wilson et al. 2020, "Efficiently sampling functions from
        Gaussian process posteriors").
        """
        frequencies = rng.standard_normal((self.x.shape[1], _N_FREQUENCIES))
        frequencies *= np.sqrt(3.0 / rng.chisquare(3.0, _N_FREQUENCIES))
        phases = rng.uniform(0.0, 2.0 * np.pi, _N_FREQUENCIES)
        steps = rng.standard_normal((_N_FREQUENCIES, n))
        steps *= np.sqrt(2.0 / _N_FREQUENCIES * np.exp(self.log_var))

        def of_prior(at: np.ndarray) -> Float[np.ndarray, "m s"]:
            scaled = measured(at[:, : len(frequencies)], self.log_lengths) @ frequencies
            return np.cos(scaled + phases) @ steps

        from scipy import sparse

        number, shares = np.empty((len(x), N_NEAREST), int), np.empty((len(x), N_NEAREST))
        for part, near, own, _ in self._asked(x):
            number[part], shares[part] = near, own
        asked, which = np.unique(number, return_inverse=True)
        noise_std = np.sqrt(np.exp(self.log_noise) / self.weight[asked])
        wrong = self.g[asked, None] - of_prior(self.x[asked])
        wrong -= noise_std[:, None] * rng.standard_normal(wrong.shape)
        ends = np.arange(0, number.size + 1, N_NEAREST)
        correct = sparse.csr_matrix((shares.ravel(), which.ravel(), ends))
        return (of_prior(x) + correct @ wrong).T

    def _asked(
        self, x: Float[np.ndarray, "m d"]
    ) -> Iterator[tuple[slice, Int[np.ndarray, "r k"], Float[np.ndarray, "r k"], np.ndarray]]:
        """Give rows, their nearest, the shares of these in the mean of g, and its variances."""
        n, d = N_NEAREST, self.x.shape[1]
        x = x[:, :d]
        for part in chunks(len(x), _IN_CACHE * n * max(n, d)):
            number = nearest_rows.lookup(self._tree, x[part], self.log_lengths)
            yield part, number, *kriging(self.x[number], x[part], self.weight[number], self.hyper)


def kriging(
    known: Float[np.ndarray, "r k d"],
    x: Float[np.ndarray, "r d"],
    weight: Float[np.ndarray, "r k"],
    hyper: Hyper,
) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, " r"]]:
    """Shares of k rows in the mean of g at another, and its variance (Cressie 1993, ch. 3)."""
    rows = np.concatenate([known, x[:, None]], axis=1)
    covariance = np.exp(hyper.var) * correlation(squares(rows, hyper.lengths))
    k = known.shape[1]
    at = np.arange(k)
    covariance[:, at, at] += np.exp(hyper.noise) / weight + JITTER * np.exp(hyper.var)
    shared = covariance[:, :k, k]
    shares = np.linalg.solve(covariance[:, :k, :k], shared[..., None])[..., 0]
    return shares, np.maximum(np.exp(hyper.var) - np.sum(shares * shared, axis=1), 0.0)
