"""Graphs of ONNX written like NumPy: float64 tensors, rows first, and the normal distribution.

Standard operators of opset 17 only. The runtime has no error function in float64: the normal
distribution comes from its Mills ratio. spox is imported when a graph is built.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float
from scipy import special

if TYPE_CHECKING:
    from spox import Var

_FURTHEST = 37.0  # Q(37) = 6e-300: beyond, products with it would leave float64
_CENTRE, _DEGREE = 3.0, 8
_LEAST_STD = 1e-100
_ROOT_STEPS = 40  # eigenvalues of 1e-10 of the trace
_SQRT_2PI = 2.5066282746310002


def operators() -> Any:
    """Return spox's constructors of the operators of opset 17."""
    import spox.opset.ai.onnx.v17 as op

    return op


@dataclass(frozen=True, eq=False)
class Node:
    """A float64 tensor of a graph; `+ - * / @` with another, or with an array, give one."""

    var: Var

    def __add__(self, other: Operand) -> Node:
        return Node(operators().add(self.var, variable(other)))

    def __sub__(self, other: Operand) -> Node:
        return Node(operators().sub(self.var, variable(other)))

    def __rsub__(self, other: float) -> Node:
        return Node(operators().sub(variable(other), self.var))

    def __mul__(self, other: Operand) -> Node:
        return Node(operators().mul(self.var, variable(other)))

    def __truediv__(self, other: Operand) -> Node:
        return Node(operators().div(self.var, variable(other)))

    def __matmul__(self, other: Operand) -> Node:
        return Node(operators().matmul(self.var, variable(other)))

    def __neg__(self) -> Node:
        return self * -1.0

    def transposed(self, *axes: int) -> Node:
        """Order the axes anew."""
        return Node(operators().transpose(self.var, perm=axes))

    @property
    def mT(self) -> Node:
        """Swap the last two of three axes."""
        return self.transposed(0, 2, 1)

    def reshape(self, *shape: int) -> Node:
        """Give other axes; -1 stands for the one that is left."""
        return Node(operators().reshape(self.var, operators().const(np.array(shape))))

    def sum(self, axis: int = -1) -> Node:
        """Sum over an axis, which stays, of length 1."""
        axes = operators().const(np.array([axis]))
        return Node(operators().reduce_sum(self.var, axes, keepdims=1))

    def max(self) -> Node:
        """Return the largest over the last axis, which stays, of length 1."""
        return Node(operators().reduce_max(self.var, axes=[-1], keepdims=1))


Operand = Node | np.ndarray | float


def variable(value: Operand) -> Var:
    """Return the variable of a node, or a float64 constant."""
    return value.var if isinstance(value, Node) else operators().const(np.float64(value))


def applied(name: str, *nodes: Operand) -> Node:
    """Apply an operator by its name in spox, such as "exp", element by element."""
    return Node(getattr(operators(), name)(*map(variable, nodes)))


def larger(a: Operand, b: Operand) -> Node:
    """Return the larger of two, element by element."""
    return Node(operators().max([variable(a), variable(b)]))


def smaller(a: Operand, b: Operand) -> Node:
    """Return the smaller of two, element by element."""
    return Node(operators().min([variable(a), variable(b)]))


def where_less(a: Operand, b: Operand, then: Operand, otherwise: Operand) -> Node:
    """Choose element by element: `then` where a < b, and `otherwise` elsewhere, NaN included."""
    op = operators()
    return Node(op.where(op.less(variable(a), variable(b)), variable(then), variable(otherwise)))


def side_by_side(nodes: Sequence[Node], axis: int = -1) -> Node:
    """Join columns of several nodes, or along another axis."""
    return Node(operators().concat([node.var for node in nodes], axis=axis))


def taken(rows: Operand, places: Operand, axis: int = 0) -> Node:
    """Select places along an axis; of numbers the whole part counts."""
    at = operators().cast(variable(places), to=np.int64)
    return Node(operators().gather(variable(rows), at, axis=axis))


def non_zero(row: Node) -> Node:
    """Return the places of a row that do not hold 0, in order, as numbers."""
    op = operators()
    places = op.non_zero(op.cast(row.var, to=np.bool_))
    return Node(op.cast(places, to=np.float64)).reshape(-1)


