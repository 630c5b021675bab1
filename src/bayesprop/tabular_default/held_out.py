"""Held-out predictions of training rows, from the joint covariance of a network's weights.

Training gives every weight a variance of its own. Where no row lies that is too small, and among
the rows too large, because what one weight does another can undo. A Gaussian of full covariance S
has, where the objective of training is stationary and by the Gauss-Newton approximation,

    1 / S = diag(1 / v*) + sum_rows J' r J

with v* the best variances of the priors, J the slopes of the mean in the weights, and r the
precision that the bound of training sees in a row. The variance of the mean is then J S J', which
is known to grow between the rows where independent weights do not (Foong et al. 2019, "In-between
uncertainty"; Immer et al. 2021 for the linear form of the prediction).

The rows say nothing of the weights of a dead unit, but training leaves all dead units the same
kink, at their prior's mean. Those of the last hidden layer are reinitialised first: the weights
that enter one become a draw from their prior, so that its kink may lie anywhere, also where no row
does, and the rows decide how much of it the output may hold. The mean stays as it was.

S itself would be too large to keep and to multiply by. Kept are a few factors, vectors of all
weights whose outer products add up to S on average, drawn orthogonal, so that few of them suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import linalg

from bayesprop.numerics.machine import n_cores
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default.gaussian_process import inverse_triangle, raised_cholesky
from bayesprop.tabular_default.neighbours import bits
from bayesprop.tabular_default.networks import (
    Layers,
    Member,
    Networks,
    activations,
    dead_units,
    flat,
    n_units_below,
    outputs,
    prior_variances,
    weight_groups,
)
from bayesprop.tabular_default.settings import TILT_LIMIT, EnsembleSettings
from bayesprop.tabular_default.stack import MOST_MEASUREMENTS, Components, tail

ROWS_A_CELL, LEVELS_CROSSED = 2, 2
"""Of a table of cells: rows of the same inputs, and different inputs for a level of a column."""


class Distinct(NamedTuple):
    """Rows of a table, those with the same inputs as one.

    once
        Every input once, in the table's order; its target the mean, its weight the sum.
    table
        The rows as they were: inputs float32, targets (n, o), weights of mean 1; groups None where
        rows have none.
    number
        Of the input of every row of `table`, (n,).
    unit
        What a weight of `table` is multiplied by to count rows.
    fold
        The member that leaves an input out, (m,); None where rows have no groups.
    """

    once: Rows
    table: Rows
    number: Int[np.ndarray, " n"]
    unit: float = 1.0
    fold: Int[np.ndarray, " m"] | None = None

    @classmethod
    def of(
        cls, table: Rows, unit: float = 1.0, fold: Int[np.ndarray, " n"] | None = None
    ) -> Distinct:
        """Put rows together whose inputs are equal to the last bit, and their groups."""
        group = table.group
        key = table.x if group is None else np.column_stack([table.x, np.float32(group)])
        _, first, number = np.unique(bits(key), return_index=True, return_inverse=True)
        order = np.argsort(first)
        number, first = np.argsort(order)[number], first[order]
        weight, y = table.weight.astype(np.float64), table.y[first].astype(np.float64)
        each = np.bincount(number, weight)
        total = sums(number, weight[:, None] * table.y, len(y))
        np.divide(total, each[:, None], out=y, where=each[:, None] > 0.0)
        once = Rows(table.x[first], y, each, None if group is None else group[first])
        return cls(once, table, number, unit, None if fold is None else fold[first])

    @property
    def has_cells(self) -> bool:
        """Whether a few levels of every column are crossed, and new rows will be of these cells.

        As against rows of groups, such as patients, whose inputs no other group has.
        """
        n_inputs, columns = len(self.once.x), self.once.x.T
        return ROWS_A_CELL * n_inputs <= len(self.table.x) and all(
            LEVELS_CROSSED * len(np.unique(column)) <= n_inputs for column in columns
        )

    @property
    def cells_apart(self) -> Distinct:
        """The same rows, each of its own inputs where these are cells without groups."""
        rows, fold = self.table, self.fold
        if rows.group is not None or not self.has_cells:
            return self
        fold = None if fold is None else fold[self.number]
        return Distinct(rows, rows, np.arange(len(rows.x)), self.unit, fold)

    def given(self, encode: Callable[[np.ndarray], np.ndarray]) -> Distinct:
        """Return the same rows with encoded inputs."""
        once, table = (part._replace(x=encode(part.x)) for part in (self.once, self.table))
        return self._replace(once=once, table=table)

    def measured(
        self, some: Int[np.ndarray, " r"]
    ) -> tuple[Rows, Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
        """Return the rows at some of the different inputs, and which of `some` theirs is, (m,).

        Their groups are those that are left out together: of the table, or rows of an input. And
        their numbers in the table. Rows of weight 0 are left away.
        """
        place = np.full(len(self.once.x), -1)
        place[some] = np.arange(len(some))
        at = place[self.number]
        rows = np.flatnonzero((at >= 0) & (self.table.weight > 0.0))
        at, group = at[rows], self.once.group
        y, weight = (part[rows].astype(np.float64) for part in (self.table.y, self.table.weight))
        unit = at if group is None else group[some][at]
        return Rows(self.table.x[rows], y, self.unit * weight, unit), at, rows


def sums(
    number: Int[np.ndarray, " r"], values: Float[np.ndarray, "r o"], n: int
) -> Float[np.ndarray, "n o"]:
    """Add up the values of every number from 0 to n - 1."""
    return np.stack([np.bincount(number, column, n) for column in values.T], axis=1)


N_FACTORS, LEAST_FACTORS = 16, 48
"""Of a member, and of all together at least: the relative standard error of a variance is
sqrt(2 / number), of six members' a seventh."""

