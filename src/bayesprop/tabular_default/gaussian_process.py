"""An infinitely wide network beside the finite ones: a Gaussian process.

With ever more hidden units a Bayesian network becomes a Gaussian process (Neal 1996; Williams 1997,
"Computing with infinite networks"), here with a length of its own for every input (automatic
relevance determination), of the squared distance r² = sum_d (x_d - x'_d)² / l_d²:

    k = a² exp(-r²/2)  or  a² (1 + √5 r + 5 r²/3) exp(-√5 r)  (Matérn 5/2),    y ~ N(g(x), s / w)

for a row that counts w times. A linear model with weights from N(0, b²) is added, of covariance
b² (1 + x·x') (Rasmussen & Williams 2006, section 4.2.2): it has sums of columns to the digit, and
goes on beyond the rows. Where rows have groups, such as patients, those of one share a number of
their own from N(0, u) (the random intercept of mixed models: Laird & Ware 1982), which a new group
has anew: u counts with the noise. It learns smooth functions of little noise from hundreds of rows,
as finite networks hardly do from thousands. Lengths, a², s, b² and u maximise the evidence, times
log-normal priors of the lengths and of a² and b² where these are large (Rasmussen & Williams 2006,
chapter 5); which covariance it is, held-out rows decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int, Int64
from scipy import linalg

from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.numerics.machine import chunks, one_blas_thread
from bayesprop.numerics.rows import Rows

_SOLVE = {
    np.dtype(kind): linalg.get_lapack_funcs(("trtrs",), dtype=kind)[0]
    for kind in (np.float32, np.float64)
}
"""Of a triangle and a few columns: SciPy's own function checks for as long as this takes."""

MOST_ROWS = 2048
"""Rows that the process knows, at most."""

MOST_JOINT = 1024
"""Rows at which functions are drawn exactly; of more, the others are independent given these."""

JITTER, LINEAR_JITTER = 1e-10, 1e-12
"""Of a², and of b² (1 + x²): what keeps sums of large numbers exact."""

_NOISY = np.log(1e-2)  # log(s / a²) from which float32 gives variances to a thousandth of s
_FEW_ROWS = 100  # for which float64 is as fast
_FURTHEST = 60.0  # smaller exponentials are slow, and no longer seen

ROWS_OF_EVIDENCE = 1000
"""Rows of which a process learns its lengths, at most."""

FEW_ROWS, N_FOLDS = 300, 5
"""Fewer rows would fit their own lengths too well: they are held out in folds."""

LONGER = 2.0
"""Times the standard deviation of the logarithm of a length, where it is longer than expected: some
inputs say nothing."""

_LENGTH_STD = 1.5  # of the logarithm; the middle of the prior is the root of the number of columns
_LENGTHS, _VAR, _MOST_LOG_NOISE = (-3.0, 9.0), (-10.0, 10.0), 1.0  # of logarithms, y² being 1
_LARGE = 5.0  # log a² and log b² from which they have a prior, of this standard deviation, too
_N_FIRST, _N_STEPS, _N_MORE_STEPS = 256, 60, 20  # rows that choose the covariance; steps there
_HALF = -0.7  # log of the shares of a², s and b² (1 + d) where a search begins
_LEAST_STEP = 1e-6  # of the evidence: a search that gains less ends
_LEAST_WEIGHT, _LEAST_SQUARE = 1e-9, 1e-9
_MOST_LOGARITHM, _MOST = 60.0, 1e15  # in a file; the square of the latter is a float32


