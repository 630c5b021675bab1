"""Effects of groups, such as patients, on numbers: a linear mixed model of what the rest leaves.

Let a row's residual z be its distance from the mean that all experts predict, in standard
deviations of that prediction. The rows of group g have

    z = x' c + h(x)' b_g + e,   c ~ N(0, l),  b_g ~ N(0, diag(t)),  e ~ N(0, s),

with h(x) one and some inputs: intercepts and slopes (Laird & Ware 1982). The line c corrects the
function where inputs act within groups otherwise than between them. Variances maximise the exact
marginal likelihood, in which every group is one small block; a slope enters where that gains by it.

A row of a known group is moved by c and b_g, and its variance is multiplied by s and that of b_g;
not that share of it by which the function is less certain there than at nine of ten rows learnt,
which the group's rows do not explain. Rows of a new group stay as they are predicted, because
held-out groups calibrate these. Of their noise the share 1 - s is the group's: what knowing its
effects would remove.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float, Float64, Int, Int64
from scipy import optimize

from bayesprop.numerics.rows import Rows

MOST_ROWS = 2**14
"""Rows that effects are learnt from, of every group as many as of any other if it has them."""
MOST_COLUMNS = 100
"""Inputs beyond which there is no line, and no slope."""
MOST_SLOPES = 4
LEAST_GAIN = 3.0
"""In nats of all rows, which effects, and every slope, must gain."""
FURTHEST = 5.0
"""Of a residual: one outlier is not to move a group."""

_LOG_BOUNDS = -12.0, 5.0  # of the variances


class GroupEffects(NamedTuple):
    """Effects on one output, in standard deviations of its prediction.

    columns
        Inputs that have slopes.
    line
        Mean of c.
    mean, cov
        Of the intercept and the slopes of every group.
    noise_var
        The variance s.
    usual_share
        Epistemic share of the variance that nine of ten rows learnt do not exceed.
    """

    columns: Int64[np.ndarray, " k"]
    line: Float64[np.ndarray, " d"]
    mean: Float64[np.ndarray, "g q"]
    cov: Float64[np.ndarray, "g q q"]
    noise_var: float
    usual_share: float

    @classmethod
    def fit(cls, rows: Rows, n_groups: int, usual_share: float = 1.0) -> Self | None:
        """Learn them from residuals, the targets of the rows; None where these gain nothing."""
        x = rows.x if rows.x.shape[1] <= MOST_COLUMNS else rows.x[:, :0]
        weight = rows.weights / rows.weights.mean()
        rows = Rows(x, np.clip(rows.y, -FURTHEST, FURTHEST), weight, rows.group)
        n, columns = len(rows.y), np.empty(0, np.int64)
        of_all = np.average(np.square(rows.y), weights=rows.weights)
        if n_groups == n or of_all == 0.0:
            return None
        best, least = None, -0.5 * n * (np.log(of_all) + 1.0) + LEAST_GAIN
        while len(columns) <= MOST_SLOPES:
            sums = _Sums.of(rows, columns, n_groups)
            found = sums.most_likely()
            if found.log_evidence < least:
                break
            best, least = (columns, found), found.log_evidence + LEAST_GAIN
            gains = _gains_of_slopes(rows, columns, sums, found)
            if not gains.size or gains.max() <= 1.0:
                break
            columns = np.append(columns, np.argmax(gains))
        if best is None:
            return None
        columns, found = best
        noise_var = float(found.noise_var)
        return cls(columns, found.line, found.mean, found.cov, noise_var, usual_share)

    def at(
        self, group: Int[np.ndarray, " n"], x: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Return how far rows move, and the factor of their variance; (0, 1) of new groups, -1."""
        shift, factor, known = np.zeros(len(x)), np.ones(len(x)), group >= 0
        x, h = x[known], design(x[known], self.columns)
        mean, cov = self.mean[group[known]], self.cov[group[known]]
        shift[known] = x[:, : len(self.line)] @ self.line + np.einsum("nq,nq->n", h, mean)
        factor[known] = self.noise_var + np.einsum("nq,nqr,nr->n", h, cov, h)
        return shift, factor

    def validate(self) -> None:
        """Raise ValueError where these are no effects of the same groups."""
        q = 1 + len(self.columns)
        if self.mean.shape[1] != q or not self.noise_var > 0.0:
            raise ValueError(f"groups must have {q} effects, and a noise variance > 0")
        if (np.diagonal(self.cov, axis1=1, axis2=2) < 0.0).any():
            raise ValueError("the variances of effects must be 0 or more")


