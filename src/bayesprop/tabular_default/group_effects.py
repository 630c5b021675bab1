"""Effects of groups, such as patients: a linear mixed model of what the rest leaves.

Let a row's residual z be its distance from the mean that all experts predict, in standard
deviations of that prediction. Where the row is of group g of the factor that has most groups, such
as patients, and of group j of every other factor f, such as sites,

    z = x' c + h(x)' b_g + sum_f w_fj + e,
    c ~ N(0, l),  b_g ~ N(0, diag(t)),  w_fj ~ N(0, t_f),  e ~ N(0, s),

with h(x) one and some inputs: intercepts and slopes (Laird & Ware 1982), of nested factors and of
crossed ones. The line c corrects the function where inputs act within groups otherwise than between
them. Variances maximise the exact marginal likelihood, in which every g is one small block, and c
and all w one dense one; a slope enters where that gains by it.

A row of known groups is moved by c, b_g and w, and its variance is multiplied by s and that of
their sum; not that share of it by which the function is less certain there than at nine of ten
rows learnt, which the groups' rows do not explain. Rows of new groups alone stay as they are
predicted, because held-out groups calibrate these. Of their noise the share 1 - s is the groups':
what knowing the effects would remove. Where one factor's group is new and another's is not, the
former adds its part of that share, in proportion to its variance, and c is left out if g is new.

Classes have intercepts of the log-odds of each, no slopes, and a line whose only input is the
log-odds that the networks predict.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float, Float64, Int, Int64
from scipy import special

from bayesprop.numerics.rows import Rows

MOST_ROWS = 2**14
"""Rows that effects are learnt from, of every group as many as of any other if it has them."""
MOST_COLUMNS = 100
"""Inputs beyond which there is no line, and no slope."""
MOST_SLOPES = 4
MOST_LEVELS = 500
"""Groups of all factors but that of most, which are solved together."""
LEAST_GAIN = 3.0
"""In nats of all rows, which effects, and every slope, must gain."""
FURTHEST = 5.0
"""Of a residual: one outlier is not to move a group."""

_LOG_BOUNDS = -12.0, 5.0  # of the variances
_MOST_STEPS, _LONGEST_STEP, _LAST_STEP = 20, 2.0, 0.01  # of the log-odds of classes
_LEAST_PROBA = 1e-6  # of a class in a step: where inputs separate classes, weights would be 0


class GroupEffects(NamedTuple):
    """Effects on one output, in standard deviations of its prediction.

    columns
        Inputs that have slopes.
    line
        Mean of c.
    mean, cov
        Of the intercept and the slopes of every group of the first factor; cov given c and all w.
    noise_var
        The variance s; of few rows that of rows left out, if it is larger.
    usual_share
        Epistemic share of the variance that nine of ten rows learnt do not exceed.
    factors, sizes
        Columns of groups, that of most groups first, and the number of groups of each.
    prior_var
        The variances t, and t_f of the other factors.
    levels, level_cov
        Of the intercepts w of the other factors, one factor after another; given c.
    pull
        Derivatives of a group's expected effects by w, of the other sign.
    """

    columns: Int64[np.ndarray, " k"]
    line: Float64[np.ndarray, " d"]
    mean: Float64[np.ndarray, "g q"]
    cov: Float64[np.ndarray, "g q q"]
    noise_var: float
    usual_share: float
    factors: Int64[np.ndarray, " f"]
    sizes: Int64[np.ndarray, " f"]
    prior_var: Float64[np.ndarray, " v"]
    levels: Float64[np.ndarray, " m"]
    level_cov: Float64[np.ndarray, "m m"]
    pull: Float64[np.ndarray, "g q m"]

    @classmethod
    def fit(
        cls,
        rows: Rows,
        n_groups: int | Int[np.ndarray, " f"],
        usual_share: float = 1.0,
        *,
        noise_var: float | None = None,
        prior_var: Float[np.ndarray, " v"] | None = None,
    ) -> Self | None:
        """Learn them from residuals, the targets of the rows; None where these gain nothing.

        Factors of as many groups as rows have no effects.

        noise_var
            The variance s of a row of weight 1; there are no slopes then. None: it is learnt, and
            outliers are bounded.
        prior_var
            The variances t and t_f, if they and noise_var are known; the rows then have no inputs.
        """
        sizes, group = np.atleast_1d(n_groups), rows.group.reshape(len(rows.y), -1)
        factors = np.argsort(-sizes, kind="stable")
        factors = factors[sizes[factors] < len(rows.y)]
        x = rows.x if rows.x.shape[1] <= MOST_COLUMNS else rows.x[:, :0]
        y, weight = rows.y, rows.weights
        if noise_var is None:
            y, weight = np.clip(y, -FURTHEST, FURTHEST), weight / weight.mean()
        rows = Rows(x, y, weight, group[:, factors])
        n, columns, sizes = len(rows.y), np.empty(0, np.int64), sizes[factors].astype(np.int64)
        total = float(weight @ y**2)
        of_all = total / n if noise_var is None else noise_var
        if not len(factors) or total == 0.0:
            return None
        best, least = None, -0.5 * (n * np.log(of_all) + total / of_all) + LEAST_GAIN
        while len(columns) <= MOST_SLOPES:
            sums = _Sums.of(rows, columns, sizes)
            if prior_var is not None:
                best = columns, sums.solved(np.r_[noise_var, prior_var])
                break
            found = sums.most_likely(noise_var)
            if found.log_evidence < least:
                break
            best, least = (columns, found), found.log_evidence + LEAST_GAIN
            if noise_var is not None:
                break
            gains = _gains_of_slopes(rows, columns, sums, found)
            if not gains.size or gains.max() <= 1.0:
                break
            columns = np.append(columns, np.argmax(gains))
        if best is None:
            return None
        return cls.of(*best, factors, sizes, usual_share)

    @classmethod
    def of_class(
        cls,
        rows: Rows,
        left_out: Float[np.ndarray, " n"],
        logits: Float[np.ndarray, " n"],
        n_groups: Int[np.ndarray, " f"],
    ) -> Self | None:
        """Learn intercepts of the log-odds of y = 1 among 0 and 1, and a line of these log-odds.

        Log-odds are means over groups, and too flat within one (Zeger, Liang & Albert 1988): the
        line has them as its only input. It and the variances are learnt from log-odds of networks
        that have not learnt the group, in which all of an effect is left; the intercepts then from
        those of all networks, which know a part of it.
        """
        left_out, logits = (np.clip(one, -FURTHEST, FURTHEST) for one in (left_out, logits))
        first = cls._of_odds(rows._replace(x=left_out[:, None]), left_out, n_groups)
        if first is None:
            return None
        steeper, rows = logits * (1.0 + first.line[0]), rows._replace(x=np.zeros((len(logits), 0)))
        found = cls._of_odds(rows, steeper, n_groups, first.prior_var)
        return found and found._replace(line=first.line)

    @classmethod
    def _of_odds(
        cls,
        rows: Rows,
        logits: Float[np.ndarray, " n"],
        n_groups: Int[np.ndarray, " f"],
        prior_var: Float[np.ndarray, " v"] | None = None,
    ) -> Self | None:
        """Learn by penalised quasi-likelihood (Breslow & Clayton 1993).

        The z of a step are the effects plus (y - p)/w, of variance 1/w, w = p (1 - p).
        """
        own, found, weight = np.zeros(len(rows.y)), None, rows.weights / rows.weights.mean()
        for _ in range(_MOST_STEPS):
            p = np.clip(special.expit(logits + own), _LEAST_PROBA, 1.0 - _LEAST_PROBA)
            w = p * (1.0 - p)
            linear = rows._replace(y=own + (rows.y - p) / w, weight=weight * w)
            found = cls.fit(linear, n_groups, noise_var=1.0, prior_var=prior_var)
            if found is None:
                break
            step = found.at(rows.group, rows.x)[0] - own
            own += np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
            if np.abs(step).max() < _LAST_STEP:
                break
        return found

    @classmethod
    def of(
        cls,
        columns: Int64[np.ndarray, " k"],
        found: Solution,
        factors: Int64[np.ndarray, " f"],
        sizes: Int64[np.ndarray, " f"],
        usual_share: float,
    ) -> Self:
        """Keep of a solution what predictions need."""
        d, own = len(found.among) - sizes[1:].sum(), found.variances
        prior_var = np.delete(own, [0, 2 + len(columns)] if d else 0)
        level_cov = own[0] * np.linalg.inv(found.among[d:, d:])
        line, levels, pull = found.among_mean[:d], found.among_mean[d:], found.pull[..., d:]
        of_first = columns, line, found.mean, found.cov, float(own[0]), usual_share
        return cls(*of_first, factors, sizes, prior_var, levels, level_cov, pull)

    def at(
        self, group: Int[np.ndarray, "n ..."], x: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Return how far rows move, and the factor of their variance; (0, 1) of new groups, -1."""
        group = group.reshape(len(x), -1)[:, self.factors]
        shift, factor, some = np.zeros(len(x)), np.ones(len(x)), (group >= 0).any(axis=1)
        x, group, h = x[some], group[some], design(x[some], self.columns)
        q, known = h.shape[1], group[:, 0] >= 0
        own_var = np.column_stack(
            [h**2 @ self.prior_var[:q], np.tile(self.prior_var[q:], (len(h), 1))]
        )
        of_levels = one_hot(group[:, 1:], self.sizes[1:])
        move, own = of_levels @ self.levels, h[known]
        of_group = group[known, 0]
        move[known] += x[known][:, : len(self.line)] @ self.line
        move[known] += np.einsum("nq,nq->n", own, self.mean[of_group])
        of_levels[known] -= np.einsum("nq,nqm->nm", own, self.pull[of_group])
        var = np.einsum("nm,nm->n", of_levels @ self.level_cov, of_levels)
        var[known] += np.einsum("nq,nqr,nr->n", own, self.cov[of_group], own)
        new = np.sum(own_var, axis=1, where=group < 0) / own_var.sum(axis=1)
        shift[some], factor[some] = move, self.noise_var + var + (1.0 - self.noise_var) * new
        return shift, factor

    def validate(self) -> None:
        """Raise ValueError where these are no effects of the same groups."""
        q, others = 1 + len(self.columns), self.sizes[1:]
        if self.mean.shape[1] != q or not self.noise_var > 0.0:
            raise ValueError(f"groups must have {q} effects, and a noise variance > 0")
        of_both = *self.cov.diagonal(0, 1, 2).ravel(), *self.level_cov.diagonal(), *self.prior_var
        if len(self.prior_var) != q + len(others) or min(of_both) < 0.0 or not self.prior_var.any():
            raise ValueError("the variances of effects must be 0 or more, one at least above")
        sizes, factors = (len(self.mean), len(self.levels)), {*self.factors.tolist()}
        is_right = (self.sizes[:1].sum(), others.sum()) == sizes and (self.sizes > 0).all()
        if not is_right or len(factors) < len(self.sizes) or min(factors) < 0:
            raise ValueError(f"sizes must be those of {sizes[0]} groups and {sizes[1]} levels")


