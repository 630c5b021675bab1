"""Gaussian copula of the inputs, to impute missing inputs from observed ones.

A Gaussian copula of factors: z = W u + sqrt(1 - |W|²) e with u ~ N(0, I) and e ~ N(0, I), and
column j of a row is the quantile Q_j(Phi(z_j)) of what training rows hold in it. Given the columns
that are known, u is Gaussian, so that all missing ones are drawn together; what is drawn was seen
in a training row, so whole numbers stay whole. The copula leaves the distribution of every column
as it is (Nelsen 2006, section 2.3); a few factors make it cheap for many columns (Murray et al.
2013). Neighbouring columns of 0 and 1 of which a row has one at most, such as the levels of a
category, are drawn together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import special

from bayesprop.numerics import graphs
from bayesprop.numerics.graphs import Node

NO_INPUT_MODEL = (
    "X must hold no missing values (NaN), because this model was saved without how its columns go "
    "together: fit it again"
)
COMPLETIONS = 16
"""Drawn of a row with gaps that is to be predicted."""

_MOST_ROWS, _MOST_KNOTS, _MOST_FACTORS, _MOST_PAIRED = 2000, 128, 64, 1000
_LEAST_OWN = 1e-3
"""Share of a column's variance that the factors do not explain, at least."""
_LEAST_SHARE = 1e-6
_LEAST_LEVEL_VAR = 1e-9
"""Added to variances of functions of factors, of which there may be fewer than of levels."""
_OUTWARDS = 1e-8
"""Part of itself that a score moves outwards: on the edge of two knots rounding would choose."""
_SAME = 1e-10
"""Part of a value, or of a score, that counts as rounding."""
_CHUNK_ELEMENTS = 2**22
_SEED = 20_150_706