MOST_WEIGHTS = 20_000
"""Weights of a mean network beyond which they stay independent."""

CERTAIN = np.float32(-9.0)
"""Log standard deviation of a weight that has been drawn."""

ENOUGH_ROWS = 2048
"""Rows that stand for more: with fewer, what they leave open would be taken for unknown."""

_MOST_PRODUCTS = 2 * 10**10  # of the matrix of weights, from which more rows than that are allowed
_LEAST_LEFT = 1e-3  # of an error, where a row alone decides
_UNSEEN = 1e-9  # of the precision of a row, for a member that was trained without it
_MOST_OF_FOLDS = 8192  # rows that judge where weights are independent
_ROUNDING = 1e-15  # of sums of enormous weights
_LEAST_PRECISION = 1e-30  # which says nothing, and can be divided by
_MOST_NUMBERS, _MOST_AT_A_TIME = 3 * 10**7, 10**8  # in J: rows times outputs times weights


MOST_LEVERAGE = 0.8
"""Of a row, beyond which what a member predicts without it is too far away for a first order."""


class HeldOut(NamedTuple):
    """Held-out predictions of one expert: of every row as if the expert had not seen it.

    rows
        Numbers of the different inputs, (r,).
    components
        At these rows; where rows have groups, of the member that has not seen the group.
    is_near
        Whether this is close to what the expert would predict, (r,): no leverage is large.
    """

    rows: Int[np.ndarray, " r"]
    components: Components
    is_near: Bool[np.ndarray, " r"]

    @property
    def near(self) -> HeldOut:
        """Rows of low leverage alone."""
        at = np.flatnonzero(self.is_near)
        return HeldOut(self.rows[at], self.components.at(at), self.is_near[at])

    def with_tails(self, seed: int, distinct: Distinct) -> tuple[Float[np.ndarray, "2 o"], HeldOut]:
        """Return the tails that rows choose for the noise of every output, and rows with them."""
        rng = np.random.default_rng([seed % 2**32, 9])
        measured, at, _ = distinct.measured(self.rows)
        some = np.sort(rng.permutation(len(at))[:MOST_MEASUREMENTS])
        measured, components = measured.at(some), self.components.at(at[some])
        targets = enumerate(measured.y.T)
        each = [tail(components.column(o), measured._replace(y=y)) for o, y in targets]
        tails = np.array(each).T
        return tails, self._replace(components=self.components.with_noise(*tails))

    def residuals(self, distinct: Distinct) -> Float[np.ndarray, "n o"]:
        """Residuals of every row of the table, in predicted standard deviations; NaN of others."""
        measured, at, rows = distinct.measured(self.rows)
        predicted = self.components.at(at).predictive()
        residuals = np.full(distinct.table.y.shape, np.nan)
        residuals[rows] = (measured.y - predicted.mean) / predicted.std
        return residuals


