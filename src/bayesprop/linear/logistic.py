"""Bayesian logistic regression: the mode by Newton, Laplace's approximation, evidence, predictions.

    binary       p(y = 1 | x, w) = sigmoid(w' phi(x))                     one logit
    multi-class  p(y = k | x, w) = softmax(W phi(x))_k                    c logits
    prior        w ~ N(mean, prec^-1)

A symmetric softmax, one logit a class: the prior makes its weights unique. Laplace: N(w_map, H^-1),
H = -d² log p(y, w | X) / dw² at the mode, Bishop (2006), eqs. 4.97-4.144. (The lecture prints
H = dd p, without sign and logarithm.) The x of `Rows` are columns phi, standardised
as the estimator does (H is factored by Cholesky); weights of rows multiply their log-likelihoods.

Prior precisions maximise the evidence as it is estimated: a lower bound of variational inference
(`logistic_vi.py`), or Laplace's estimate. The latter depends on the precisions through the place of
the mode as well, which MacKay's steps leave out, as usual (Bishop, section 5.7.2): they end near
its maximum, not at it. Where planes separate the classes the evidence may rise for ever as the
prior widens: there is a least precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import linalg, special

from bayesprop.numerics import evidence
from bayesprop.numerics.evidence import FIXED, Ascent, Bounds, Groups, Weights
from bayesprop.numerics.gaussian_logits import ClassMoments, Logits, with_both
from bayesprop.numerics.machine import chunks
from bayesprop.numerics.rows import Rows

(_trtri,) = linalg.get_lapack_funcs(("trtri",), dtype=np.float64)
_ARMIJO, _HALVINGS, _ROUNDING = 1e-4, 60, 1e-13
LEAST, _MOST = 1e-2, 1e6
_START_PREC, _SLACK = 1.0, 1e-6
_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Gaussian of all weights, one logit's after another: a prior, or a posterior."""

    mean: Float[np.ndarray, " p"]
    prec: Float[np.ndarray, "p p"]

    @cached_property
    def root(self) -> Float[np.ndarray, "p p"]:
        """Root of the covariance, root root', upper; LinAlgError unless prec > 0."""
        factor = linalg.cholesky(self.prec, lower=True)
        return _trtri(factor, lower=True, overwrite_c=True)[0].T

    @property
    def cov(self) -> Float[np.ndarray, "p p"]:
        """Covariance of the weights."""
        return self.root @ self.root.T

    @property
    def log_det_prec(self) -> float:
        """Log determinant of the precision."""
        return -2.0 * float(np.sum(np.log(self.root.diagonal())))

    def sample(self, rng: np.random.RandomState, n_draws: int) -> Float[np.ndarray, "s p"]:
        """Draw all weights jointly."""
        z = rng.standard_normal((n_draws, len(self.mean)))
        return self.mean + z @ self.root.T


class Fitted(NamedTuple):
    """A posterior, and how the search for it went.

    trace
        Maximised quantity after every step, nats: log joint density at the mode, or the ELBO.
    residual
        Squared length of the gradient at the end, in the metric of the posterior (Newton
        decrement), nats; zero at the maximum.
    converged
        Whether the residual is below the tolerance.
    log_evidence
        Laplace's estimate of log p(y | X), or the ELBO, a lower bound; nats.
    """

    posterior: Gaussian
    trace: list[float]
    residual: float
    converged: bool
    log_evidence: float


def n_logits(n_classes: int) -> int:
    """Two classes have one logit, that of class 1, more have one each."""
    return 1 if n_classes == 2 else n_classes


def isotropic_prior(prior_prec: Float[np.ndarray, " k"], n_logits: int) -> Gaussian:
    """Prior with mean zero and the given precision of every column, the same for every logit."""
    prec = np.tile(prior_prec, n_logits)
    return Gaussian(np.zeros(len(prec)), np.diag(prec))


def logits(weights: Float[np.ndarray, " p"], phi: Float[np.ndarray, "n k"]) -> np.ndarray:
    """Logits of every row, (n, l)."""
    return phi @ weights.reshape(-1, phi.shape[1]).T


def log_likelihood(data: Rows, weights: Float[np.ndarray, " p"]) -> float:
    """Sum of weight times log p(y | x, w), nats."""
    f = logits(weights, data.x)
    several = f.shape[1] > 1
    log_normaliser = special.logsumexp(f, axis=1) if several else np.logaddexp(0.0, f[:, 0])
    return expected_log_likelihood(data, f, np.asarray(log_normaliser))


def expected_log_likelihood(
    data: Rows, f: Float[np.ndarray, "n l"], log_normaliser: Float[np.ndarray, " n"]
) -> float:
    """Add up the log-likelihoods of rows from their (expected) logits and normalisers, nats."""
    return float(data.weights @ (np.sum(_observed(data, f.shape[1]) * f, axis=1) - log_normaliser))