def design(x: Float[np.ndarray, "n d"], columns: Int[np.ndarray, " k"]) -> np.ndarray:
    """Return one and the inputs that have slopes, (n, 1 + k)."""
    return np.column_stack([np.ones(len(x)), x[:, columns]])


def one_hot(group: Int[np.ndarray, "n f"], sizes: Iterable[int]) -> Float[np.ndarray, "n m"]:
    """Return a column of 0 and 1 for every group of every factor; a group of -1 has none."""
    return np.concatenate(
        [
            np.zeros((len(group), 0)),
            *(np.eye(n + 1)[g, :n] for g, n in zip(group.T, sizes, strict=True)),
        ],
        axis=1,
    )


class Solution(NamedTuple):
    """Posterior of all effects, given the variances.

    among, among_mean
        Of the line and the levels of the other factors: their precision times s, and their mean.
    mean, cov, pull
        As of `GroupEffects`; pull of the line, too.
    """

    log_evidence: float
    variances: Float[np.ndarray, " v"]
    among: Float[np.ndarray, "d d"]
    among_mean: Float[np.ndarray, " d"]
    mean: Float[np.ndarray, "g q"]
    cov: Float[np.ndarray, "g q q"]
    pull: Float[np.ndarray, "g q d"]


class _Sums(NamedTuple):
    """Products of designs (h; x of the line and of levels) and residuals (z), by group or in all.

    widths
        Columns of x that share a variance: the inputs, if there are any, and of every other factor.
    """

    hh: Float[np.ndarray, "g q q"]
    hx: Float[np.ndarray, "g q d"]
    hz: Float[np.ndarray, "g q"]
    xx: Float[np.ndarray, "d d"]
    xz: Float[np.ndarray, " d"]
    zz: float
    n: int
    widths: tuple[int, ...]

    @classmethod
    def of(
        cls, rows: Rows, columns: Int[np.ndarray, " k"], sizes: int | Int[np.ndarray, " f"]
    ) -> Self:
        sizes, group = np.atleast_1d(sizes), rows.group.reshape(len(rows.y), -1)
        x, z = np.concatenate([rows.x, one_hot(group[:, 1:], sizes[1:])], axis=1), rows.y
        h = design(rows.x, columns)
        weighted = (h * rows.weights[:, None]).T[..., None]
        hh, hx, hz = (
            np.stack([by_group(one * part, group[:, 0], sizes[0]) for one in weighted], axis=1)
            for part in (h, x, z[:, None])
        )
        wx, widths = x * rows.weights[:, None], (rows.x.shape[1], *sizes[1:].tolist())
        sums = wx.T @ x, wx.T @ z, float(rows.weights @ z**2), len(z)
        return cls(hh, hx, hz[..., 0], *sums, tuple(filter(None, widths)))

    def most_likely(self, noise_var: float | None = None) -> Solution:
        """Solve with the variances of the highest evidence."""
        from scipy import optimize  # a prediction does without its import

        n_others = self.hh.shape[1] + len(self.widths)
        bounds = [_LOG_BOUNDS] * (1 + n_others)
        start = np.log(self.zz / self.n) + np.r_[-0.2, np.full(n_others, -2.0)]
        if noise_var is not None:
            start = np.log(noise_var) + np.r_[0.0, np.full(n_others, -1.0)]
            bounds[0] = (start[0], start[0])
        best = optimize.minimize(
            lambda logs: -self.solved(np.exp(logs)).log_evidence,
            np.clip(start, *_LOG_BOUNDS),
            method="L-BFGS-B",
            bounds=bounds,
        )
        return self.solved(np.exp(best.x))

    def solved(self, variances: Float[np.ndarray, " v"]) -> Solution:
        """Return the exact posterior and evidence for s, t, l if there is a line, and all t_f."""
        q = self.hh.shape[1]
        s, t = variances[0], variances[1 : 1 + q]
        inner = np.linalg.inv(np.diag(s / t) + self.hh)
        of_x, of_z = inner @ self.hx, np.einsum("gqr,gr->gq", inner, self.hz)
        prior = np.repeat(variances[1 + q :], self.widths) / s
        among = np.diag(1.0 / prior) + self.xx
        among -= np.tensordot(self.hx, of_x, ((0, 1), (0, 1)))
        xz = self.xz - np.tensordot(self.hx, of_z, ((0, 1), (0, 1)))
        zz = self.zz - np.sum(self.hz * of_z)
        log_det = self.n * np.log(s) + np.linalg.slogdet(np.eye(q) + self.hh * (t / s))[1].sum()
        log_det += np.linalg.slogdet(among * prior)[1]
        mean = np.linalg.solve(among, xz)
        log_evidence = -0.5 * (log_det + (zz - xz @ mean) / s)
        return Solution(log_evidence, variances, among, mean, of_z - of_x @ mean, s * inner, of_x)