def design(x: Float[np.ndarray, "n d"], columns: Int[np.ndarray, " k"]) -> np.ndarray:
    """Return one and the inputs that have slopes, (n, 1 + k)."""
    return np.column_stack([np.ones(len(x)), x[:, columns]])


class Solution(NamedTuple):
    """Posterior of the line and of all effects, given the variances."""

    log_evidence: float
    line: Float[np.ndarray, " d"]
    mean: Float[np.ndarray, "g q"]
    cov: Float[np.ndarray, "g q q"]
    noise_var: float


class _Sums(NamedTuple):
    """Products of design (h), inputs (x) and residuals (z), summed over each group or all rows."""

    hh: Float[np.ndarray, "g q q"]
    hx: Float[np.ndarray, "g q d"]
    hz: Float[np.ndarray, "g q"]
    xx: Float[np.ndarray, "d d"]
    xz: Float[np.ndarray, " d"]
    zz: float
    n: int

    @classmethod
    def of(cls, rows: Rows, columns: Int[np.ndarray, " k"], n_groups: int) -> Self:
        x, z, _, group = rows
        h = design(x, columns)
        weighted = h * rows.weights[:, None]
        hh, hx, hz = (
            by_group(weighted[:, :, None] * part[:, None], group, n_groups)
            for part in (h, x, z[:, None])
        )
        wx = x * rows.weights[:, None]
        return cls(hh, hx, hz[..., 0], wx.T @ x, wx.T @ z, float(rows.weights @ z**2), len(z))

    def most_likely(self) -> Solution:
        """Solve with the variances of the highest evidence."""
        n_variances = 2 + self.hh.shape[1] - (not len(self.xz))
        start = np.log(self.zz / self.n) + np.r_[-0.2, np.full(n_variances - 1, -2.0)]
        best = optimize.minimize(
            lambda logs: -self.solved(np.exp(logs)).log_evidence,
            np.clip(start, *_LOG_BOUNDS),
            method="L-BFGS-B",
            bounds=[_LOG_BOUNDS] * n_variances,
        )
        return self.solved(np.exp(best.x))

    def solved(self, variances: Float[np.ndarray, " v"]) -> Solution:
        """Return the exact posterior and evidence for s, t and l, l if there is a line."""
        q, d = self.hx.shape[1:]
        s, t = variances[0], variances[1 : 1 + q]
        inner = np.linalg.inv(np.diag(s / t) + self.hh)
        of_x, of_z = inner @ self.hx, np.einsum("gqr,gr->gq", inner, self.hz)
        xx = self.xx - np.tensordot(self.hx, of_x, ((0, 1), (0, 1)))
        xz = self.xz - np.tensordot(self.hx, of_z, ((0, 1), (0, 1)))
        zz = self.zz - np.sum(self.hz * of_z)
        log_det = self.n * np.log(s) + np.linalg.slogdet(np.eye(q) + self.hh * (t / s))[1].sum()
        line = np.zeros(d)
        if d:
            among = s / variances[-1] * np.eye(d) + xx
            line = np.linalg.solve(among, xz)
            log_det += np.linalg.slogdet(among * (variances[-1] / s))[1]
        log_evidence = -0.5 * (log_det + (zz - xz @ line) / s)
        return Solution(log_evidence, line, of_z - of_x @ line, s * inner, s)


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
    x, z, _, group = rows
    h, n_groups = design(x, columns), len(found.mean)
    left = z - x @ found.line - np.einsum("nq,nq->n", h, found.mean[group])
    weight = rows.weights[:, None] / found.noise_var
    score = by_group(weight * x * left[:, None], group, n_groups)
    of_x = np.einsum("gqr,grd->gqd", found.cov, sums.hx) / found.noise_var
    var = by_group(weight * x**2, group, n_groups)
    var -= np.sum(sums.hx * of_x, axis=1) / found.noise_var
    spread = np.sqrt(2.0 * np.sum(var**2, axis=0))
    gains = np.sum(score**2 - var, axis=0) / np.maximum(spread, 1e-9)
    gains[columns] = -np.inf
    return gains


def some_rows(
    group: Int[np.ndarray, " n"], rng: np.random.Generator, most: int = MOST_ROWS
) -> Int[np.ndarray, " m"]:
    """Return so many places at most, at random: every group has one before any has its next."""
    order = rng.permutation(len(group))
    by = order[np.argsort(group[order], kind="stable")]
    first = np.searchsorted(group[by], group[by])
    turn = np.arange(len(by)) - first
    return np.sort(by[np.argsort(turn, kind="stable")[:most]])