def _observed(data: Rows, n_logits: int) -> Bool[np.ndarray, "n l"]:
    """Whether a row is of the class of each logit."""
    return data.y[:, None] == np.arange(n_logits) + (n_logits == 1)


def log_joint(data: Rows, prior: Gaussian, weights: Float[np.ndarray, " p"]) -> float:
    """Add log p(y | X, w) and log p(w), less the prior's constant; nats."""
    gap = weights - prior.mean
    return log_likelihood(data, weights) - 0.5 * float(gap @ prior.prec @ gap)


def residuals(data: Rows, proba: Float[np.ndarray, "n l"]) -> Float[np.ndarray, "n l"]:
    """Weighted differences of observed and expected classes: the gradient by the logits."""
    return data.weights[:, None] * (_observed(data, proba.shape[1]) - proba)


def gradient(data: Rows, residual: Float[np.ndarray, "n l"]) -> Float[np.ndarray, " p"]:
    """Gradient by the weights from that by the logits."""
    return (residual.T @ data.x).ravel()


def information(data: Rows, curvature: Float[np.ndarray, "n l l"]) -> Float[np.ndarray, "p p"]:
    """Sum of weight times curvature (of a row's logits) times phi phi', block by block."""
    k, n_logits, weight = data.x.shape[1], curvature.shape[1], data.weights
    total = np.empty((n_logits, k, n_logits, k))
    for i in range(n_logits):
        for j in range(i + 1):
            block = data.x.T @ ((weight * curvature[:, i, j])[:, None] * data.x)
            total[i, :, j, :] = block
            total[j, :, i, :] = block.T
    return total.reshape(n_logits * k, n_logits * k)


def class_probabilities(f: Float[np.ndarray, "n l"]) -> Float[np.ndarray, "n l"]:
    """Probability of class 1 from one logit, or of every class from as many."""
    return special.expit(f) if f.shape[1] == 1 else special.softmax(f, axis=1)


def hessian(
    data: Rows, p: Float[np.ndarray, "n l"], f: Float[np.ndarray, "n l"]
) -> Float[np.ndarray, "p p"]:
    """Minus the second derivatives of the log-likelihood by the weights, some rows at a time.

    Of the logits i and j of a row, p_i (1 - p_i) and -p_i p_j: the blocks across logits are those
    of (p phi) (p phi)'.
    """
    k, n_logits, weight = data.x.shape[1], p.shape[1], data.weights
    total = np.zeros((n_logits * k, n_logits * k))
    if n_logits > 1:
        for part in chunks(len(p), n_logits * k):
            root = np.sqrt(weight[part])[:, None] * p[part]
            joint = (root[:, :, None] * data.x[part, None, :]).reshape(-1, n_logits * k)
            total -= joint.T @ joint
    other = 1.0 - p if n_logits > 1 else special.expit(-f)
    for i in range(n_logits):
        own, scale = slice(i * k, (i + 1) * k), weight * p[:, i] * other[:, i]
        total[own, own] = data.x.T @ (scale[:, None] * data.x)
    return total


def laplace(
    data: Rows,
    prior: Gaussian,
    *,
    covariance: str = "full",
    start: Gaussian | None = None,
    max_steps: int = 200,
    is_over: Callable[[], bool] = lambda: False,
) -> Fitted:
    """Laplace's approximation N(w_map, H^-1), or with "diagonal" N(w_map, diag(H)^-1).

    The mode by Newton's method with a backtracking line search, until the Newton decrement
    g' H^-1 g is at most 1e-10 nats. The evidence, Bishop (2006), eq. 4.137, is that of the
    structure chosen.

    start
        Begins at its mean; None: at the prior's.
    is_over
        Asked at every step whether to end with what there is.
    """
    w = (prior if start is None else start).mean.copy()
    value = log_joint(data, prior, w)
    trace, decrement, prec = [value], np.inf, prior.prec
    for _ in range(max_steps + 1):
        f = logits(w, data.x)
        p = class_probabilities(f)
        slope = gradient(data, residuals(data, p)) - prior.prec @ (w - prior.mean)
        prec = hessian(data, p, f)
        prec += prior.prec
        step = linalg.cho_solve(linalg.cho_factor(prec), slope)
        decrement = float(slope @ step)
        if decrement <= _TOLERANCE or len(trace) > max_steps or is_over():
            break
        for share in 0.5 ** np.arange(_HALVINGS):
            ahead = log_joint(data, prior, w + share * step)
            if ahead >= value + _ARMIJO * share * decrement - _ROUNDING * abs(value):
                break
        else:
            break
        w, value = w + share * step, ahead
        trace.append(value)
    posterior = Gaussian(w, structured(prec, covariance))
    log_evidence = value + 0.5 * (prior.log_det_prec - posterior.log_det_prec)
    return Fitted(posterior, trace, decrement, decrement <= _TOLERANCE, log_evidence)


