"""Bayesian linear regression: exact posterior, predictive and evidence from sufficient statistics.

    y = w' phi(x) + noise,   w ~ N(0, diag(1 / prior_prec)),   noise ~ N(0, noise_var)

Several outputs are several regressions on the same columns. The rows enter through the triangular
factor of a QR decomposition of [Phi, Y] alone, never through Phi'Phi: rows are conditioned on in
any order and number at a time, and the condition number is not squared. With a constant as its
first column the factor is that of the centred data, below a row that holds the means. Weights of
rows multiply their log-likelihoods, so that a weight of 2 is the row met twice.

Known noise: Bishop (2006), eqs. 3.49-3.59, 3.86. Unknown noise with its conjugate prior, the
normal-inverse-gamma: Murphy (2012), section 7.6.3. Noise and prior precision that maximise the
evidence: MacKay (1992), "Bayesian interpolation"; the fixed point as Bishop (2006), eqs. 3.91-3.95,
and with one precision a feature (automatic relevance determination) eqs. 7.87, 7.88; repaired by
expectation maximisation, eqs. 9.63, 9.67, 9.68 (`numerics/evidence.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg, special

from bayesprop.codec import UNBOUNDED
from bayesprop.linear.sums import Statistics, triangle
from bayesprop.numerics import LOG_2PI, evidence
from bayesprop.numerics.evidence import Ascent, Bounds, Groups, Weights

_MOST, _LEAST = 1e12, 1e-12  # of a precision, times what the data say; of a noise variance
_TOLERANCE = 1e-6
_FURTHEST_START = 1e3
LEAST_DOF = 3.0  # of a prediction, whose variance is finite
_MANY_WEIGHTS = 50  # for which fewer directions save time
(_inverse,) = linalg.get_lapack_funcs(("trtri",), dtype=np.float64)
"""Of a triangle; solving for its columns takes ten times as long, and waits for threads."""


class LinearPosterior(NamedTuple):
    """Posterior of the weights, one an output.

    prior_prec
        Precision of the prior of every weight; times the noise variance where that is conjugate.
    mean
        Of the weights.
    root
        Covariance = root root'.
    noise_var
        Its posterior mean, y².
    dof
        Degrees of freedom of weights and predictions: infinite (Gaussian) where the noise is known.
    log_evidence
        log p(Y | X), nats, in the units of y given to `update`.
    """

    prior_prec: Float[np.ndarray, "o k"]
    mean: Float[np.ndarray, "o k"]
    root: Float[np.ndarray, "o k k"]
    noise_var: Float[np.ndarray, " o"]
    dof: Annotated[Float[np.ndarray, " o"], UNBOUNDED]
    log_evidence: Float[np.ndarray, " o"]


class NoisePrior(NamedTuple):
    """Inverse-gamma prior of the noise variance: its mean is rate / (shape - 1), y²."""

    shape: float
    rate: float

    def shape_after(self, weight_sum: float) -> float:
        """Shape of the posterior of the noise variance; weights have twice as many dof."""
        return self.shape + 0.5 * weight_sum


class Solved(NamedTuple):
    """The regularised least-squares problem of one output, in units of the noise.

    root
        Of the covariance of the weights, over the noise variance: (Phi'Phi + P)^-1 = root root'.
    log_det
        log det (Phi'Phi + P).
    penalised
        min over w of |y - Phi w|² + w'P w, which the mean attains.
    """

    mean: Float[np.ndarray, " k"]
    root: Float[np.ndarray, "k k"]
    log_det: float
    penalised: float


def of_output(state: Statistics, output: int) -> Float[np.ndarray, "p p"]:
    """Return the triangular factor of [Phi, y] of one output: R'R is its matrix of products."""
    k, residual = len(state.design), state.residual[:, output]
    root = np.zeros((k + 1, k + 1), order="F")
    root[:k, :k], root[:k, k] = state.design, state.target[:, output]
    root[k, k] = np.sqrt(residual @ residual)
    return root


def solve(root: Float[np.ndarray, "p p"], prior_prec: Float[np.ndarray, " k"]) -> Solved:
    """Regularised least squares by QR of an output's factor upon the root of the prior precision.

    root
        As `of_output` returns it.
    prior_prec
        In units of the noise precision; positive.
    """
    k = len(prior_prec)
    below = np.zeros((k, k + 1), order="F")
    below.T.reshape(-1)[: k * k : k + 1] = np.sqrt(prior_prec)  # the diagonal
    factor = triangle(root, below, k)
    inverse, _ = _inverse(factor[:k, :k])
    return Solved(
        mean=inverse @ factor[:k, k],
        root=inverse,
        log_det=2.0 * float(np.log(np.abs(factor.diagonal()[:k])).sum()),
        penalised=float(factor[k, k]) ** 2,
    )


def _posterior(
    prior_prec: np.ndarray,
    solved: Sequence[Solved],
    noise_var: np.ndarray,
    dof: float,
    log_evidence: np.ndarray,
) -> LinearPosterior:
    mean = np.array([one.mean for one in solved])
    root = np.array([np.sqrt(v) * one.root for one, v in zip(solved, noise_var, strict=True)])
    dofs = np.full(len(noise_var), dof)
    return LinearPosterior(prior_prec, mean, root, noise_var, dofs, log_evidence)


def gaussian_log_evidence(
    weight_sum: float, solved: Solved, relative_prec: Float[np.ndarray, " k"], noise_var: float
) -> float:
    """Compute log p(y | X) of one output, nats; `relative_prec` as it was given to `solve`."""
    complexity = float(np.log(relative_prec).sum()) - solved.log_det
    fit = solved.penalised / noise_var + weight_sum * (LOG_2PI + np.log(noise_var))
    return 0.5 * (complexity - float(fit))


def conjugate(
    state: Statistics, prior_prec: Float[np.ndarray, "o k"], noise_prior: NoisePrior
) -> LinearPosterior:
    """Normal-inverse-gamma posterior: Student-t weights and predictions, the evidence exact.

    noise_var ~ InverseGamma(shape, rate), w | noise_var ~ N(0, noise_var / prior_prec): Murphy
    (2012), eqs. 7.69-7.76. Needs shape + weight_sum / 2 > 1, else the variances are infinite.

    prior_prec
        Precision of every weight, times the noise variance; positive.
    """
    shape = noise_prior.shape_after(state.weight_sum)
    solved = [solve(of_output(state, i), p) for i, p in enumerate(prior_prec)]
    rate = noise_prior.rate + 0.5 * np.array([one.penalised for one in solved])
    complexity = [
        np.sum(np.log(p)) - one.log_det for p, one in zip(prior_prec, solved, strict=True)
    ]
    log_evidence = (
        0.5 * (np.array(complexity) - state.weight_sum * LOG_2PI)
        + noise_prior.shape * np.log(noise_prior.rate)
        - shape * np.log(rate)
        + special.gammaln(shape)
        - special.gammaln(noise_prior.shape)
    )
    return _posterior(prior_prec, solved, rate / (shape - 1.0), 2.0 * shape, log_evidence)


def predict(
    posterior: LinearPosterior, phi: Float[np.ndarray, "n k"]
) -> tuple[Float[np.ndarray, "n o"], Float[np.ndarray, "n o"]]:
    """Mean and epistemic variance at every row; the noise comes on top. Bishop (2006), eq. 3.59."""
    var = [np.sum((phi @ root) ** 2, axis=1) for root in posterior.root]
    return phi @ posterior.mean.T, np.stack(var, axis=1)


def sample(
    rng: np.random.RandomState, posterior: LinearPosterior, n_draws: int
) -> tuple[Float[np.ndarray, "s o k"], Float[np.ndarray, "s o"]]:
    """Draw weights and noise variances jointly from the posterior."""
    n_outputs, n_columns = posterior.mean.shape
    noise_var = np.broadcast_to(posterior.noise_var, (n_draws, n_outputs))
    if np.isfinite(posterior.dof).all():
        shape = 0.5 * posterior.dof
        noise_var = noise_var * (shape - 1.0) / rng.standard_gamma(shape, size=noise_var.shape)
    stretch = np.sqrt(noise_var / posterior.noise_var)
    z = rng.standard_normal((n_draws, n_outputs, n_columns)) * stretch[:, :, None]
    return posterior.mean + np.einsum("okl,sol->sok", posterior.root, z), noise_var


class Maximised(NamedTuple):
    """Posterior at the maximum of the evidence, and how it was found.

    ascents
        One an output; none where there was nothing to find.
    n_noiseless
        Outputs whose noise variance reached 1e-12 of the mean square of y: no noise was found.
    """

    posterior: LinearPosterior
    ascents: tuple[Ascent, ...] = ()
    n_noiseless: int = 0


def maximise(
    state: Statistics,
    prior_prec: Float[np.ndarray, " k"],
    groups: Groups,
    *,
    noise_var: Float[np.ndarray, " o"] | None = None,
    near: LinearPosterior | None = None,
    max_steps: int = 1000,
) -> Maximised:
    """Maximise the log evidence of every output over precisions and noise, each on its own.

    Its derivatives by log precisions are below 1e-6 nats at the end.

    prior_prec
        Of weights whose precision is `FIXED`, as an intercept's broad prior should be; elsewhere
        it is not looked at.
    groups
        Which weights share a precision: 0, 0, 0, ...: all; 0, 1, 2, ...: relevance of each.
    noise_var
        y², where it is known; None: ascent with the precisions. Where these are `FIXED`, too, the
        posterior is that of Bishop (2006), eqs. 3.53, 3.54 and 3.86.
    near
        Posterior of fewer rows: the ascent begins at its precisions and noise, or where these are
        so far from the usual start that the evidence might be flat, a factor of 1000 from it.
    """
    fixed = np.asarray(prior_prec, np.float64)
    ascents, n_noiseless, noise_is_free = [], 0, noise_var is None
    for output in range(state.target.shape[1]):
        known = None if noise_var is None else float(noise_var[output])
        start, bounds = _started(state, output, groups, noise_is_known=known is not None)
        if near is not None:
            end = [*groups.mean(near.prior_prec[output]), 1.0 / near.noise_var[output]]
            least, most = start / _FURTHEST_START, start * _FURTHEST_START
            start = np.minimum(np.maximum(end[: len(start)], least), most)
        root = of_output(state, output)
        small = _condensed(root, groups, fixed)
        ascent = evidence.ascend(
            partial(_at, small.root, state.weight_sum, small.groups, small.fixed, known),
            start,
            bounds,
            max_steps=max_steps,
            tolerance=_TOLERANCE,
        )
        if small.root is not root:
            prec = ascent.point.weights.prec
            whole = _at(root, state.weight_sum, groups, fixed, known, prec, None)
            ascent = ascent._replace(point=whole)
        ascents.append(ascent)
        n_noiseless += known is None and ascent.point.weights.prec[-1] >= bounds.most[-1]
    points = [ascent.point for ascent in ascents]
    solved, log_evidence = [one.solved for one in points], [one.log_evidence for one in points]
    noise_var = np.array([one.noise_var for one in points])
    precs = np.array([one.prior_prec for one in points])
    posterior = _posterior(precs, solved, noise_var, np.inf, np.array(log_evidence))
    searched = noise_is_free or len(groups.free) > 0
    return Maximised(posterior, tuple(ascents) if searched else (), int(n_noiseless))


def with_noise_integrated(plug_in: LinearPosterior, weight_sum: float) -> LinearPosterior:
    """Integrate the noise variance out where the evidence was maximised: Student-t predictions.

    gamma weights are well determined by the n rows, sum (1 - prior_prec var); the residuals of
    the rest have the maximum noise_var = sum r² / (n - gamma), Bishop (2006), eq. 3.95. With the
    prior 1 / noise_var and the ratios of the precisions at their maximum, noise_var is then
    InverseGamma((n - gamma) / 2, sum r² / 2), as for least squares, where gamma = k (MacKay 1992;
    Gelman et al. 2013, eq. 14.6): a prediction is Student-t of n - gamma degrees of freedom whose
    squared scale is the Gaussian's variance. Doubt about the prior's precision is left out.

    Deviation: of three degrees or fewer the variance is infinite or nearly so. Such a Student-t is
    replaced by that of three with the same central 90 % interval; fewer than one count as one.
    """
    var = np.einsum("okl,okl->ok", plug_in.root, plug_in.root)
    gamma = var.shape[1] - np.sum(plug_in.prior_prec * var, axis=1)
    exact = np.maximum(weight_sum - gamma, 1.0)
    dof = np.maximum(exact, LEAST_DOF)
    stretch = special.stdtrit(exact, 0.95) / special.stdtrit(dof, 0.95)
    growth = np.square(stretch) * dof / (dof - 2.0)
    return plug_in._replace(
        root=plug_in.root * np.sqrt(growth)[:, None, None],
        noise_var=plug_in.noise_var * growth,
        dof=dof,
    )


class _Point(NamedTuple):
    """What is believed of the groups of weights of one output and, last, of free noise."""

    weights: Weights
    log_evidence: float
    solved: Solved
    prior_prec: Float[np.ndarray, " k"]
    noise_var: float


class _Problem(NamedTuple):
    """Factor of one output, groups of its weights and their fixed precisions."""

    root: Float[np.ndarray, "p p"]
    groups: Groups
    fixed: Float[np.ndarray, " k"]


def _condensed(root: Float[np.ndarray, "p p"], groups: Groups, fixed: np.ndarray) -> _Problem:
    """Return a problem of the same evidence in the directions of weights that the rows see.

    Weights that share a precision have the same prior in any directions; those across the rows keep
    it, whatever it is. The problem itself where it would not be half as large, or there are several
    precisions.
    """
    whole = _Problem(root, groups, fixed)
    if len(groups.free) < _MANY_WEIGHTS or len(groups.sizes) != 1:
        return whole
    size = np.abs(root).max(axis=1)
    rows = root[size > len(root) * np.finfo(np.float64).eps * size.max()]
    if not 0 < 2 * len(rows) <= len(groups.free):
        return whole
    apart = np.flatnonzero(groups.number == evidence.FIXED)
    directions = np.asarray(np.linalg.qr(rows[:, groups.free].T, mode="r")).T
    design = np.concatenate([rows[:, apart], directions, rows[:, -1:]], axis=1)
    factor = np.zeros((design.shape[1], design.shape[1]), order="F")
    factor[: len(rows)] = np.asarray(np.linalg.qr(design, mode="r"))
    number = np.repeat([evidence.FIXED, 0], [len(apart), len(rows)])
    return _Problem(factor, Groups(number), np.append(fixed[apart], np.ones(len(rows))))


def _at(
    root: np.ndarray,
    weight_sum: float,
    groups: Groups,
    fixed: np.ndarray,
    noise_var: float | None,
    prec: np.ndarray,
    before: _Point | None,
) -> _Point:
    """Return the evidence of one output at precisions of its groups and, last, of free noise."""
    del before
    noise_prec = None
    if noise_var is None:
        prec, noise_prec = prec[:-1], float(prec[-1])
        noise_var = 1.0 / noise_prec
    by_weight = groups.spread(prec, fixed)
    relative = by_weight * noise_var
    solved = solve(root, relative)
    var = noise_var * np.einsum("kl,kl->k", solved.root, solved.root)
    square = solved.mean * solved.mean
    weights = groups.weights(prec, square, var)
    if noise_prec is not None:
        error = max(solved.penalised - float(relative @ square), 0.0)
        gamma = max(len(var) - float(by_weight @ var), 0.0)
        weights = weights.with_noise(noise_prec, weight_sum, error, gamma)
    log_evidence = gaussian_log_evidence(weight_sum, solved, relative, noise_var)
    return _Point(weights, log_evidence, solved, by_weight, noise_var)


def _started(
    state: Statistics, output: int, groups: Groups, *, noise_is_known: bool
) -> tuple[np.ndarray, Bounds]:
    """Start where the prior of the function has the mean square of y, whatever the units.

    Precisions of the groups and, last, of free noise; and their bounds.
    """
    n = max(state.weight_sum, 1.0)
    explained, rest = state.target[:, output], state.residual[:, output]
    square_y = float(explained @ explained + rest @ rest) / n or 1.0
    square_phi = np.einsum("kl,kl->l", state.design, state.design) / n
    total = float(square_phi.take(groups.free).sum())
    total = total if total > 0.0 else 1.0
    usual = groups.mean(np.where(square_phi > 0.0, square_phi, total)) / square_y
    start, least, most = len(usual) * groups.sizes * usual, _LEAST * usual, _MOST * n * usual
    if noise_is_known:
        return start, Bounds(least, most)
    bounds = np.array([*least, _LEAST / square_y]), np.array([*most, 1.0 / (_LEAST * square_y)])
    return np.array([*start, 1.0 / square_y]), Bounds(*bounds)
