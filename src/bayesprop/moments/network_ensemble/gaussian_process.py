"""An infinitely wide network beside the finite ones: a Gaussian process.

With ever more hidden units a Bayesian network becomes a Gaussian process (Neal 1996; Williams 1997,
"Computing with infinite networks"), here with a length of its own for every input (automatic
relevance determination), of the squared distance r² = sum_d (x_d - x'_d)² / l_d²:

    k = a² exp(-r²/2)  or  a² (1 + √5 r + 5 r²/3) exp(-√5 r)  (Matérn 5/2),    y ~ N(g(x), s / w)

for a row that counts w times. y are the targets, or what the networks leave of them (after Qiu,
Meyerson & Miikkulainen 2020, "Quantifying point-prediction uncertainty in neural networks via
residual estimation with an I/O kernel", who take residuals of rows that were seen). Lengths, a² and
s maximise the evidence, times log-normal priors of the lengths and of a² where it is large
(Rasmussen & Williams 2006, chapter 5); which of the two covariances it is, rows left out decide. It
learns smooth functions of little noise from hundreds of rows, as finite networks hardly do from
thousands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg, optimize, stats

from bayesprop.numerics.dense import inverse_triangle
from bayesprop.numerics.machine import chunks

MOST_ROWS, ROWS_OF_EVIDENCE = 2048, 1000
"""Rows that the process knows, and rows of which it learns its lengths, at most."""

FEW_ROWS, N_FOLDS = 300, 5
"""Fewer rows would be judged too well by lengths that they chose: these are learnt in folds."""

LONGER = 2.0
"""Times the standard deviation of the logarithm of a length, where it is longer than expected: some
inputs say nothing."""

MOST_JOINT = 1024
"""Rows at which functions are drawn exactly; of more, the others are independent given these."""

_NOISY = np.log(1e-2)  # log(s / a²) from which float32 gives variances to a thousandth of s
_JITTER = 1e-10  # of a²: what keeps sums of large numbers exact
_FURTHEST = 60.0  # smaller exponentials are slow, and no longer seen
_LENGTHS, _VAR, _MOST_LOG_NOISE = (-3.0, 9.0), (-10.0, 10.0), 1.0  # of logarithms, y² being 1
_LARGE = 5.0  # log a² from which it has a prior, with this standard deviation, too
_N_MORE_STEPS, _HALF = 20, -0.7  # log of the shares of a² and s where a search begins
_LEAST_WEIGHT, _LEAST_SQUARE = 1e-9, 1e-9
_LARGEST = 1e15  # of what a file may hold, whose square is still a number in float32


class Beliefs(NamedTuple):
    """What is believed of a function before its rows are seen, and how they are asked.

    length, length_std
        Of every input, as a share of the root of their number, and of its logarithm: the middle of
        the prior, where the search begins.
    are_rough
        Covariances that are tried: the Gaussian, Matérn 5/2.
    n_first, n_steps
        Rows with which it begins, and of which it chooses the covariance, and steps there.
    """

    length: float
    length_std: float
    are_rough: tuple[bool, ...]
    n_first: int
    n_steps: int


OF_TARGETS = Beliefs(1.0, 1.5, (False, True), n_first=256, n_steps=60)
OF_RESIDUALS = Beliefs(8.0**-0.5, 1.0, (False,), n_first=ROWS_OF_EVIDENCE, n_steps=30)
"""What the networks leave is wavy, and weak: of few rows the evidence takes it for noise."""


class Known(NamedTuple):
    """Rows of standardised inputs, what was measured there, and how often each counts."""

    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]

    def at(self, rows: np.ndarray) -> Known:
        """Take some rows."""
        return Known(*(part[rows] for part in self))


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """Rows that it knows, (n, d) and (n,), and logarithms of lengths (d,), a² and s; float64.

    What follows from these is computed when it is first asked for.

    is_rough
        1 if its covariance is Matérn 5/2, 0 if it is the Gaussian.
    """

    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    log_lengths: Float[np.ndarray, " d"]
    log_var: Float[np.ndarray, ""]
    log_noise: Float[np.ndarray, ""]
    is_rough: Float[np.ndarray, ""]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Name every array."""
        return {part.name: np.asarray(getattr(self, part.name)) for part in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], n_inputs: int) -> GaussianProcess:
        """Undo `to_arrays`; KeyError where one is missing, ValueError where they do not fit."""
        process = cls(**{part.name: arrays[part.name] for part in fields(cls)})
        n, d = len(process.y), n_inputs
        shapes = ((n, d), (n,), (n,), (d,), (), (), ())
        for (name, array), shape in zip(process.to_arrays().items(), shapes, strict=True):
            is_number = array.dtype == np.float64 and (np.abs(array) < _LARGEST).all()
            if array.shape != shape or not is_number:
                raise ValueError(
                    f"the process's {name} must be float64 of shape {shape}, below {_LARGEST:g}"
                )
            if name.startswith("log_") and (np.abs(array) > _FURTHEST).any():
                raise ValueError("the process's logarithms must be numbers from -60 to 60")
        if not 0 < n <= MOST_ROWS:
            raise ValueError(f"the process's rows must be 1 to {MOST_ROWS}, got {n}")
        if (process.weight <= 0.0).any() or process.is_rough not in (0.0, 1.0):
            raise ValueError("the process's weight must be > 0, its is_rough 0 or 1")
        return process

    def __reduce__(self) -> tuple:
        """Leave out what can be computed again."""
        return type(self), tuple(self.to_arrays().values())

    @cached_property
    def _row_noise(self) -> Float[np.ndarray, " n"]:
        return np.exp(self.log_noise) / self.weight + _JITTER * np.exp(self.log_var)

    @cached_property
    def _root(self) -> Float[np.ndarray, "n n"]:
        """Lower Cholesky factor of K + N."""
        total = self._covariance(self._measured(self.x), self._measured(self.x))
        total[np.diag_indices(len(total))] += self._row_noise
        return linalg.cholesky(total, lower=True, overwrite_a=True, check_finite=False)

    @cached_property
    def _known(self) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n n"]]:
        """Rows in lengths, and the root, as precise as predictions want them."""
        dtype = np.float32 if self.log_noise - self.log_var > _NOISY else np.float64
        return self._measured(self.x).astype(dtype), np.asfortranarray(self._root, dtype)

    @cached_property
    def _pulls(self) -> Float[np.ndarray, " n"]:
        """(K + N)^-1 y."""
        return linalg.cho_solve((self._root, True), self.y, check_finite=False)

    def _measured(self, x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        """Measure rows, as float32 as those that it knows, in lengths."""
        return np.float64(np.float32(x)) / np.exp(self.log_lengths)

    def _covariance(
        self, a: Float[np.ndarray, "n d"], b: Float[np.ndarray, "m d"]
    ) -> Float[np.ndarray, "n m"]:
        k = correlation(_square(a, b), is_rough=bool(self.is_rough))
        k *= np.exp(self.log_var)
        return k

    def left_out(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean and variance of g at every row that it knows, from all others."""
        own = np.diag(inverse_triangle(self._root))
        return self.y - self._pulls / own, np.maximum(1.0 / own - self._row_noise, 0.0)

    def moments(
        self, x: Float[np.ndarray, "m d"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Mean and variance of g."""
        m, v = np.empty((2, len(x)))
        for part, k, solved in self._pieces(self._measured(x), *self._known):
            m[part], v[part] = k @ self._pulls, np.exp(self.log_var) - _squares(solved)
        return m, np.maximum(v, 0.0)

    def draw(
        self, rng: np.random.Generator, x: Float[np.ndarray, "m d"], n: int
    ) -> Float[np.ndarray, "s m"]:
        """Draw n functions at all rows, with the moments of `moments` at each.

        Exactly at MOST_JOINT of the rows; the others are independent given these (Snelson &
        Ghahramani 2006, "Sparse Gaussian processes using pseudo-inputs").
        """
        at, known = self._measured(x), self._measured(self.x)
        first = at[rng.permutation(len(at))[:MOST_JOINT]]
        before = _solved(self._root, self._covariance(first, known))
        joint = self._covariance(first, first) - before.T @ before
        root = _cholesky(joint, float(np.exp(self.log_var)))
        normal, drawn = rng.standard_normal((n, len(first))), np.empty((n, len(at)))
        for part, k, solved in self._pieces(at, known, self._root):
            shared = self._covariance(at[part], first) - solved.T @ before
            lean = _solved(root, shared)
            v = np.exp(self.log_var) - _squares(solved) - _squares(lean)
            drawn[:, part] = k @ self._pulls + normal @ lean
            drawn[:, part] += np.sqrt(np.maximum(v, 0.0)) * rng.standard_normal((n, lean.shape[1]))
        return drawn

    def _pieces(
        self,
        at: Float[np.ndarray, "m d"],
        known: Float[np.ndarray, "n d"],
        root: Float[np.ndarray, "n n"],
    ) -> Iterator[tuple[slice, Float[np.ndarray, "r n"], Float[np.ndarray, "n r"]]]:
        """Give rows, their covariance with those known, and this solved by the root, in pieces."""
        at = at.astype(root.dtype)
        for part in chunks(len(at), 4 * len(known)):
            k = self._covariance(at[part], known)
            yield part, k, _solved(root, k)


def _solved(root: Float[np.ndarray, "n n"], k: Float[np.ndarray, "r n"]) -> np.ndarray:
    """Return root^-1 k', (n, r)."""
    return linalg.solve_triangular(root, k.T, lower=True, check_finite=False)


def _squares(columns: Float[np.ndarray, "n r"]) -> Float[np.ndarray, " r"]:
    """Add up the squares of every column."""
    return np.einsum("nr,nr->r", columns, columns, dtype=np.float64)


class Limits(NamedTuple):
    """Of the logarithm of s the least, and rows whose evidence gives the hyper-parameters."""

    least_log_noise: float
    n_evidence: int


class Fitted(NamedTuple):
    """A process; mean, variance and log density of every target by one that did not know it."""

    process: GaussianProcess
    m: Float[np.ndarray, " n"]
    v: Float[np.ndarray, " n"]
    log_density: Float[np.ndarray, " n"]


def _square(a: Float[np.ndarray, "n d"], b: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "n m"]:
    """Squared distances."""
    square = a @ b.T
    square *= -2.0
    square += np.square(a).sum(axis=1)[:, None]
    square += np.square(b).sum(axis=1)
    return np.maximum(square, 0.0, out=square)


def correlation(square: Float[np.ndarray, "n m"], *, is_rough: bool) -> Float[np.ndarray, "n m"]:
    """Return k / a² of squared distances."""
    if not is_rough:
        return np.exp(-np.minimum(0.5 * square, _FURTHEST))
    r = np.minimum(np.sqrt(5.0 * square), _FURTHEST)
    return (1.0 + r + r * r / 3.0) * np.exp(-r)


def slope(square: Float[np.ndarray, "n m"], *, is_rough: bool) -> Float[np.ndarray, "n m"]:
    """Return minus twice the slope of k / a² in the squared distance."""
    if not is_rough:
        return correlation(square, is_rough=False)
    r = np.minimum(np.sqrt(5.0 * square), _FURTHEST)
    return 5.0 / 3.0 * (1.0 + r) * np.exp(-r)


def negative_log_evidence(
    logarithms: Float[np.ndarray, " d+2"], known: Known, *, is_rough: bool
) -> tuple[float, Float[np.ndarray, " d+2"]]:
    """-log N(y | 0, K + N) without its constant, and its gradient.

    logarithms
        Of the lengths, of a² and of s.
    """
    (x, y, weight), (log_var, log_noise) = known, logarithms[-2:]
    at, noise = x / np.exp(logarithms[:-2]), np.exp(log_noise) / weight
    square = _square(at, at)
    total = np.exp(log_var) * correlation(square, is_rough=is_rough)
    total[np.diag_indices(len(x))] += noise + _JITTER * np.exp(log_var)
    root = linalg.cholesky(total, lower=True, overwrite_a=True, check_finite=False)
    pulls = linalg.cho_solve((root, True), y, check_finite=False)
    value = 0.5 * y @ pulls + np.log(np.diag(root)).sum()
    # Of A = ((K + N)^-1 - pulls pulls') * slopes, element by element, row sums and at' A at.
    k = np.exp(log_var) * slope(square, is_rough=is_rough)
    below = inverse_triangle(root)
    of_noise = np.diag(below) - np.square(pulls)
    below *= k
    pulled = pulls[:, None] * at
    each = below.sum(axis=0) + below.sum(axis=1) - np.diag(below) - pulls * (k @ pulls)
    products = 2.0 * at * (below @ at) - np.diag(below)[:, None] * at**2 - pulled * (k @ pulled)
    of_lengths = each @ np.square(at) - products.sum(axis=0)
    of_var = len(x) - y @ pulls - of_noise @ noise
    return value, np.r_[of_lengths, 0.5 * of_var, 0.5 * of_noise @ noise]


def fit(rng: np.random.Generator, known: Known, beliefs: Beliefs, limits: Limits) -> Fitted:
    """Maximise the evidence of some rows, and look at each row from all others.

    Of few rows, the latter by lengths, a² and s that were learnt without the row.
    """
    known = known._replace(weight=np.maximum(known.weight, _LEAST_WEIGHT))
    order = rng.permutation(len(known.y))
    few = known.at(order[: min(beliefs.n_first, limits.n_evidence)])
    begun = [_most_probable(few, beliefs, limits, is_rough) for is_rough in beliefs.are_rough]
    if len(order) < FEW_ROWS:
        each = [_in_folds(known, order, beliefs, limits, one) for one in begun]
        return max(each, key=lambda one: float(known.weight @ one.log_density))
    best = max(begun, key=lambda one: float(few.weight @ _looked_at(few, one).log_density))
    if len(few.y) < min(len(order), limits.n_evidence):
        some = known.at(order[: limits.n_evidence])
        best = _most_probable(some, beliefs, limits, best.is_rough, best)
    return _looked_at(known, best)


class _Hyper(NamedTuple):
    logarithms: Float[np.ndarray, " d+2"]
    is_rough: bool


def _process(known: Known, hyper: _Hyper) -> GaussianProcess:
    *log_lengths, log_var, log_noise = hyper.logarithms
    numbers = (log_lengths, log_var, log_noise, hyper.is_rough)
    return GaussianProcess(*known, *(np.asarray(number, np.float64) for number in numbers))


def _looked_at(known: Known, hyper: _Hyper) -> Fitted:
    """Look at each row from all others."""
    process = _process(known, hyper)
    m, v = process.left_out()
    return Fitted(process, m, v, _log_density(process, known.y, m, v))


def _in_folds(
    known: Known, order: np.ndarray, beliefs: Beliefs, limits: Limits, hyper: _Hyper
) -> Fitted:
    """Look at each row by lengths, a² and s that were learnt without it."""
    m, v, log_density = np.empty((3, len(order)))
    for fold in range(N_FOLDS):
        out, rest = order[fold::N_FOLDS], np.delete(order, np.s_[fold::N_FOLDS])
        learnt = _most_probable(known.at(rest), beliefs, limits, hyper.is_rough)
        there = _looked_at(known, learnt)
        m[out], v[out], log_density[out] = there.m[out], there.v[out], there.log_density[out]
    return Fitted(_process(known, hyper), m, v, log_density)


def _log_density(
    process: GaussianProcess, y: np.ndarray, m: np.ndarray, v: np.ndarray
) -> Float[np.ndarray, " n"]:
    """Of single measurements."""
    return stats.norm.logpdf(y, m, np.sqrt(v + np.exp(process.log_noise)))


def _most_probable(
    known: Known, beliefs: Beliefs, limits: Limits, is_rough: bool, start: _Hyper | None = None
) -> _Hyper:
    """Return the logarithms of lengths, a² and s that evidence and priors make so."""
    d, scale = known.x.shape[1], np.log(max(np.mean(np.square(known.y)), _LEAST_SQUARE))
    middle = np.full(d, np.log(beliefs.length) + 0.5 * np.log(d))
    has_prior = d <= len(known.x)  # of more columns than rows most say nothing: lengths are free

    def loss(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = negative_log_evidence(logarithms, known, is_rough=is_rough)
        away = has_prior * (logarithms[:d] - middle)
        std = beliefs.length_std * np.where(away > 0.0, LONGER, 1.0)
        large = max(logarithms[d] - scale - _LARGE, 0.0) / _LARGE
        gradient[:d] += away / std**2
        gradient[d] += large / _LARGE
        return value + 0.5 * float(np.square(away / std).sum() + large**2), gradient

    most_log_noise = max(scale, limits.least_log_noise) + _MOST_LOG_NOISE
    of_var, of_noise = (scale + _VAR[0], scale + _VAR[1]), (limits.least_log_noise, most_log_noise)
    beginning = np.r_[middle, scale + _HALF, scale + _HALF]
    best = optimize.minimize(
        loss,
        beginning if start is None else start.logarithms,
        jac=True,
        method="L-BFGS-B",
        bounds=[_LENGTHS] * d + [of_var, of_noise],
        options={"maxiter": beliefs.n_steps if start is None else _N_MORE_STEPS},
    )
    return _Hyper(best.x, is_rough)


def _cholesky(joint: Float[np.ndarray, "n n"], var: float) -> Float[np.ndarray, "n n"]:
    """Lower factor; rounded differences of large covariances may need more on the diagonal."""
    more = 1e-12 * var
    while True:
        joint[np.diag_indices(len(joint))] += more
        try:
            return linalg.cholesky(joint, lower=True, check_finite=False)
        except linalg.LinAlgError:
            more *= 10.0
