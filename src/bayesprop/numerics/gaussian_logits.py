"""Class probabilities and entropies under Gaussian logits, and what they are integrated with.

One logit a ~ N(m, v): log(1 + exp(a)) = E max(a + G, 0), with G a standard logistic variable, and
sigmoid(a) = P(a + G > 0). Where the Gaussian is the narrower of the two, it gets the nodes
(Gauss-Hermite); where it is the wider, G gets them (trapezoidal rule) and the Gaussian integral is
closed, to 1e-9. Plain Gauss-Hermite is wrong by 1e-2 for a standard deviation of 10.

Several logits: few points that stand for a standard Gaussian in several dimensions, the same every
time. The ways to class probabilities are in `PREDICTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg, special

from bayesprop.numerics import graphs
from bayesprop.numerics.graphs import ClassNodes, Node
from bayesprop.numerics.machine import chunks

_PROBIT = np.pi / 8.0
_N_PAIRS = 256
_N_NODES, _N_ENTROPY_NODES = 32, 64
_LOGISTIC_STEP, _LOGISTIC_REACH = 0.6, 33.0
_ENTROPY_STEP, _ENTROPY_REACH = 0.25, 9.0
_PROBIT_REACH, _PROBIT_STEP, _MOST_PROBIT_STEPS = 8.0, 0.4, 1024.0
_WIDE = 1.0  # standard deviation of a from which on what it is averaged over has the nodes
_CHUNK = 16_384


class Logits(NamedTuple):
    """Gaussian logits of every row; one is that of the second of two classes."""

    mean: Float[np.ndarray, "n l"]
    cov: Float[np.ndarray, "n l l"]


class ClassMoments(NamedTuple):
    """Probability of every class, and the entropy averaged over the logits, nats."""

    proba: Float[np.ndarray, "n c"]
    expected_entropy: Float[np.ndarray, " n"]


@lru_cache(maxsize=16)
def gaussian_nodes(n_dims: int, n_pairs: int) -> Float[np.ndarray, "r d"]:
    """Return 2 max(n_pairs, 2 n_dims) points of equal weight that stand for a standard Gaussian.

    The additive recurrence of the generalised golden ratio (Roberts 2018, "The unreasonable
    effectiveness of quasirandom sequences") through the Gaussian quantile function, with every
    point's opposite, and then turned so that the covariance is exact: polynomials up to degree
    three are integrated without error.
    """
    n_pairs = max(n_pairs, 2 * n_dims)
    golden = 2.0
    for _ in range(60):
        golden = (1.0 + golden) ** (1.0 / (n_dims + 1.0))
    steps = golden ** -np.arange(1.0, n_dims + 1.0)
    z = special.ndtri((0.5 + np.outer(np.arange(1, n_pairs + 1), steps)) % 1.0)
    factor = linalg.cholesky(z.T @ z / n_pairs, lower=True)
    z = linalg.solve_triangular(factor, z.T, lower=True).T
    nodes = np.concatenate([z, -z])
    nodes.flags.writeable = False
    return nodes


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
        expected = logistic_moments(m, v)
        entropy = logistic_entropy(m, v, expected)
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
    More classes: the mean-field softmax of Lu, Ie & Sha (2020), variant "mf2",

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


def probit_cdf(at: Logits) -> ClassMoments:
    """Leave the probit as it is: Phi(m / sqrt(8 / pi + v)), the lecture's, of two classes.

    The sigmoid is taken for Phi(sqrt(pi / 8) a), so that for v = 0 this is not the sigmoid. The
    expected entropy is that of `quadrature`.
    """
    m, v = at.mean, at.cov[:, :, 0]
    p = special.ndtr(m / np.sqrt(1.0 / _PROBIT + v))
    return ClassMoments(with_both(p), quadrature(at).expected_entropy)


PREDICTIONS: dict[str, Callable[[Logits], ClassMoments]] = {
    "quadrature": quadrature,
    "probit": probit,
    "probit-cdf": probit_cdf,
}


def with_both(p: Float[np.ndarray, "n l"]) -> Float[np.ndarray, "n c"]:
    """Probabilities of all classes; of two, one is the other's complement."""
    return np.hstack([1.0 - p, p]) if p.shape[1] == 1 else p


class LogisticMoments(NamedTuple):
    """Expectations over a ~ N(m, v), element by element.

    softplus
        E[log(1 + exp(a))], nats.
    proba
        E[sigmoid(a)], the derivative of `softplus` by m.
    slope
        E[sigmoid (1 - sigmoid)], the derivative of `proba` by m; half of it is that of `softplus`
        by v.
    """

    softplus: Float[np.ndarray, " n"]
    proba: Float[np.ndarray, " n"]
    slope: Float[np.ndarray, " n"]


def logistic_moments(m: Float[np.ndarray, " n"], v: Float[np.ndarray, " n"]) -> LogisticMoments:
    """Integrate over each of n Gaussians."""
    moments = np.empty((3, len(m)))
    std = np.sqrt(v)
    is_wide = std > _WIDE
    for rule, chosen in ((_over_gaussian, ~is_wide), (_over_logistic, is_wide)):
        rows = np.flatnonzero(chosen)
        for first in range(0, len(rows), _CHUNK):
            part = rows[first : first + _CHUNK]
            moments[:, part] = rule(m[part, None], std[part, None])
    return LogisticMoments(*moments)


def logistic_entropy(
    m: Float[np.ndarray, " n"], v: Float[np.ndarray, " n"], expected: LogisticMoments
) -> Float[np.ndarray, " n"]:
    """E[entropy of (sigmoid(a), 1 - sigmoid(a))], nats, from `logistic_moments`.

    E[softplus(a)] - E[a sigmoid(a)], and E[a sigmoid(a)] = m E[sigmoid] + v E[slope] by Stein's
    identity. The sign of a does not matter, so that it is taken where nothing cancels.
    """
    m_low, p_low = -np.abs(m), np.where(m > 0.0, 1.0 - expected.proba, expected.proba)
    softplus = expected.softplus - np.maximum(m, 0.0)
    return np.maximum(softplus - m_low * p_low - v * expected.slope, 0.0)


def _over_gaussian(m: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, ...]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(_N_NODES)
    weights = weights / weights.sum()
    a = m + std * nodes
    p = special.expit(a)
    return np.logaddexp(0.0, a) @ weights, p @ weights, (p * special.expit(-a)) @ weights


def _over_logistic(m: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, ...]:
    g = np.arange(-_LOGISTIC_REACH, _LOGISTIC_REACH + _LOGISTIC_STEP, _LOGISTIC_STEP)
    weights = special.expit(g) * special.expit(-g)
    weights = weights / weights.sum()
    z = (m + g) / std
    above = special.ndtr(z)
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    softplus = (m + g) * above + std * density
    return softplus @ weights, above @ weights, (density @ weights) / std[:, 0]


def logistic_graph(m: Node, v: Node) -> ClassNodes:
    """Write `quadrature` of one logit N(m, v) as a graph of ONNX; both (n, 1)."""
    std = graphs.applied("sqrt", v)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_N_NODES)
    a = m + graphs.smaller(std, _WIDE) * nodes
    p = graphs.applied("sigmoid", a)
    low = graphs.applied("log", graphs.applied("sigmoid", graphs.applied("abs", a)))
    terms = graphs.larger(a, 0.0) - low, p, p * graphs.applied("sigmoid", -a)
    narrow = [each @ (weights / weights.sum())[:, None] for each in terms]
    g = np.arange(-_LOGISTIC_REACH, _LOGISTIC_REACH + _LOGISTIC_STEP, _LOGISTIC_STEP)
    weights = special.expit(g) * special.expit(-g)
    weights = (weights / weights.sum())[:, None]
    wide_std = graphs.larger(std, _WIDE)
    bell_at = graphs.bell((m + g) / wide_std)
    softplus = ((m + g) * bell_at.lower + wide_std * bell_at.density) @ weights
    wide = [softplus, bell_at.lower @ weights, bell_at.density @ weights / wide_std]
    pairs = zip(wide, narrow, strict=True)
    softplus, proba, slope = (graphs.where_less(_WIDE, std, one, other) for one, other in pairs)
    against = 1.0 - proba
    p_low = graphs.where_less(0.0, m, against, proba)
    entropy = softplus - graphs.larger(m, 0.0) + graphs.applied("abs", m) * p_low - v * slope
    return ClassNodes(graphs.side_by_side([against, proba]), graphs.larger(entropy, 0.0))


