"""Class probabilities under Gaussian logits, each way under its name in `PREDICTIONS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg, special

from bayesprop.numerics import logistic_gaussian
from bayesprop.numerics.chunks import chunks
from bayesprop.numerics.gaussian_nodes import gaussian_nodes

_PROBIT = np.pi / 8.0
_N_PAIRS = 256


class Logits(NamedTuple):
    """Gaussian logits of every row; one is that of the second of two classes."""

    mean: Float[np.ndarray, "n l"]
    cov: Float[np.ndarray, "n l l"]


class ClassMoments(NamedTuple):
    """Probability of every class, and the entropy averaged over the logits, nats."""

    proba: Float[np.ndarray, "n c"]
    expected_entropy: Float[np.ndarray, " n"]


def logit_nodes(at: Logits, n_pairs: int) -> Float[np.ndarray, "n r l"]:
    """Points of equal weight that stand for the Gaussian logits of each row, in their differences.

    What all logits of a row have in common moves no probability: one dimension less to fill.
    """
    n_logits = at.mean.shape[1]
    across = linalg.helmert(n_logits)
    values, vectors = np.linalg.eigh(across @ at.cov @ across.T)
    # The symmetric root, so that the points move smoothly with the covariance.
    root = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ vectors.transpose(0, 2, 1)
    return at.mean[:, None, :] + gaussian_nodes(n_logits - 1, n_pairs) @ (root @ across)


def log_odds(at: Logits) -> Logits:
    """Turn the two logits of two classes into the one that counts, second less first: exact."""
    if at.mean.shape[1] != 2:
        return at
    across = np.array([[-1.0, 1.0]])
    var = at.cov[:, 0, 0] + at.cov[:, 1, 1] - 2.0 * at.cov[:, 0, 1]
    return Logits(at.mean @ across.T, np.maximum(var, 0.0)[:, None, None])


def quadrature(at: Logits) -> ClassMoments:
    """Integrate over the Gaussian logits of every row.

    To 1e-9 with two classes. With more, 512 fixed points stand for the Gaussian: probabilities
    within 5e-4 for logits of standard deviation 0.3, within 5e-3 for 1, within 0.015 for 3.
    """
    n_logits = at.mean.shape[1]
    if n_logits == 1:
        m, v = at.mean[:, 0], at.cov[:, 0, 0]
        expected = logistic_gaussian.moments(m, v)
        entropy = logistic_gaussian.expected_entropy(m, v, expected)
        return ClassMoments(with_both(expected.proba[:, None]), entropy)
    averaged = ClassMoments(np.empty_like(at.mean), np.empty(len(at.mean)))
    for part in chunks(len(at.mean), 2 * _N_PAIRS * n_logits):
        p = special.softmax(logit_nodes(Logits(at.mean[part], at.cov[part]), _N_PAIRS), axis=-1)
        averaged.proba[part] = p.mean(axis=1)
        averaged.expected_entropy[part] = special.entr(p).sum(axis=-1).mean(axis=1)
    return averaged


def probit(at: Logits) -> ClassMoments:
    """Shrink logits as the convolution of a probit with a Gaussian does: no integral.

    Two classes: sigmoid(m / sqrt(1 + pi v / 8)), MacKay (1992), Bishop (2006), eqs. 4.153-4.155.
    The lecture's Phi(m / sqrt(8 / pi + v)) is the same probit left as it is; for v = 0 it is not
    the sigmoid. More classes: the mean-field softmax of Lu, Ie & Sha (2020), variant "mf2",

        p_k ~ 1 / sum_i exp(-(m_k - m_i) / sqrt(1 + pi v_ki / 8)),   v_ki = Var(a_k - a_i),

    which is the first for two, and blind to what all logits have in common. The expected entropy
    has no such form; it is that of `quadrature`.
    """
    entropy = quadrature(at).expected_entropy
    m, v = at.mean, np.diagonal(at.cov, axis1=1, axis2=2)
    if m.shape[1] == 1:
        return ClassMoments(with_both(special.expit(m / np.sqrt(1.0 + _PROBIT * v))), entropy)
    var = np.maximum(v[:, :, None] + v[:, None, :] - 2.0 * at.cov, 0.0)
    shrunk = (m[:, None, :] - m[:, :, None]) / np.sqrt(1.0 + _PROBIT * var)
    odds_against = np.asarray(special.logsumexp(shrunk, axis=2))
    return ClassMoments(special.softmax(-odds_against, axis=1), entropy)


PREDICTIONS: dict[str, Callable[[Logits], ClassMoments]] = {
    "quadrature": quadrature,
    "probit": probit,
}


def with_both(p: Float[np.ndarray, "n l"]) -> Float[np.ndarray, "n c"]:
    """Probabilities of all classes; of two, one is the other's complement."""
    return np.hstack([1.0 - p, p]) if p.shape[1] == 1 else p