@dataclass(frozen=True, eq=False)
class KnownRows:
    """Rows that an expert knows, and what its fit chooses: logarithms of lengths, then of others.

    N_ROWS, N_OTHERS
        Least and most rows; numbers of other logarithms that there may be.
    """

    OWNER: ClassVar[str]
    N_ROWS: ClassVar[tuple[int, int]]
    N_OTHERS: ClassVar[tuple[int, ...]]
    x: Float[np.ndarray, "n d"]
    weight: Float[np.ndarray, " n"]
    logarithms: Float64[np.ndarray, " h"]

    def validate(self) -> None:
        """Raise ValueError where numbers are too large, or rows too few or too many."""
        for field in fields(self):
            value, most = getattr(self, field.name), _MOST
            if field.name.startswith("log"):
                most = _MOST_LOGARITHM
            if value is not None and not (np.abs(value) < most).all():
                raise ValueError(f"{self.OWNER} {field.name} must be below {most:g}")
        (least, most), n = self.N_ROWS, len(self.weight)
        if not least <= n <= most:
            raise ValueError(f"{self.OWNER} rows must be {least} to {most}, got {n}")
        if (self.weight <= 0.0).any():
            raise ValueError(f"{self.OWNER} weight must be > 0")
        if len(self.logarithms) - self.x.shape[1] not in self.N_OTHERS:
            raise ValueError(f"{self.OWNER} logarithms must be of every length, and others")

    @property
    def log_lengths(self) -> Float64[np.ndarray, " d"]:
        """Logarithms of the lengths."""
        return self.logarithms[: self.x.shape[1]]

    def __reduce__(self) -> tuple:
        """Leave out what can be computed again."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


class Limits(NamedTuple):
    """Least log s, and rows whose evidence is maximised, at most."""

    least_log_noise: float
    n_evidence: int


class Fitted(NamedTuple):
    """A process; mean, variance and log density of every target, each held out."""

    process: GaussianProcess
    m: Float[np.ndarray, " n"]
    v: Float[np.ndarray, " n"]
    log_density: Float[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class GaussianProcess(KnownRows):
    """Rows that it knows, float64; other logarithms are of a², s, b² and, of groups, u.

    What follows from these is computed when it is first needed.

    is_rough
        Whether its covariance is Matérn 5/2, not the Gaussian.
    group
        Numbers of the rows' groups; None: every row is one.
    """

    OWNER, N_ROWS, N_OTHERS = "the process's", (1, MOST_ROWS), (3, 4)
    x: Float64[np.ndarray, "n d"]
    weight: Float64[np.ndarray, " n"]
    y: Float64[np.ndarray, " n"]
    is_rough: bool
    group: Int64[np.ndarray, " n"] | None

    @classmethod
    def of(cls, rows: Rows, logarithms: Float[np.ndarray, " h"], is_rough: bool) -> GaussianProcess:
        """Take the logarithms of `negative_log_evidence`."""
        x, weight, y = (np.asarray(part, np.float64) for part in (rows.x, rows.weights, rows.y))
        return cls(x, weight, logarithms, y, is_rough, rows.group)

    @classmethod
    def fit(cls, rng: np.random.Generator, rows: Rows, limits: Limits) -> Fitted:
        """Maximise the evidence of some rows, and predict each row from all others.

        Of few rows, the latter by hyper-parameters that were fitted without the row.
        """
        rows = rows._replace(weight=np.maximum(rows.weights, _LEAST_WEIGHT))
        order = rng.permutation(len(rows.y))
        few = rows.at(order[: min(_N_FIRST, limits.n_evidence)])
        begun = [(maximise_evidence(few, limits, is_rough), is_rough) for is_rough in (False, True)]

        def in_folds(logarithms: np.ndarray, is_rough: bool) -> Fitted:
            fitted = cls.of(rows, logarithms, is_rough).held_out()
            place = np.arange(len(order)) if rows.group is None else rows.group[order]
            for fold in range(N_FOLDS):
                is_out = place % N_FOLDS == fold
                out, rest = order[is_out], order[~is_out]
                if len(out):
                    refitted = maximise_evidence(rows.at(rest), limits, is_rough)
                    there = cls.of(rows, refitted, is_rough).held_out()
                    for part, without in zip(fitted[1:], there[1:], strict=True):
                        part[out] = without[out]
            return fitted

        if len(order) < FEW_ROWS:
            each = [in_folds(*one) for one in begun]
            return max(each, key=lambda one: float(rows.weights @ one.log_density))
        first = [cls.of(few, *one).held_out().log_density for one in begun]
        best, is_rough = begun[int(np.argmax([few.weights @ one for one in first]))]
        if len(few.y) < min(len(order), limits.n_evidence):
            some = rows.at(order[: limits.n_evidence])
            best = maximise_evidence(some, limits, is_rough, best)
        return cls.of(rows, best, is_rough).held_out()

    def validate(self) -> None:
        """Raise ValueError where these are not a process."""
        super().validate()
        if (self.group is None) != (len(self._others) == 3):
            raise ValueError("the process's logarithms must be of groups where rows have groups")

    @property
    def _others(self) -> Float64[np.ndarray, " o"]:
        return self.logarithms[self.x.shape[1] :]

    @property
    def log_own_noise(self) -> float:
        """Log variance of a new row around g, of a group not seen: log(s + u)."""
        log_noise = self._others[1]
        return log_noise if self.group is None else np.log(np.exp(log_noise) + self._group_var)

    @property
    def _group_var(self) -> float:
        return 0.0 if self.group is None else np.exp(self._others[3])

    def log_density(
        self, y: Float[np.ndarray, " m"], m: Float[np.ndarray, " m"], v: Float[np.ndarray, " m"]
    ) -> Float[np.ndarray, " m"]:
        """Log densities of new measurements, of groups not seen, where g has these moments."""
        return GaussianPredictive(m, v, np.exp(self.log_own_noise)).log_prob(y)

    @cached_property
    def _row_noise(self) -> Float[np.ndarray, " n"]:
        var, noise = np.exp(self._others[:2])
        jitter = JITTER * var + LINEAR_JITTER * self._linear_variance(self._measured(self.x))
        return noise / self.weight + jitter

    @cached_property
    def _root(self) -> Float[np.ndarray, "n n"]:
        """Lower Cholesky factor of K + N."""
        with one_blas_thread():
            at = self._measured(self.x)
            total = self._covariance(at, at)
            total[np.diag_indices(len(total))] += self._row_noise
            if self.group is not None:
                total += self._group_var * np.equal.outer(self.group, self.group)
            return linalg.cholesky(total, lower=True, overwrite_a=True, check_finite=False)

    @cached_property
    def _known(self) -> tuple[Float[np.ndarray, "n f"], Float[np.ndarray, "n n"]]:
        """Rows in lengths, and the root, as precise as predictions want them."""
        at = self._measured(self.x)
        is_noisy = self._others[1] - np.log(self._variance(at).max()) > _NOISY
        dtype = np.float32 if is_noisy and len(at) > _FEW_ROWS else np.float64
        return at.astype(dtype), np.asfortranarray(self._root, dtype)

    @cached_property
    def _pulls(self) -> Float[np.ndarray, " n"]:
        """(K + N)^-1 y."""
        return linalg.cho_solve((self._root, True), self.y, check_finite=False)

    @cached_property
    def _units(self) -> Float[np.ndarray, " f"]:
        b = np.sqrt(np.exp(self._others[2]))
        return np.append(np.exp(-self.log_lengths), np.full(self.x.shape[1] + 1, b))

    def _measured(self, x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m f"]:
        """Measure rows, as float32 as those that it knows, in lengths; behind them b (1, x)."""
        x = np.asarray(np.float32(x), np.float64)
        return np.concatenate([x, one_and(x)], axis=1) * self._units

    def _covariance(
        self, a: Float[np.ndarray, "n f"], b: Float[np.ndarray, "m f"]
    ) -> Float[np.ndarray, "n m"]:
        d = self.x.shape[1]
        square = square_of(a[:, :d], b[:, :d])
        k, _ = correlation_and_slope(square, is_rough=self.is_rough)
        k *= np.exp(self._others[0])
        k += a[:, d:] @ b[:, d:].T
        return k

    def _linear_variance(self, at: Float[np.ndarray, "m f"]) -> Float[np.ndarray, " m"]:
        return np.square(at[:, self.x.shape[1] :]).sum(axis=1)

    def _variance(self, at: Float[np.ndarray, "m f"]) -> Float[np.ndarray, " m"]:
        """Variance of g at rows before any is seen."""
        return np.exp(self._others[0]) + self._linear_variance(at)

    def held_out(self) -> Fitted:
        """Predict every known row from all of other groups.

        With P the block of the inverse of the covariance of y, the mean is y - P^-1 (K + N)^-1 y,
        and P^-1 the covariance of y (Rasmussen & Williams 2006, eq. 5.12 for one row).
        """
        inverse = inverse_triangle(self._root)
        m, v = self.y - self._pulls / np.diag(inverse), 1.0 / np.diag(inverse)
        for rows in [] if self.group is None else same(self.group):
            if len(rows) > 1:
                block = np.tril(inverse[np.ix_(rows, rows)])
                covariance = linalg.inv(block + np.tril(block, -1).T)
                m[rows] = self.y[rows] - covariance @ self._pulls[rows]
                v[rows] = np.diag(covariance)
        v = np.maximum(v - self._row_noise - self._group_var, 0.0)
        return Fitted(self, m, v, self.log_density(self.y, m, v))

    def moments(
        self, x: Float[np.ndarray, "m d"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Mean and variance of g."""
        m, v = np.empty((2, len(x)))
        at = self._measured(x)
        for part, k, solved in self._pieces(at, *self._known):
            m[part], v[part] = k @ self._pulls, self._variance(at[part]) - _squares(solved)
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
        root = raised_cholesky(joint, 1e-12 * float(np.diag(joint).max()))
        normal, drawn = rng.standard_normal((n, len(first))), np.empty((n, len(at)))
        for part, k, solved in self._pieces(at, known, self._root):
            shared = self._covariance(at[part], first) - solved.T @ before
            lean = _solved(root, shared)
            v = self._variance(at[part]) - _squares(solved) - _squares(lean)
            drawn[:, part] = k @ self._pulls + normal @ lean
            drawn[:, part] += np.sqrt(np.maximum(v, 0.0)) * rng.standard_normal((n, lean.shape[1]))
        return drawn

    def _pieces(
        self,
        at: Float[np.ndarray, "m f"],
        known: Float[np.ndarray, "n f"],
        root: Float[np.ndarray, "n n"],
    ) -> Iterator[tuple[slice, Float[np.ndarray, "r n"], Float[np.ndarray, "n r"]]]:
        """Give rows, their covariance with those known, and this solved by the root, in pieces."""
        at = at.astype(root.dtype)
        for part in chunks(len(at), 4 * len(known)):
            k = self._covariance(at[part], known)
            yield part, k, _solved(root, k)