def structured(prec: Float[np.ndarray, "p p"], covariance: str) -> Float[np.ndarray, "p p"]:
    """Return a precision whole, or of a "diagonal" covariance its diagonal alone."""
    return prec if covariance == "full" else np.diag(np.diag(prec))


Approximation = Callable[..., Fitted]
"""(data, prior, start=) -> posterior, searched from near `start`, and how it was found."""


class Maximised(NamedTuple):
    """Posterior at the maximum, what maximises, and how it was found.

    prior_prec
        Precision of the weights of every column, the same for every logit.
    n_widest
        Columns whose prior has the least precision there is.
    """

    fitted: Fitted
    prior_prec: Float[np.ndarray, " k"]
    ascent: Ascent
    n_widest: int

    @property
    def converged(self) -> bool:
        """Whether posterior and precisions were found."""
        return self.fitted.converged and self.ascent.converged


def maximise(
    data: Rows,
    prior_prec: Float[np.ndarray, " k"],
    groups: Int[np.ndarray, " k"],
    approximate: Approximation,
    n_logits: int,
    *,
    is_bound: bool = True,
    max_steps: int = 200,
    tolerance: float = 1e-2,
    on_step: Callable[[float], bool] = lambda _: False,
) -> Maximised:
    """Maximise the evidence over precisions, which the logits share.

    prior_prec
        Of columns whose precision is `FIXED`; elsewhere it is not looked at.
    groups
        Columns with the same number share a precision; `FIXED` (-1) keeps it.
    is_bound
        Whether the evidence of the approximation is a lower bound, which no step should lower.
    tolerance
        Largest derivative of the log evidence by a log precision at the end, nats a weight of the
        largest group; the posterior errs by more where its own search ends early.
    on_step
        As `ascend` takes it.
    """
    k, c = data.x.shape[1], n_logits
    shared = Groups(np.tile(groups, c))
    n_groups, enough = len(shared.sizes), tolerance * float(np.max(shared.sizes))
    ascent = evidence.ascend(
        partial(_at, data, approximate, shared, np.tile(prior_prec, c)),
        np.full(n_groups, _START_PREC),
        Bounds(np.full(n_groups, LEAST), np.full(n_groups, _MOST)),
        max_steps=max_steps,
        tolerance=enough,
        slack=_SLACK if is_bound else np.inf,
        on_step=on_step,
    )
    fitted, prec = ascent.point.fitted, ascent.point.prec[:k]
    return Maximised(fitted, prec, ascent, int(np.sum((groups != FIXED) & (prec <= LEAST))))


class _Point(NamedTuple):
    """A posterior, the prior precisions of its weights, one logit's after another, and groups."""

    fitted: Fitted
    prec: Float[np.ndarray, " p"]
    weights: Weights

    @property
    def log_evidence(self) -> float:
        return self.fitted.log_evidence


def _at(
    data: Rows,
    approximate: Approximation,
    groups: Groups,
    fixed: np.ndarray,
    prec: np.ndarray,
    before: _Point | None,
) -> _Point:
    """Approximate the posterior under precisions of the groups, from near the one before."""
    by_weight = groups.spread(prec, fixed)
    start = None if before is None else before.fitted.posterior
    fitted = approximate(data, isotropic_prior(by_weight, 1), start=start)
    mean, root = fitted.posterior.mean, fitted.posterior.root
    weights = groups.weights(prec, mean**2, np.sum(root**2, axis=1))
    return _Point(fitted, by_weight, weights)


def logit_moments(q: Gaussian, phi: Float[np.ndarray, "n k"]) -> Logits:
    """Mean and covariance of the logits of every row under Gaussian weights."""
    k, p = phi.shape[1], len(q.mean)
    n_logits = p // k
    root = q.root.reshape(n_logits, k, p)  # zeros before a logit's own columns
    cov = np.empty((len(phi), n_logits, n_logits))
    for part in chunks(len(phi), n_logits * p):
        spread = np.zeros((len(phi[part]), n_logits, p))
        for i in range(n_logits):
            spread[:, i, i * k :] = phi[part] @ root[i, :, i * k :]
        cov[part] = spread @ spread.transpose(0, 2, 1)
    return Logits(phi @ q.mean.reshape(n_logits, k).T, cov)


def monte_carlo(weights: Float[np.ndarray, "s p"], phi: Float[np.ndarray, "n k"]) -> ClassMoments:
    """Average over draws of the weights, (1/S) sum_s p(y | x, w_s); memory is a block of rows'.

    The draws may come from a Gaussian or a Markov chain. (The lecture leaves out 1/S.)
    """
    n_classes = max(weights.shape[1] // phi.shape[1], 2)
    proba, entropy = np.zeros((len(phi), n_classes)), np.zeros(len(phi))
    for part in chunks(len(phi), n_classes):
        for w in weights:
            p = with_both(class_probabilities(logits(w, phi[part])))
            proba[part] += p / len(weights)
            entropy[part] += special.entr(p).sum(axis=1) / len(weights)
    return ClassMoments(proba, entropy)
