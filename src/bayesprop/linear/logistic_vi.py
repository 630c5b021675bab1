"""Variational inference for Bayesian logistic regression: the Gaussian that maximises the ELBO.

    ELBO(m, S) = sum_n E[log p(y_n | a_n)] - KL(N(m, S) || prior),   a_n ~ N of the row's logits

The logits of a row are Gaussian, so that no weight is ever drawn: with two classes one integral a
row remains, which `numerics/gaussian_logits.py` computes to 1e-9; with more, fixed points of
`gaussian_nodes` stand for the Gaussian. At the maximum (Opper & Archambeau 2009, eqs.
10, 11) the gradient by m is zero and S^-1 = prior precision + sum_n E[curvature_n] phi_n phi_n', or
its diagonal for the mean-field posterior. Both are approached at once, by Newton's step for m and a
natural-gradient step for S^-1 (Khan & Lin 2017), shortened until the ELBO rises. For two classes
the ELBO is concave in m and the Cholesky factor of S (Challis & Barber 2013): one maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg

from bayesprop.linear import logistic
from bayesprop.linear.logistic import Gaussian
from bayesprop.numerics.gaussian_logits import Logits, logistic_moments, logit_nodes
from bayesprop.numerics.machine import chunks
from bayesprop.numerics.rows import Rows

(_trmm,) = linalg.get_blas_funcs(("trmm",), dtype=np.float64)
_N_PAIRS = 64
_HALVINGS = 40
_SLACK = 1e-9
_EXACT, _NODES_EXACT = 1e-8, 1e-3
_NODES_SLACK = 1e-3  # relative: the points integrate value and derivatives with errors of their own


class Expected(NamedTuple):
    """Expectations of every row over its Gaussian logits.

    log_normaliser
        E[log(1 + exp(a))] of one logit, E[log sum exp(a)] of several, nats.
    proba, curvature
        E[p] and E[diag(p) - p p'].
    """

    log_normaliser: Float[np.ndarray, " n"]
    proba: Float[np.ndarray, "n l"]
    curvature: Float[np.ndarray, "n l l"]


class _Point(NamedTuple):
    q: Gaussian
    elbo: float
    slope: Float[np.ndarray, " p"]
    target: Float[np.ndarray, "p p"]


class _Move(NamedTuple):
    """Direction for mean and precision; and both together in the metric of the posterior."""

    step: Float[np.ndarray, " p"]
    gap: Float[np.ndarray, "p p"]
    whitened: Float[np.ndarray, " w"]


def expectations(at: Logits) -> Expected:
    """Integrate over the logits of every row."""
    if at.mean.shape[1] == 1:
        one = logistic_moments(at.mean[:, 0], at.cov[:, 0, 0])
        return Expected(one.softplus, one.proba[:, None], one.slope[:, None, None])
    n, c = at.mean.shape
    expected = Expected(np.empty(n), np.empty((n, c)), np.empty((n, c, c)))
    for part in chunks(n, 2 * _N_PAIRS * c):
        f = logit_nodes(Logits(at.mean[part], at.cov[part]), _N_PAIRS)
        largest = f.max(axis=-1, keepdims=True)
        p = np.exp(f - largest)
        total = p.sum(axis=-1, keepdims=True)
        p /= total
        expected.log_normaliser[part] = (largest + np.log(total))[..., 0].mean(axis=1)
        expected.proba[part] = mean = p.mean(axis=1)
        square = p.transpose(0, 2, 1) @ p / f.shape[1]
        expected.curvature[part] = mean[:, :, None] * np.eye(c) - square
    return expected


def elbo(data: Rows, prior: Gaussian, q: Gaussian) -> float:
    """Lower bound of log p(y | X), nats: expected log-likelihood less the divergence."""
    return _at(data, prior, q).elbo


def kl(q: Gaussian, prior: Gaussian) -> float:
    """KL(q || prior) of two Gaussians, nats."""
    gap, own = q.mean - prior.mean, prior.prec.diagonal()
    is_diagonal = np.count_nonzero(prior.prec) == np.count_nonzero(own)
    product = own[:, None] * q.root if is_diagonal else prior.prec @ q.root
    spread = float(np.sum(q.root * product) + gap @ prior.prec @ gap)
    return 0.5 * (spread - len(gap) + q.log_det_prec - prior.log_det_prec)


def variational(
    data: Rows,
    prior: Gaussian,
    *,
    covariance: str = "full",
    start: Gaussian | None = None,
    max_steps: int = 200,
    tolerance: float | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> logistic.Fitted:
    """Maximise the ELBO over Gaussians with a full covariance, or a "diagonal" one (mean-field).

    start
        Of that structure; None: Laplace's approximation.
    tolerance
        Largest squared length of the natural gradient at the end, nats. None: 1e-8 with two
        classes, with more 1e-3 a row, which is no more than the points err.
    is_over
        Asked at every step whether to end with what there is.
    """
    is_binary = len(prior.mean) == data.x.shape[1]
    if tolerance is None:
        tolerance = _EXACT if is_binary else max(_EXACT, _NODES_EXACT * float(data.weights.sum()))
    if start is None:
        modes = partial(logistic.laplace, covariance=covariance, max_steps=max_steps)
        start = modes(data, prior, is_over=is_over).posterior
    point = _at(data, prior, start)
    slack = _SLACK if is_binary else _NODES_SLACK
    trace, residual, share = [point.elbo], np.inf, 1.0
    before: _Move | None = None
    for _ in range(max_steps + 1):
        move = _move(point, covariance)
        residual = float(move.whitened @ move.whitened)
        if residual <= tolerance or len(trace) > max_steps or is_over():
            break
        share = 1.0 if before is None else _next_share(share, before.whitened, move.whitened)
        ahead = None
        for _ in range(_HALVINGS):
            ahead = _moved(data, prior, point, move, share)
            if ahead is not None and ahead.elbo >= point.elbo - slack * (1.0 + abs(point.elbo)):
                break
            share *= 0.5
        else:
            break
        point, before = ahead, move
        trace.append(point.elbo)
    return logistic.Fitted(point.q, trace, residual, residual <= tolerance, point.elbo)


def _move(point: _Point, covariance: str) -> _Move:
    """Newton's step for the mean, the natural gradient for the precision."""
    gap = logistic.structured(point.target, covariance) - point.q.prec
    step = linalg.cho_solve(linalg.cho_factor(point.target), point.slope)
    of_mean = linalg.solve_triangular(point.q.root, step)
    times = partial(_trmm, 1.0, point.q.root.T, lower=True)
    of_prec = times(times(gap, side=True, trans_a=True))
    return _Move(step, gap, np.concatenate([of_mean, np.sqrt(0.5) * of_prec.ravel()]))


def _next_share(share: float, before: np.ndarray, now: np.ndarray) -> float:
    """Secant estimate of the step that would end at the fixed point (Barzilai & Borwein 1988).

    Whole steps overshoot, or creep, where the curvature of the logits changes much.
    """
    change = float(before @ (before - now))
    return float(np.clip(share * (before @ before) / change, 0.1, 2.0)) if change > 0.0 else 1.0


def _moved(data: Rows, prior: Gaussian, point: _Point, move: _Move, share: float) -> _Point | None:
    """Go a share of the way; None where that is no Gaussian, as beyond a whole step it may be."""
    q = Gaussian(point.q.mean + share * move.step, point.q.prec + share * move.gap)
    try:
        return _at(data, prior, q)
    except linalg.LinAlgError:
        return None


def _at(data: Rows, prior: Gaussian, q: Gaussian) -> _Point:
    """Integrate over the rows, so many at a time that the covariances of their logits are few."""
    likelihood, k = 0.0, data.x.shape[1]
    slope = -prior.prec @ (q.mean - prior.mean)
    target = prior.prec.copy()
    for part in chunks(len(data.x), (len(q.mean) // k) ** 2):
        rows = data.at(part)
        at = logistic.logit_moments(q, rows.x)
        expected = expectations(at)
        likelihood += logistic.expected_log_likelihood(rows, at.mean, expected.log_normaliser)
        slope += logistic.gradient(rows, logistic.residuals(rows, expected.proba))
        target += logistic.information(rows, expected.curvature)
    return _Point(q, likelihood - kl(q, prior), slope, target)