@dataclass(frozen=True, eq=False)
class GaussianCopula:
    """Marginals of the columns, and their copula.

    knots
        Values of every column in rising order, each standing for as many rows as another, (q, d).
    loadings
        W: correlations of the scores of columns with the factors, (d, k).
    block
        Of every column the number of the columns that it is drawn with, (d,).
    """

    knots: Float[np.ndarray, "q d"]
    loadings: Float[np.ndarray, "d k"]
    block: Int[np.ndarray, " d"]

    @classmethod
    def fit(cls, X: Float[np.ndarray, "n d"]) -> GaussianCopula:
        """Learn from rows with or without gaps (NaN), at least one value a column."""
        known = ~np.isnan(X)
        n_knots = min(len(X), _MOST_KNOTS)
        level = (np.arange(n_knots) + 0.5) / n_knots
        places = np.floor(level[:, None] * known.sum(axis=0)).astype(int)
        knots = np.take_along_axis(np.sort(X, axis=0), places, axis=0)
        return cls(knots, _loadings(_scores(knots, X), known), _blocks(X))

    def of_columns(self, n: int) -> GaussianCopula:
        """Keep the first n columns; the others are integrated out."""
        return GaussianCopula(self.knots[:, :n], self.loadings[:n], self.block[:n])

    def completions(
        self, X: Float[np.ndarray, "n d"], n: int = COMPLETIONS
    ) -> Float[np.ndarray, "n c d"]:
        """Return rows with their gaps filled in n ways.

        The numbers are those of every other row and call, so that a row is completed alike in any
        company.
        """
        u = _even_numbers(n, self._n_drawn)
        return self._filled(X, n, lambda _: u)

    def completed(
        self, X: Float[np.ndarray, "n d"], rng: np.random.RandomState
    ) -> Float[np.ndarray, "n d"]:
        """Return rows with their gaps filled in one way, drawn for each of them."""
        draw = rng.random_sample
        return self._filled(X, 1, lambda n: draw((n, 1, self._n_drawn)))[:, 0]

    def graph(self, X: Node) -> Node:
        """Write `completions` as a graph of ONNX; (n, d) to (n c, d)."""
        (q, d), where_less = self.knots.shape, graphs.where_less
        u = np.clip(_even_numbers(COMPLETIONS, self._n_drawn), _LEAST_SHARE, 1.0 - _LEAST_SHARE)
        gap = where_less(X - X, 1.0, 0.0, 1.0)
        x = where_less(X, np.inf, X, 0.0)
        near = (graphs.applied("abs", x) + _size(self.knots)) * _SAME
        low, high = ((x + side).reshape(-1, d, 1) for side in (-near, near))
        equal = where_less(high, self.knots.T, 0.0, 1.0)
        below = where_less(self.knots.T, low, 2.0, equal).sum().reshape(-1, d)
        table = np.concatenate([_score_table(own) for own in self.knots.T])
        known = graphs.taken(table, below + (2.0 * q + 1.0) * np.arange(d)) * (1.0 - gap)
        drawn = graphs.taken(special.ndtri(u[:, :d]).T, gap @ np.triu(np.ones((d, d)), 1))
        z = self._drawn_scores(gap, known, drawn)
        # The runtime leaves out a product with a number as close to 1 as 1 + _OUTWARDS.
        place = graphs.smaller(graphs.bell(z + z * _OUTWARDS).lower * q, q - 1.0)
        filled = graphs.taken(self.knots.T.ravel(), place + q * np.arange(d)[:, None])
        gap, known = gap.reshape(-1, d, 1), (x * (1.0 - gap)).reshape(-1, d, 1)
        level = self._is_level
        if level.any():
            # Of levels that are drawn together one is 1, or none.
            together = np.equal.outer(self.block, self.block).astype(float)
            share = np.clip(self.knots.mean(axis=0), _LEAST_SHARE, 1.0 - _LEAST_SHARE)
            bound, own_std = special.ndtri(1.0 - share)[:, None], np.sqrt(self._own_var)[:, None]
            p = graphs.bell((z - bound) / own_std).lower * gap * level[:, None]
            p = where_less(0.0, Node(graphs.variable(together)) @ known, 0.0, p)
            reached = Node(graphs.variable(np.tril(together))) @ p
            none = np.maximum(1.0 - together @ share, 0.0)[:, None]
            total = Node(graphs.variable(together)) @ p + none
            mark = total * u[:, d + together.argmax(axis=1)].T
            first = where_less(mark, reached - p, 0.0, 1.0)
            chosen = where_less(mark, reached, first, 0.0)
            filled = where_less(0.0, level[:, None] * 1.0, chosen, filled)
        return (known + gap * filled).mT.reshape(-1, d)

    def _drawn_scores(self, gap: Node, known: Node, drawn: Node) -> Node:
        """Turn standard normals of missing columns into their scores given the known ones.

        The start is the posterior of W u given every column, where a missing one holds 0. These
        are taken out of it, one after the other, and then drawn, as the rows of a Cholesky factor
        do it.
        """
        W, own_var, d = self.loadings, self._own_var, len(self.loadings)
        start = W @ np.linalg.inv(np.eye(W.shape[1]) + (W.T / own_var) @ W) @ W.T
        columns, of_gap = graphs.non_zero(gap.sum(0).reshape(-1)), gap.reshape(-1, d, 1)

        def swept(cov: Node, score: Node, *, is_drawn: bool) -> list[Node]:
            def step(i: Node, cov: Node, score: Node) -> list[Node]:
                column = graphs.taken(columns, i)
                row = graphs.taken(cov, column, 1)
                pivot = graphs.taken(row, column, 2)
                if is_drawn:
                    pivot = graphs.larger(pivot, _SAME)
                    move = graphs.applied("sqrt", pivot) * graphs.taken(drawn, column, 1)
                else:
                    pivot = pivot - graphs.taken(own_var, column)
                    move = -graphs.taken(score, column, 1)
                gain = (row / pivot * graphs.taken(of_gap, column, 1)).mT
                return [cov - gain @ row, score + gain @ move]

            n_steps = Node(graphs.operators().shape(columns.var))
            return graphs.repeated(n_steps, step, cov, score)

        score = (known @ (start / own_var).T).reshape(-1, d, 1) + drawn * 0.0
        cov, score = swept(of_gap * 0.0 + start, score, is_drawn=False)
        of_gaps = np.where(self._is_level, _LEAST_LEVEL_VAR, own_var)
        return swept(cov + of_gap * np.diag(of_gaps), score, is_drawn=True)[1]

    def validate(self) -> None:
        """Raise ValueError where the arrays do not fit together."""
        (n_knots, _), (_, n_factors) = self.knots.shape, self.loadings.shape
        is_right = (
            1 <= n_knots <= _MOST_KNOTS
            and 1 <= n_factors <= _MOST_FACTORS
            and (np.diff(self.knots, axis=0) >= 0.0).all()
            and bool(np.all(np.sum(self.loadings**2, axis=1) < 1.0))
            and (self.block[:1] == 0).all()
            and np.isin(np.diff(self.block), (0, 1)).all()
        )
        if not is_right:
            raise ValueError("the arrays of how inputs go together do not fit together")

    @property
    def _n_drawn(self) -> int:
        """Uniform numbers of a completion: one a missing column, and one a block of columns."""
        return 2 * len(self.loadings)

    @property
    def _own_var(self) -> Float[np.ndarray, " d"]:
        return 1.0 - np.sum(self.loadings**2, axis=1)

    @property
    def _is_level(self) -> Bool[np.ndarray, " d"]:
        """Columns that are drawn together with others."""
        return np.bincount(self.block)[self.block] > 1

    def _filled(
        self, X: Float[np.ndarray, "n d"], n: int, draw: Callable[[int], np.ndarray]
    ) -> Float[np.ndarray, "n c d"]:
        """Fill gaps in n ways, some rows at a time; `draw` returns uniform numbers for them."""
        filled = np.repeat(X[:, None], n, axis=1)
        most, k = np.isnan(X).sum(axis=1).max(initial=0), self.loadings.shape[1]
        room = max(1, _CHUNK_ELEMENTS // (k * k + most * most + n * self._n_drawn))
        for first in range(0, len(X), room):
            some = filled[first : first + room]
            self._fill(some, np.clip(draw(len(some)), _LEAST_SHARE, 1.0 - _LEAST_SHARE))
        return filled

    def _fill(self, filled: Float[np.ndarray, "n c d"], u: Float[np.ndarray, "... c r"]) -> None:
        """Impute the missing values of some rows in place."""
        gap, d = np.isnan(filled[:, 0]), len(self.loadings)
        z = self._scores_of_gaps(filled[:, 0], gap, special.ndtri(u[..., :d]))
        place = (special.ndtr(z + z * _OUTWARDS) * len(self.knots)).astype(int)
        place = np.minimum(place, len(self.knots) - 1)
        np.copyto(filled, self.knots[place, np.arange(d)], where=gap[:, None])
        for block in np.unique(self.block[self._is_level & gap.any(axis=0)]):
            columns = np.flatnonzero(self.block == block)
            rows = np.flatnonzero(gap[:, columns].any(axis=1))
            share = np.clip(self.knots[:, columns].mean(axis=0), _LEAST_SHARE, 1.0 - _LEAST_SHARE)
            bound = special.ndtri(1.0 - share)
            p = special.ndtr((z[rows][..., columns] - bound) / np.sqrt(self._own_var[columns]))
            at = np.ix_(rows, np.arange(filled.shape[1]), columns)
            of_block = np.broadcast_to(u[..., d + columns[0]], filled.shape[:2])[rows]
            filled[at] = _one_at_most(
                filled[at], gap[np.ix_(rows, columns)], p, 1.0 - share.sum(), of_block
            )

    def _scores_of_gaps(
        self,
        x: Float[np.ndarray, "n d"],
        gap: Bool[np.ndarray, "n d"],
        standard: Float[np.ndarray, "... c d"],
    ) -> Float[np.ndarray, "n c d"]:
        """Turn standard normals into scores of missing columns given the known ones.

        Given these the precision of u is P = I + the sum over known j of W_j W_j' / psi_j, with
        psi = 1 - |W|², and z of the missing columns has the covariance W P⁻¹ W' + psi. Of levels
        W u is drawn, and not z: the draw of one of them takes their psi. Rows with the same gaps
        share the root of the covariance, whose triangle gives a row with few gaps few numbers.
        """
        k, most = self.loadings.shape[1], gap.sum(axis=1).max()
        patterns, of_row = np.unique(gap, axis=0, return_inverse=True)
        columns = np.argsort(~patterns, axis=1, kind="stable")[:, :most]  # missing ones first
        missing = np.take_along_axis(patterns, columns, axis=1)
        weighted = self.loadings / self._own_var[:, None]
        square = (weighted[:, :, None] * self.loadings[:, None, :]).reshape(-1, k * k)
        precision = np.eye(k) + (~patterns @ square).reshape(-1, k, k)
        of_gaps = self.loadings[columns] * missing[..., None]
        gain = np.linalg.solve(precision, np.swapaxes(of_gaps, 1, 2))
        psi = np.where(self._is_level, _LEAST_LEVEL_VAR, self._own_var)
        own_var = np.where(missing, psi[columns], 1.0)
        root = np.linalg.cholesky(of_gaps @ gain + own_var[..., None] * np.eye(most))
        known = np.where(gap, 0.0, _scores(self.knots, x)) @ weighted
        drawn = standard[..., :most] @ np.swapaxes(root, 1, 2)[of_row]
        scores = np.zeros((len(x), drawn.shape[1], x.shape[1]))
        drawn = drawn + known[:, None] @ gain[of_row]
        np.put_along_axis(scores, columns[of_row][:, None], drawn, axis=2)
        return scores


class KnownInputs:
    """Copula of inputs and targets, learnt from some training rows at its first use.

    Built by `of_rows`, or of what was learnt already.
    """

    def __init__(self, rows: Any, model: GaussianCopula | None = None) -> None:
        self._rows = rows
        if model is not None:
            self.model = model

    @classmethod
    def of_rows(
        cls,
        X: Float[np.ndarray, "n d"],
        targets: Callable[[np.ndarray], np.ndarray],
        weight: Float[np.ndarray, " n"] | None,
    ) -> KnownInputs:
        """Keep some rows of positive weight, evenly spaced: of every column some value.

        targets
            Numbers of some rows, or which class they are of, (m, t).
        """
        counted = np.arange(len(X)) if weight is None else np.flatnonzero(weight > 0.0)
        at = counted[np.unique(np.linspace(0, len(counted) - 1, _MOST_ROWS).astype(int))]
        if np.isnan(X[at]).all(axis=0).any():
            at = counted
        return cls(np.column_stack([X[at], targets(at)]))

    @cached_property
    def model(self) -> GaussianCopula:
        """What they are like, inputs first."""
        return GaussianCopula.fit(self._rows)


@cache
def _even_numbers(n: int, r: int) -> Float[np.ndarray, "n r"]:
    """Return the middles of n equal shares of 0..1 in r random orders: a Latin hypercube.

    The first n / 2 orders are hardly correlated: of the normal scores of each its regression on
    those before it is taken off, and what is left is ranked (Owen 1994).
    """
    orders = np.random.default_rng(_SEED).permuted(np.tile(np.arange(n), (r, 1)), axis=1)
    u = (orders.T + 0.5) / n
    for j in range(1, min(r, n // 2)):
        before, own = special.ndtri(u[:, :j]), special.ndtri(u[:, j])
        left = own - before @ np.linalg.lstsq(before, own)[0]
        u[np.argsort(left), j] = (np.arange(n) + 0.5) / n
    return u


@cache
def even_normals(n: int, d: int) -> Float[np.ndarray, "n k"]:
    """Return n points of k = min(d, n / 2) independent standard normals, evenly spread.

    Their sample means are 0 and their sample covariance is I, so that what is linear, and products
    of two, have their exact mean; the scores of each column by those before it, as in
    `_even_numbers`, whose first columns have filled the gaps of `completions`.
    """
    z = special.ndtri(_even_numbers(n, 2 * d)[:, : min(d, n // 2)])
    root, triangle = np.linalg.qr(z - z.mean(axis=0))
    return np.sqrt(n) * root * np.sign(np.diag(triangle))


def _one_at_most(
    values: Float[np.ndarray, "n c b"],
    gap: Bool[np.ndarray, "n b"],
    p: Float[np.ndarray, "n c b"],
    p_none: float,
    u: Float[np.ndarray, "n c"],
) -> Float[np.ndarray, "n c b"]:
    """Draw which one of the missing columns is 1, or none; none where a known one is."""
    known = np.where(gap[:, None], 0.0, values)
    p = np.where(gap[:, None] & (known.sum(axis=2, keepdims=True) == 0.0), p, 0.0)
    reached = np.cumsum(p, axis=2)
    u = u * (reached[..., -1] + max(p_none, 0.0))
    first = np.sum(reached <= u[..., None], axis=2)
    return known + ((np.arange(p.shape[2]) == first[..., None]) & (p > 0.0))


def _scores(knots: np.ndarray, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Return normal scores of values by rank among the knots, of unit variance; NaN of gaps."""
    columns = zip(knots.T, x.T, strict=True)
    return np.stack([_column_scores(own, values) for own, values in columns], axis=1)


def _column_scores(knots: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(values), np.nan, _score_table(knots)[_below(knots, values)])


def _below(knots: np.ndarray, values: np.ndarray) -> Int[np.ndarray, " n"]:
    """Count the knots below each value twice, and those equal to it but for rounding once."""
    near = _SAME * (np.abs(values) + _size(knots))
    below = np.searchsorted(knots, values - near, "left")
    return below + np.searchsorted(knots, values + near, "right")


def _size(knots: Float[np.ndarray, "q ..."]) -> Float[np.ndarray, "..."]:
    """Return the usual size of a column, by which sines and cosines near 0 are rounded."""
    return np.median(np.abs(knots), axis=0)


def _score_table(knots: Float[np.ndarray, " q"]) -> Float[np.ndarray, " 2q+1"]:
    """Return the score for every count of `_below`."""
    q = len(knots)
    scores = special.ndtri(np.clip(np.arange(2 * q + 1) / (2 * q), 0.5 / q, 1 - 0.5 / q))
    own = scores[_below(knots, knots)]
    centre, spread = own.mean(), own.std()
    return (scores - centre) / (spread if spread > 0.0 else 1.0)


def _loadings(
    scores: Float[np.ndarray, "n d"], known: Bool[np.ndarray, "n d"]
) -> Float[np.ndarray, "d k"]:
    """Return leading components of the correlations.

    Each correlation is over the rows that hold both columns; all are shrunk as far as they are
    unsure (Schäfer & Strimmer 2005, eq. 8, each with the variance that a correlation of zero has).
    Beyond `_MOST_PAIRED` columns gaps count as means.
    """
    scores = np.where(known, scores, 0.0)
    n, d = scores.shape
    k = max(1, min(_MOST_FACTORS, n - 1, d))
    if d > _MOST_PAIRED:
        _, size, along = np.linalg.svd(scores / np.sqrt(n), full_matrices=False)
        return _bounded(along[:k].T * size[:k])
    rows = known.astype(np.float64)
    both, square = rows.T @ rows, (scores**2).T @ rows
    spread = np.sqrt(square * square.T)
    r = np.divide(scores.T @ scores, spread, out=np.zeros((d, d)), where=spread > 0.0)
    np.fill_diagonal(r, 0.0)
    sampling_var = 1.0 / np.maximum(both - 1.0, 1.0)
    np.fill_diagonal(sampling_var, 0.0)
    kept = 1.0 - min(1.0, np.sum(sampling_var) / max(float(np.sum(r**2)), _LEAST_SHARE))
    size, along = np.linalg.eigh(kept * (r + np.eye(d)))
    return _bounded(along[:, ::-1][:, :k] * np.sqrt(np.maximum(size[::-1][:k], 0.0)))


def _bounded(loadings: Float[np.ndarray, "d k"]) -> Float[np.ndarray, "d k"]:
    """Leave `_LEAST_OWN` of a column's variance to itself."""
    explained = np.sum(loadings**2, axis=1, keepdims=True)
    most = 1.0 - _LEAST_OWN
    return loadings * np.sqrt(most / np.maximum(explained, most))


def _blocks(X: Float[np.ndarray, "n d"]) -> Int[np.ndarray, " d"]:
    """Count off runs of 0/1 columns with at most one 1 per row; other columns are alone."""
    ones = X == 1.0
    is_flag = np.all(ones | (X == 0.0) | np.isnan(X), axis=0) & ones.any(axis=0)
    block, taken = np.zeros(X.shape[1], int), np.ones(len(X), bool)
    for j in range(X.shape[1]):
        goes_on = is_flag[j] and not (taken & ones[:, j]).any()
        block[j] = block[j - 1] + (not goes_on) if j else 0
        taken = (
            (taken | ones[:, j] if goes_on else ones[:, j]) if is_flag[j] else np.ones_like(taken)
        )
    return block