def hold_out(
    networks: Networks,
    distinct: Distinct,
    settings: EnsembleSettings,
    seed: int,
    n_total: float | None = None,
) -> tuple[Networks, HeldOut | None]:
    """Return trained networks with covariance factors, unless the networks are too large.

    And held-out predictions: to first order, the error at a row that counts r grows by
    1 / (1 - h), and so does the variance J S J', with h = r J S J' the leverage of the row. Rows of
    the same inputs are left out together: their r add up, and their targets are averaged by it.
    Where rows have groups, a member was trained without some of these, whose r are nothing to it.

    n_total
        Weight of all rows that were learnt, for which these stand; None: these are all.
    """
    n_weights, once = networks.n_mean_weights, distinct.once
    some = rows_to_look_at(once.weight, n_weights, networks.n_outputs, seed)
    is_finite = all(np.isfinite(flat(member)).all() for member in networks.members)
    if n_weights > MOST_WEIGHTS or some is None or not is_finite:
        if distinct.fold is None or not is_finite:
            return networks, None
        rng = np.random.default_rng([seed % 2**32, 2])
        some = np.sort(rng.permutation(np.flatnonzero(once.weight))[:_MOST_OF_FOLDS])
        components = outputs(networks, once.x[some]).by(distinct.fold[some])
        return networks, HeldOut(some, components, np.ones(len(some), bool))
    x, weight, (measured, at, _) = once.x[some], once.weight[some], distinct.measured(some)
    own = distinct.unit * weight
    counts = weight * ((n_total or distinct.unit * once.weight.sum()) / weight.sum())
    predicted, spread = outputs(networks, x), settings.priors.mean
    there, total = predicted.at(at), sums(at, measured.weight[:, None], len(some))
    trained = networks.members
    each = tuple(
        reinitialise_dead_units(seed, k, member, spread) for k, member in enumerate(trained)
    )
    networks = networks._replace(members=each)
    number = max(N_FACTORS, -(-LEAST_FACTORS // len(each)))
    fold = None if distinct.fold is None else distinct.fold[some]

    def of_member(k: int) -> tuple[np.ndarray, ...]:
        seen = 1.0 if fold is None else np.where(fold == k, _UNSEEN, 1.0)[:, None]
        at_rows = each[k].mean, x, *activations(networks, x, k)
        j = slopes(*at_rows).reshape(-1, n_weights)
        each_r = row_precisions(networks, settings, there, measured.y, k) * measured.weight[:, None]
        r = sums(at, each_r, len(some)) / total
        y = sums(at, each_r * measured.y, len(some)) / total / r
        variances = prior_variances(trained[k].mean, spread)
        prior_var = np.concatenate([part for layer in variances for part in layer], axis=None)
        rng = np.random.default_rng([seed % 2**32, 2, k])
        all_r = seen * (counts[:, None] * r)
        gram = partial(prior_covariance, *at_rows, variances)
        vectors, h = covariance_factors(rng, j, all_r.ravel(), prior_var, number, gram)
        v = h.reshape(r.shape) / all_r
        leverage = seen * (own[:, None] * r * v)
        stays = np.maximum(1.0 - leverage, _LEAST_LEFT)
        return vectors, y + (predicted.m[k] - y) / stays, v / stays, leverage.max(axis=1)

    fit_in = _MOST_AT_A_TIME // (x.shape[0] * networks.n_outputs * n_weights)
    with ThreadPoolExecutor(max(1, min(n_cores(), fit_in))) as pool:
        vectors, m, v, leverage = zip(*pool.map(of_member, range(len(each))), strict=True)
    networks = networks._replace(factors=np.array(vectors, np.float32))
    held_out = predicted._replace(m=np.array(m), v=np.array(v))
    if fold is not None:
        return networks, HeldOut(some, held_out.by(fold), np.ones(len(some), bool))
    return networks, HeldOut(some, held_out, np.max(leverage, axis=0) <= MOST_LEVERAGE)


def reinitialise_dead_units(seed: int, k: int, member: Member, spread: float) -> Member:
    """Return member k with a kink of its own for every dead unit of the last hidden layer.

    Its width is that of one of the others.
    """
    *below, entering, leaving = member.mean
    n_units = entering.b_m.size
    is_dead = np.array(dead_units(member.mean, spread)[-n_units:])
    rng, n = np.random.default_rng([seed % 2**32, 3, k]), int(is_dead.sum())
    w_var, b_var = prior_variances(member.mean, spread)[-2]
    weights, biases, leaving_m = (np.array(a) for a in (entering.w_m, entering.b_m, leaving.w_m))
    weights[:, is_dead] = np.sqrt(w_var[:, is_dead]) * rng.standard_normal((len(weights), n))
    biases[is_dead] = np.sqrt(b_var[is_dead]) * rng.standard_normal(n)
    leaving_m[:n_units][is_dead] = 0.0
    entering = entering._replace(
        w_m=weights,
        b_m=biases,
        w_log_std=np.where(is_dead, CERTAIN, entering.w_log_std),
        b_log_std=np.where(is_dead, CERTAIN, entering.b_log_std),
    )
    widths = np.array(member.log_widths[-1])
    if n < n_units:
        widths[is_dead] = rng.choice(widths[~is_dead], n)
    return member._replace(
        mean=(*below, entering, leaving._replace(w_m=leaving_m)),
        log_widths=(*member.log_widths[:-1], widths),
    )


def rows_to_look_at(
    weight: Float[np.ndarray, " n"], n_weights: int, n_outputs: int, seed: int
) -> Int[np.ndarray, " r"] | None:
    """Return the numbers of all rows that count, or of some; None if too few can be looked at."""
    counting = np.flatnonzero(weight)
    most = max(ENOUGH_ROWS, _MOST_PRODUCTS // n_weights**2 // n_outputs)
    most = min(most, _MOST_NUMBERS // n_weights // n_outputs)
    if len(counting) <= most:
        return counting
    rng = np.random.default_rng([seed % 2**32, 2])
    return np.sort(rng.permutation(counting)[:most]) if most >= ENOUGH_ROWS else None


def slopes(
    layers: Layers,
    x: Float[np.ndarray, "n d"],
    z: Float[np.ndarray, "n h"],
    gains: Float[np.ndarray, "n h"],
) -> Float[np.ndarray, "n o p"]:
    """Slopes of the outputs' means in the means of all weights.

    Layer by layer, and of a layer the weights input by input, then the biases.

    z, gains
        As `activations` gives them.
    """
    (n, n_out), sizes = (len(x), layers[-1].b_m.size), [a.w_m.size + a.b_m.size for a in layers]
    slope, end = np.empty((n, n_out, sum(sizes))), sum(sizes)
    for layer, (inputs, above) in zip(
        reversed(layers), _from_above(layers, x, z, gains), strict=True
    ):
        biases = end - layer.b_m.size
        slope[:, :, biases:end] = above
        end = biases - layer.w_m.size
        of_weights = slope[:, :, end:biases].reshape(n, n_out, *layer.w_m.shape)
        np.multiply(inputs[:, None, :, None], above[:, :, None, :], out=of_weights)
    return slope


def prior_covariance(
    layers: Layers,
    x: Float[np.ndarray, "n d"],
    z: Float[np.ndarray, "n h"],
    gains: Float[np.ndarray, "n h"],
    variances: Sequence[tuple[np.ndarray, np.ndarray]],
) -> Float[np.ndarray, "r r"]:
    """Return the prior covariance of the outputs at all rows, J diag(v*) J', (n o, n o).

    The derivative in a weight is its input times the derivative in the unit that it leads to, and
    all weights of a group have one variance: the share of a group is the elementwise product of two
    covariances, of inputs and of derivatives in units.
    """
    n_out = layers[-1].b_m.size
    total = np.zeros((len(x) * n_out,) * 2)
    depths = reversed(range(len(layers)))
    for depth, (inputs, above) in zip(depths, _from_above(layers, x, z, gains), strict=True):
        (of_weights, of_biases), above = variances[depth], above.reshape(len(total), -1)
        for rows, _ in weight_groups(layers, depth):
            var = of_weights[rows]
            entering = (inputs[:, rows] * var[:, 0]) @ inputs[:, rows].T
            leaving = (above * (var[0] / var[0, 0])) @ above.T
            leaving *= np.kron(entering, np.ones((n_out, n_out))) if n_out > 1 else entering
            total += leaving
        total += (above * of_biases) @ above.T
    return total


def _from_above(
    layers: Layers,
    x: Float[np.ndarray, "n d"],
    z: Float[np.ndarray, "n h"],
    gains: Float[np.ndarray, "n h"],
) -> Iterator[tuple[Float[np.ndarray, "n i"], Float[np.ndarray, "n o u"]]]:
    """Yield the inputs of each layer, the last first, and derivatives of outputs in its units."""
    ends = np.cumsum([0, *(layer.b_m.size for layer in layers[:-1])])
    units, n_out = [slice(*pair) for pair in pairwise(ends)], layers[-1].b_m.size
    above = np.broadcast_to(np.eye(n_out), (len(x), n_out, n_out))
    for depth, layer in reversed([*enumerate(layers)]):
        inputs = x if depth == 0 else z[:, units[depth - 1]]
        yield np.hstack([inputs, x]) if len(layer.w_m) > inputs.shape[1] else inputs, above
        if depth > 0:
            w = np.asarray(layer.w_m, np.float64)[: n_units_below(layers, depth)]
            above = (above @ w.T) * gains[:, None, units[depth - 1]]


def row_precisions(
    networks: Networks,
    settings: EnsembleSettings,
    predicted: Components,
    y: Float[np.ndarray, "n o"],
    k: int,
) -> Float[np.ndarray, "n o"]:
    """Minus twice the slope in E[(y - f)²] of the bound that member k maximises (`kernel_member`).

    predicted
        Components of all members at the rows, with independent weights.
    """
    share, one = settings.noise_share(k), networks.members[k]
    dof = np.maximum(predicted.dof[k], settings.mean_least_dof(k))
    below = np.minimum(networks.log_floor - predicted.l_m[k], -1e-6)
    h = predicted.l_m[k] + np.log1p(-np.exp(below)) - one.log_noise
    seen = np.logaddexp(one.own_log_noise + share * h, networks.log_floor)
    square = (predicted.m[k] - y) ** 2 + predicted.v[k]
    scale = np.exp(np.minimum(0.5 * share**2 * predicted.l_v[k], TILT_LIMIT) - seen)
    return np.maximum(scale * (dof + 1.0) / (dof + scale * square), _LEAST_PRECISION)


def covariance_factors(
    rng: np.random.Generator,
    j: Float[np.ndarray, "n p"],
    r: Float[np.ndarray, " n"],
    prior_var: Float[np.ndarray, " p"],
    number: int,
    gram: Callable[[], Float[np.ndarray, "n n"]],
) -> tuple[Float[np.ndarray, "s p"], Float[np.ndarray, " n"]]:
    """Vectors whose products on average add up to S = (diag(1 / prior_var) + j' diag(r) j)^-1.

    Exactly, if there are as many of them as weights. With fewer rows than weights, those of the
    posterior are made of those of the prior by Matheron's rule, at the price of a matrix as large
    as the rows. And the leverages of the rows, the diagonal of r j S j'.

    j
        Is written over.
    gram
        Computes j diag(prior_var) j'.
    """
    spread, root_r = np.sqrt(prior_var), np.sqrt(r)
    j *= spread
    j *= root_r[:, None]
    n, p = j.shape
    if n >= p:
        root = raised_cholesky(j.T @ j, 1.0, _ROUNDING)
        vectors = linalg.solve_triangular(
            root, orthogonal_columns(rng, p, number), trans=1, lower=True
        )
        h = np.square(linalg.solve_triangular(root, j.T, lower=True)).sum(axis=0)
    else:
        square = gram()
        square *= root_r
        square *= root_r[:, None]
        own = np.diag(square).copy()
        root = raised_cholesky(square, 1.0, _ROUNDING)
        of_weights, of_rows = np.split(orthogonal_columns(rng, p + n, number), [p])
        vectors = of_weights - j.T @ linalg.cho_solve((root, True), j @ of_weights + of_rows)
        # Of 1 - diag((j j' + 1)^-1) little would be left where a row says next to nothing.
        square[np.diag_indices(n)] = own
        square *= inverse_triangle(root)
        h = square.sum(axis=0) + square.sum(axis=1) - np.diag(square)
    return vectors.T * spread, h


def orthogonal_columns(rng: np.random.Generator, n: int, number: int) -> Float[np.ndarray, "n s"]:
    """Orthogonal columns in random directions, whose outer products add up to 1 on average.

    No more than n of them.
    """
    if number >= n:
        return np.eye(n)
    columns, _ = np.linalg.qr(rng.standard_normal((n, number)))
    return columns * np.sqrt(n / number)