def softmax_graph(m: Node, cov: Node, n_logits: int) -> ClassNodes:
    """Write `quadrature` of two logits or more as a graph; m (n, 1, l) and cov (n, l, l)."""
    across = linalg.helmert(n_logits)
    if n_logits == 2:
        d = np.array([[-1.0], [1.0]])
        var = Node(graphs.variable(d.T)) @ cov @ d
        return logistic_graph((m @ d).reshape(-1, 1), graphs.larger(var.reshape(-1, 1), 0.0))
    root = graphs.symmetric_root(Node(graphs.variable(across)) @ cov @ across.T, n_logits - 1)
    nodes = gaussian_nodes(n_logits - 1, _N_PAIRS)
    p = graphs.applied("softmax", m + Node(graphs.variable(nodes)) @ (root @ across))
    mean = Node(graphs.variable(np.full((1, len(nodes)), 1.0 / len(nodes))))
    return ClassNodes((mean @ p).reshape(-1, n_logits), (mean @ graphs.entropy(p)).reshape(-1, 1))


def probit_graph(m: Node, v: Node) -> ClassNodes:
    """Write two classes of probability Phi(f), f ~ N(m, v), and `probit_entropy`; (n, 1)."""

    def both(f: Node) -> Node:
        at = graphs.bell(f)
        return graphs.information(at.lower) + graphs.information(at.upper)

    std = graphs.applied("sqrt", v)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_N_ENTROPY_NODES)
    narrow = both(m + graphs.smaller(std, _WIDE) * nodes) @ (weights / weights.sum())[:, None]
    f = np.arange(-_ENTROPY_REACH, _ENTROPY_REACH + _ENTROPY_STEP, _ENTROPY_STEP)
    wide_std = graphs.larger(std, _WIDE)
    heights = _bernoulli_entropy(f)[:, None] * _ENTROPY_STEP
    wide = graphs.bell((-m + f) / wide_std).density @ heights / wide_std
    at = graphs.bell(m / graphs.applied("sqrt", v + 1.0))
    proba = graphs.side_by_side([at.upper, at.lower])
    return ClassNodes(proba, graphs.larger(graphs.where_less(_WIDE, std, wide, narrow), 0.0))