def inverse_triangle(root: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """Lower triangle of the inverse of a symmetric matrix with that lower Cholesky factor."""
    (potri,) = linalg.get_lapack_funcs(("potri",), (root,))
    return potri(root, lower=1)[0]


def raised_cholesky(
    square: Float[np.ndarray, "n n"], more: float, least: float = 0.0
) -> Float[np.ndarray, "n n"]:
    """Lower factor of a matrix, which is written over, with so much more on its diagonal.

    Rounded sums of large numbers may need ten times that, or `least` of the largest number there
    and of the size, and again ten times.
    """
    diagonal = np.diag_indices(len(square))
    while True:
        square[diagonal] += more
        try:
            return linalg.cholesky(square, lower=True, check_finite=False)
        except linalg.LinAlgError:
            more = max(10.0 * more, least * len(square) * square[diagonal].max())


def _solved(root: Float[np.ndarray, "n n"], k: Float[np.ndarray, "r n"]) -> np.ndarray:
    """Return root^-1 k', (n, r)."""
    return _SOLVE[root.dtype](root, k.T, lower=1)[0]


def _squares(columns: Float[np.ndarray, "n r"]) -> Float[np.ndarray, " r"]:
    """Add up the squares of every column."""
    return np.einsum("nr,nr->r", columns, columns, dtype=np.float64)


def one_and(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n e"]:
    """Put a column of ones before others."""
    return np.concatenate([np.ones((len(x), 1)), x], axis=1)


def same(number: Int[np.ndarray, " n"]) -> list[Int[np.ndarray, " r"]]:
    """Return the places of every number, in the order of the numbers."""
    order = np.argsort(number, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(number[order])) + 1)


def square_of(a: Float[np.ndarray, "n d"], b: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "n m"]:
    """Squared distances."""
    square = a @ b.T
    square *= -2.0
    square += np.square(a).sum(axis=1)[:, None]
    square += np.square(b).sum(axis=1)
    return np.maximum(square, 0.0, out=square)


def correlation_and_slope(
    square: Float[np.ndarray, "n m"], *, is_rough: bool
) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
    """Return k / a² of squared distances, and minus twice its slope in these.

    Of the Gaussian both are the same array.
    """
    if not is_rough:
        k = np.exp(-np.minimum(0.5 * square, _FURTHEST))
        return k, k
    r = np.minimum(np.sqrt(5.0 * square), _FURTHEST)
    decay = np.exp(-r)
    return (1.0 + r + r * r / 3.0) * decay, 5.0 / 3.0 * (1.0 + r) * decay


def negative_log_evidence(
    logarithms: Float[np.ndarray, " h"], rows: Rows, *, is_rough: bool
) -> tuple[float, Float[np.ndarray, " h"]]:
    """-log N(y | 0, K + N) without its constant, and its gradient.

    logarithms
        Of the lengths, of a², of s and of b², and where rows have groups of u.
    """
    (x, y, _, group), d = rows, rows.x.shape[1]
    log_var, log_noise, log_linear, *log_group = logarithms[d:]
    at, noise = x / np.exp(logarithms[:d]), np.exp(log_noise) / rows.weights
    total, k = correlation_and_slope(square_of(at, at), is_rough=is_rough)
    total, k = np.exp(log_var) * total, np.exp(log_var) * k
    linear = np.exp(0.5 * log_linear) * one_and(x)
    own = np.square(linear).sum(axis=1)
    total += linear @ linear.T
    total[np.diag_indices(len(x))] += noise + JITTER * np.exp(log_var) + LINEAR_JITTER * own
    is_same = None if group is None else np.equal.outer(group, group)
    if is_same is not None:
        total += np.exp(log_group[0]) * is_same
    root = linalg.cholesky(total, lower=True, overwrite_a=True, check_finite=False)
    pulls = linalg.cho_solve((root, True), y, check_finite=False)
    value = 0.5 * y @ pulls + np.log(np.diag(root)).sum()
    # Of A = ((K + N)^-1 - pulls pulls') * slopes, element by element, row sums and at' A at.
    below = inverse_triangle(root)
    of_noise = np.diag(below) - np.square(pulls)
    solved = linalg.solve_triangular(root, linear, lower=True, check_finite=False)
    of_linear = np.square(solved).sum() - np.square(pulls @ linear).sum()
    of_linear += LINEAR_JITTER * of_noise @ own
    of_group, explained = [], of_linear
    if is_same is not None:
        of_blocks = 2.0 * np.sum(below, where=is_same & np.tri(len(x), dtype=bool))
        in_blocks = of_blocks - np.diag(below).sum() - pulls @ (is_same @ pulls)
        in_blocks *= np.exp(log_group[0])
        of_group, explained = [0.5 * in_blocks], of_linear + in_blocks
    below *= k
    pulled = pulls[:, None] * at
    each = below.sum(axis=0) + below.sum(axis=1) - np.diag(below) - pulls * (k @ pulls)
    products = 2.0 * at * (below @ at) - np.diag(below)[:, None] * at**2 - pulled * (k @ pulled)
    of_lengths = each @ np.square(at) - products.sum(axis=0)
    of_var = len(x) - y @ pulls - of_noise @ noise - explained
    of_others = 0.5 * np.array([of_var, of_noise @ noise, of_linear])
    return value, np.r_[of_lengths, of_others, of_group]


def maximise_evidence(
    rows: Rows, limits: Limits, is_rough: bool, start: Float[np.ndarray, " h"] | None = None
) -> Float[np.ndarray, " h"]:
    """Return the most probable logarithms of lengths, a², s, b² and, of groups, u."""
    from scipy import optimize

    d, scale = rows.x.shape[1], np.log(max(np.mean(np.square(rows.y)), _LEAST_SQUARE))
    middle = np.full(d, 0.5 * np.log(d))
    of_variances = [d, d + 2]
    has_prior = d <= len(rows.x)  # of more columns than rows most say nothing: lengths are free

    def loss(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = negative_log_evidence(logarithms, rows, is_rough=is_rough)
        away = has_prior * (logarithms[:d] - middle)
        std = _LENGTH_STD * np.where(away > 0.0, LONGER, 1.0)
        large = np.maximum(logarithms[of_variances] - scale - _LARGE, 0.0) / _LARGE
        gradient[:d] += away / std**2
        gradient[of_variances] += large / _LARGE
        priors = np.square(away / std).sum() + np.square(large).sum()
        return value + 0.5 * float(priors), gradient

    most_log_noise = max(scale, limits.least_log_noise) + _MOST_LOG_NOISE
    of_var, of_noise = (scale + _VAR[0], scale + _VAR[1]), (limits.least_log_noise, most_log_noise)
    bounds = [_LENGTHS] * d + [of_var, of_noise, of_var]
    beginning = [*middle, scale + _HALF, scale + _HALF, scale + _HALF - np.log(1 + d)]
    if rows.group is not None:
        bounds, beginning = [*bounds, of_var], [*beginning, scale + _HALF]
    best = optimize.minimize(
        loss,
        beginning if start is None else start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={
            "maxiter": _N_STEPS if start is None else _N_MORE_STEPS,
            "ftol": _LEAST_STEP,
        },
    )
    return best.x