def by_group(
    values: Float[np.ndarray, "n ..."], group: Int[np.ndarray, " n"], n_groups: int
) -> Float[np.ndarray, "g ..."]:
    """Add up the values of every group."""
    total = np.zeros((n_groups, *values.shape[1:]))
    order = np.argsort(group, kind="stable")
    present, first = np.unique(group[order], return_index=True)
    total[present] = np.add.reduceat(values[order], first)
    return total


def _gains_of_slopes(
    rows: Rows, columns: Int[np.ndarray, " k"], sums: _Sums, found: Solution
) -> Float[np.ndarray, " d"]:
    """Score tests of the variances of further slopes, in standard deviations without such slopes.

    With r = (z - x'c - h'b) / s, those of x_j have sum_g (sum_i x_ij r_i)², of known expectation.
    """
    x, z, noise_var = rows.x, rows.y, found.variances[0]
    h, n_groups, d = design(x, columns), len(found.mean), x.shape[1]
    group, others = rows.group[:, 0], rows.group[:, 1:]
    among = np.concatenate([x, one_hot(others, sums.widths[d > 0 :])], axis=1)
    left = z - among @ found.among_mean - np.einsum("nq,nq->n", h, found.mean[group])
    weight, hx = rows.weights[:, None] / noise_var, sums.hx[..., :d]
    score = by_group(weight * x * left[:, None], group, n_groups)
    of_x = np.einsum("gqr,grd->gqd", found.cov, hx) / noise_var
    var = by_group(weight * x**2, group, n_groups)
    var -= np.sum(hx * of_x, axis=1) / noise_var
    spread = np.sqrt(2.0 * np.sum(var**2, axis=0))
    gains = np.sum(score**2 - var, axis=0) / np.maximum(spread, 1e-9)
    gains[columns] = -np.inf
    return gains


def check_levels(group: Int[np.ndarray, "n ..."] | None) -> None:
    """Raise ValueError for more groups than can be solved together."""
    if group is None or group.ndim < 2:
        return
    *others, _ = sorted(len(np.unique(one)) for one in group.T)
    if sum(others) > MOST_LEVELS:
        raise ValueError(
            "groups must hold, in all columns but that of the most groups, at most "
            f"{MOST_LEVELS} groups together, got {sum(others)}: leave a column out"
        )


def some_rows(
    group: Int[np.ndarray, " n"], rng: np.random.Generator, most: int = MOST_ROWS
) -> Int[np.ndarray, " m"]:
    """Return so many places at most, at random: every group has one before any has its next."""
    order = rng.permutation(len(group))
    by = order[np.argsort(group[order], kind="stable")]
    first = np.searchsorted(group[by], group[by])
    turn = np.arange(len(by)) - first
    return np.sort(by[np.argsort(turn, kind="stable")[:most]])