def multinomial_probit_graph(m: Node, v: Node, n_classes: int, n_pairs: int) -> ClassNodes:
    """Write three classes or more, the largest of f + e, f ~ N(m, v) and e ~ N(0, 1); (n, c).

    n_pairs
        Of points over which the entropy is averaged.
    """
    nodes = gaussian_nodes(n_classes, n_pairs)
    f = m.reshape(-1, 1, n_classes) + graphs.applied("sqrt", v).reshape(-1, 1, n_classes) * nodes
    f = f.reshape(-1, n_classes)
    each = graphs.entropy(_largest_of(f, f * 0.0 + 1.0, n_classes)).reshape(-1, len(nodes))
    proba = _largest_of(m, graphs.applied("sqrt", v + 1.0), n_classes)
    return ClassNodes(proba, each @ np.full((len(nodes), 1), 1.0 / len(nodes)))


def _largest_of(m: Node, std: Node, n_classes: int) -> Node:
    """Probability of each of some N(m, std²) to be the largest: a sum over equal steps; (n, c)."""
    low = (m - std * _PROBIT_REACH).max()
    reach = (m + std * _PROBIT_REACH).max() - low
    step = graphs.larger(-(-std).max() * _PROBIT_STEP, reach * (1.0 / _MOST_PROBIT_STEPS))
    n_steps = Node(graphs.operators().reduce_max((reach / step).var, keepdims=0)) + 1.0
    at = Node(graphs.operators().range(graphs.variable(0.0), n_steps.var, graphs.variable(1.0)))
    u = low.reshape(-1, 1, 1) + step.reshape(-1, 1, 1) * at.reshape(-1, 1)
    own = graphs.bell((u - m.reshape(-1, 1, n_classes)) / std.reshape(-1, 1, n_classes))
    logs = graphs.applied("log", graphs.larger(own.lower, 1e-300))
    others = graphs.applied("exp", logs.sum() - logs)
    total = (own.density * others).sum(1).reshape(-1, n_classes)
    return total * step / std


def probit_entropy(
    m: Float[np.ndarray, " n"], v: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """E[entropy of (Phi(f), 1 - Phi(f))], nats, to 1e-9.

    The entropy is a bump about 0. Where the Gaussian is narrower, it gets the nodes
    (Gauss-Hermite); where it is wider, the bump gets them (trapezoidal rule).
    """
    std = np.sqrt(v)
    entropy = np.empty_like(m)
    is_wide = std > _WIDE
    nodes, weights = np.polynomial.hermite_e.hermegauss(_N_ENTROPY_NODES)
    narrow = _bernoulli_entropy(m[~is_wide, None] + std[~is_wide, None] * nodes)
    entropy[~is_wide] = narrow @ (weights / weights.sum())
    f = np.arange(-_ENTROPY_REACH, _ENTROPY_REACH + _ENTROPY_STEP, _ENTROPY_STEP)
    z = (f - m[is_wide, None]) / std[is_wide, None]
    density = np.exp(-0.5 * z * z) / (np.sqrt(2.0 * np.pi) * std[is_wide, None])
    entropy[is_wide] = _ENTROPY_STEP * (density @ _bernoulli_entropy(f))
    return entropy


def _bernoulli_entropy(f: np.ndarray) -> np.ndarray:
    return special.entr(special.ndtr(f)) + special.entr(special.ndtr(-f))
