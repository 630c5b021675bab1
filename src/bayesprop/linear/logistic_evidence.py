"""Prior precision of a logistic regression that maximises its evidence, as it is estimated.

The evidence is a lower bound of variational inference, or Laplace's estimate. Each is maximised
in turn over the posterior and over the precisions, by the steps of `linear/precisions.py`. A step
that lowers the bound is replaced by one of expectation maximisation, which cannot (Neal & Hinton
1998). Laplace's estimate depends on the precisions through the place of the mode as well, which
MacKay's steps leave out, as usual (Bishop, section 5.7.2): they end near its maximum, not at it.

Where planes separate the classes the evidence may rise for ever as the prior widens: there is a
least precision.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int

from bayesprop.linear import precisions
from bayesprop.linear.logistic import Fitted, GaussianPrior, GaussianWeights, Rows, isotropic_prior
from bayesprop.linear.precisions import FIXED, Groups, Weights

LEAST, _MOST = 1e-2, 1e6
_START = 1.0
_SLACK = 1e-6


class Approximation(Protocol):
    """Finds a Gaussian posterior, from near the one where it starts."""

    def __call__(
        self, data: Rows, prior: GaussianPrior, *, start: GaussianWeights | None
    ) -> Fitted:
        """Return the posterior, and how it was found."""
        ...


class Maximised(NamedTuple):
    """Posterior at the maximum, what maximises, and how it was found.

    prior_prec
        Precision of the weights of every column, the same for every logit.
    trace
        Estimate of the log evidence after every step, nats.
    gradient
        Derivative of the log evidence by the log precision that it depends on most, nats, without
        those at a bound.
    n_repaired
        Steps that lowered the bound, and were replaced.
    n_widest
        Columns whose prior has the least precision there is.
    converged
        Whether posterior and precisions were found.
    """

    fitted: Fitted
    prior_prec: Float[np.ndarray, " k"]
    trace: list[float]
    gradient: float
    n_repaired: int
    n_widest: int
    converged: bool


def maximise(
    data: Rows,
    prior_prec: Float[np.ndarray, " k"],
    groups: Int[np.ndarray, " k"],
    approximate: Approximation,
    *,
    is_bound: bool = True,
    max_steps: int = 200,
    tolerance: float = 1e-2,
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
    """
    k, c = data.phi.shape[1], data.n_logits
    number = np.tile(groups, c)
    enough = tolerance * np.max(np.unique(number[number != FIXED], return_counts=True)[1])
    shared = Groups(number, np.full(k * c, LEAST), np.full(k * c, _MOST))
    prec = np.where(groups == FIXED, prior_prec, _START)
    found = approximate(data, isotropic_prior(prec, c), start=None)
    trace, n_repaired = [found.info.log_evidence], 0
    for _ in range(max_steps):
        weights = _weights(found.posterior, prec)
        if precisions.gradient(weights, shared) < enough:
            break
        ahead = precisions.mackay(weights, shared)[:k]
        moved = approximate(data, isotropic_prior(ahead, c), start=found.posterior)
        if is_bound and moved.info.log_evidence < trace[-1] - _SLACK * (1.0 + abs(trace[-1])):
            ahead = precisions.em(weights, shared)[:k]
            moved = approximate(data, isotropic_prior(ahead, c), start=found.posterior)
            n_repaired += 1
        found, prec = moved, ahead
        trace.append(found.info.log_evidence)
    gradient = precisions.gradient(_weights(found.posterior, prec), shared)
    return Maximised(
        fitted=found,
        prior_prec=prec,
        trace=trace,
        gradient=gradient,
        n_repaired=n_repaired,
        n_widest=int(np.sum((groups != FIXED) & (prec <= LEAST))),
        converged=found.info.converged and gradient < enough,
    )


def _weights(posterior: GaussianWeights, prec: Float[np.ndarray, " k"]) -> Weights:
    """Gather what is believed of the weights, one logit's after another."""
    tiled = np.tile(prec, len(posterior.mean) // len(prec))
    return Weights(tiled, posterior.mean**2, np.sum(posterior.root**2, axis=1))