def repeated(
    n: int | Node, step: Callable[..., list[Node]], *start: Node, least_move: float = 0.0
) -> list[Node]:
    """Apply step(i, *nodes) for i = 0, ..., n - 1, in a loop of the runtime.

    least_move
        Of any element of the first node, without which the loop ends; 0: it never does.
    """
    op = operators()

    def body(i: Var, goes_on: Var, *before: Var) -> list[Var]:
        after = [one.var for one in step(Node(i), *map(Node, before))]
        if least_move:
            moved = op.less(variable(least_move), op.abs(op.sub(after[0], before[0])))
            goes_on = op.cast(op.reduce_max(op.cast(moved, to=np.int64), keepdims=0), to=np.bool_)
        return [goes_on, *after]

    limits = n.var if isinstance(n, Node) else op.const(np.array([n])), op.const(np.array([True]))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Output type for variable")  # its shape is not inferred
        return [*map(Node, op.loop(*limits, [one.var for one in start], body=body))]


class NumberNodes(NamedTuple):
    """A prediction of standardised targets, (n, o); of draws of the weights (n draws, o).

    noise_var
        Constants, (o,), or as the mean is.
    dof
        Of a Student-t distribution of the whole, (o,), infinite for a Gaussian.
    n_draws
        Rows that predict one, each with equal share.
    """

    mean: Node
    epistemic_var: Node
    noise_var: Float[np.ndarray, " o"] | Node
    dof: Float[np.ndarray, " o"] = np.full(1, np.inf)
    n_draws: int = 1


class ClassNodes(NamedTuple):
    """A prediction of classes: probabilities (n, c), expected entropy (n, 1), nats."""

    proba: Node
    expected_entropy: Node


class Bell(NamedTuple):
    """The standard normal distribution at a: density, P(z < a), P(z > a)."""

    density: Node
    lower: Node
    upper: Node


@cache
def _mills() -> Float[np.ndarray, "2 k"]:
    """Fit (u + c) Q(u) exp(u² / 2), u >= 0, by a ratio of polynomials in (u - c) / (u + c), c = 3.

    Least squares of numerator - value * denominator: to 1e-13, relative.
    """
    t = np.cos(np.pi * (np.arange(600) + 0.5) / 600.0)
    u = _CENTRE * (1.0 + t) / (1.0 - t)
    values = 0.5 * (u + _CENTRE) * special.erfcx(u / np.sqrt(2.0))
    basis = np.polynomial.chebyshev.chebvander(t, _DEGREE)
    columns = np.hstack([basis / values[:, None], -basis[:, 1:]])
    fitted = np.linalg.lstsq(columns, np.ones(len(t)))[0]
    both = fitted[: _DEGREE + 1], np.append(1.0, fitted[_DEGREE + 1 :])
    return np.stack([np.polynomial.chebyshev.cheb2poly(part) for part in both])


def mills(u: Node) -> Node:
    """Evaluate Q(u) exp(u² / 2) for u >= 0."""
    beyond = u + _CENTRE
    t = (u - _CENTRE) / beyond
    # Along an axis of their own both polynomials take the operators of one.
    rank = len(cast(tuple, u.var.unwrap_tensor().shape))
    last, *others = _mills().T[::-1].reshape(-1, 2, *[1] * rank)
    both = reduce(lambda value, each: value * t + each, others, Node(variable(last)))
    numerator, denominator = (taken(both, part) for part in (0, 1))
    return numerator / (denominator * beyond)


def _peak(a: Node) -> tuple[Node, Node]:
    """Return |a|, up to 37, and exp(-a² / 2)."""
    u = smaller(applied("abs", a), _FURTHEST)
    return u, applied("exp", u * u * -0.5)


def bell(a: Node) -> Bell:
    """Evaluate the normal distribution, beyond 37 standard deviations as at 37."""
    u, peak = _peak(a)
    rest = 1.0 - (tail := peak * mills(u))
    lower, upper = where_less(a, 0.0, tail, rest), where_less(a, 0.0, rest, tail)
    return Bell(peak * (1.0 / _SQRT_2PI), lower, upper)


def student(a: Node, dof: float) -> Bell:
    """Evaluate the Student-t distribution of scale 1; for infinite dof the normal one.

    Its quantiles are those of a normal distribution at sqrt(s) r(s), s = dof log(1 + a² / dof)
    (Wallace 1959), with a polynomial r: distribution functions to 1e-10 from 20 dof on, to 1e-6
    from 5 on.
    """
    if np.isinf(dof):
        return bell(a)
    s_most, *others, last = _student_ratio(dof)
    s = applied("log", a * a * (1.0 / dof) + 1.0) * dof
    within = smaller(s, s_most)
    ratio = reduce(lambda value, each: value * within + each, others[::-1], within * 0.0 + last)
    u = applied("sqrt", s) * ratio
    log_peak = special.gammaln(0.5 * dof + 0.5) - special.gammaln(0.5 * dof)
    density = applied("exp", s * (-0.5 - 0.5 / dof) + (log_peak - 0.5 * np.log(np.pi * dof)))
    return bell(where_less(a, 0.0, -u, u))._replace(density=density)


def _student_ratio(dof: float) -> list[float]:
    """Return the s of 8.5 standard deviations, and coefficients of the polynomial up to there."""
    t = np.cos(np.pi * (np.arange(200) + 0.5) / 200.0)
    s_most = dof * np.log1p(special.stdtrit(dof, special.ndtr(-8.5)) ** 2 / dof)
    s = 0.5 * s_most * (1.0 + t)
    tail = special.stdtr(dof, -np.sqrt(dof * np.expm1(s / dof)))
    fitted = np.polynomial.Polynomial.fit(s, -special.ndtri(tail) / np.sqrt(s), 6)
    return [s_most, *fitted.convert().coef]


def log_odds(a: Node) -> Node:
    """Log of P(z < a) / P(z > a), z ~ N(0, 1), to full relative accuracy."""
    u = applied("abs", a)
    log_tail = u * u * -0.5 + applied("log", mills(u))
    odds = applied("log", 1.0 - applied("exp", log_tail)) - log_tail
    return where_less(a, 0.0, -odds, odds)


def relu(m: Node, v: Node) -> tuple[Node, Node]:
    """Mean and variance of max(0, a), a ~ N(m, v): `activation_moments.relu`."""
    std = applied("sqrt", v)
    a = m / larger(std, _LEAST_STD)
    u, peak = _peak(a)
    tail = peak * mills(u)
    beyond = peak * (1.0 / _SQRT_2PI) - u * tail  # E[max(0, z - u)]
    share = where_less(a, 0.0, tail, 1.0 - tail) - beyond * (u + beyond)
    return larger(m, 0.0) + std * beyond, v * larger(share, 0.0)


def sign(m: Node, v: Node) -> tuple[Node, Node]:
    """Mean and variance of the sign of a, a ~ N(m, v): `activation_moments.sign`."""
    at = bell(m / applied("sqrt", v))
    return at.lower - at.upper, at.lower * at.upper * 4.0


_MOMENTS = {"relu": relu, "sign": sign}


def affine(z: Node, w: Float[np.ndarray, "i o"], bias: Operand) -> Node:
    """Return z w + bias, one operator; (n, o)."""
    return Node(operators().gemm(z.var, variable(w), variable(bias)))


def propagated(
    m: Sequence[np.ndarray], v: Sequence[np.ndarray], x: Node, activation: str
) -> tuple[Node, Node]:
    """Mean and variance of a network's outputs, weights N(m, v): `networks.mlp.plain_propagate`.

    ValueError for an activation without a graph.
    """
    if activation not in _MOMENTS:
        raise ValueError(f"activation must be 'relu' for ONNX, got {activation!r}: fit it so")
    m_z, v_z = affine(x, m[0][:-1], m[0][-1]), affine(x * x, v[0][:-1], v[0][-1])
    for m_w, v_w in zip(m[1:], v[1:], strict=True):
        m_a, v_a = _MOMENTS[activation](m_z, v_z)
        m_z = affine(m_a, m_w[:-1], m_w[-1])
        v_z = affine(m_a * m_a + v_a, v_w[:-1], v_w[-1])
        v_z = affine(v_a, (m_w * m_w)[:-1], v_z)
    return m_z, v_z


def scaled_propagated(m: Sequence, v: Sequence, x: Node, activation: str) -> tuple[Node, Node]:
    """Return `propagated` of layers that divide by sqrt(n_in + 1): `networks.mlp.mlp_propagate`."""
    m = [np.asarray(layer) / np.sqrt(len(layer)) for layer in m]
    return propagated(m, [np.asarray(layer) / len(layer) for layer in v], x, activation)


def entropy(p: Node) -> Node:
    """Entropy of every row of probabilities, nats, (n, 1)."""
    return information(p).sum()


def information(p: Node) -> Node:
    """Return -p log(p), nats, element by element."""
    return -(p * applied("log", larger(p, 1e-300)))


def symmetric_root(a: Node, k: int) -> Node:
    """Symmetric square root of positive matrices, (n, k, k), by coupled Newton-Schulz steps.

    Higham (2008), "Functions of Matrices", eq. 6.35.
    """
    one = np.eye(k)
    size = larger(a.reshape(-1, 1, k * k) @ one.reshape(-1, 1), _LEAST_STD)
    root, inverse = a / size, Node(variable(one))
    for _ in range(_ROOT_STEPS):
        step = -(inverse @ root) * 0.5 + 1.5 * one
        root, inverse = root @ step, step @ inverse
    return root * applied("sqrt", size)
