"""Expectation backpropagation (Soudry, Hubara & Meir 2014): networks of sign units.

Online Bayes with a posterior that is a product over weights. A label multiplies the marginal of a
weight W by P(y | x, W), averaged over all other weights. W enters its unit through W z / sqrt(K),
one of K terms, so that to first order in 1 / sqrt(K)

    log P(y | x, W) = constant + W g,        g = d log P(y | x) / d E[W]

A binary weight, P(W) = exp(h W) / 2 cosh(h), keeps its form: h becomes h + g. So does a Gaussian
weight N(h, v): h becomes h + v g, and v stays. There is no learning rate.

P(y | x) comes from one pass of means and variances. By the central limit theorem the input of a
unit is Gaussian, of mean m and variance v; the mean of its sign is 2 Phi(m / sqrt(v)) - 1, and the
sign of an output is y with probability Phi(y m / sqrt(v)). The gradient g leaves the dependence of
the variances on E[W] out, which is of the next order: what remains is the paper's backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree
from scipy import special

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.moments.row_passes import Orders, RowPasses
from bayesprop.networks.mlp import dense_apply, dense_propagate
from bayesprop.numerics import activation_moments, graphs
from bayesprop.numerics.filling import filled, padded
from bayesprop.numerics.gaussian import Gaussian, log_cdf
from bayesprop.numerics.graphs import ClassNodes, Node
from bayesprop.numerics.machine import in_float64
from bayesprop.numerics.rows import Rows

FURTHEST = 5.0
"""Largest |h| of a binary weight, which leaves one chance in 22 000 that it has the other sign.
Passes count rows again and again; a layer whose weights were all certain would have no variance,
and one more row that contradicts it a probability of 0."""

LONGEST_STEP = 1.0
"""Largest change of h by one row: the expansion in W g holds for g well below it."""

MOST_COPIES = 1000.0
"""A row of a weight above 1 is absorbed in parts of weight 1 or less; one above this counts so."""


class Moved(NamedTuple):
    """A layer after a row, and how many of its steps had to be shortened."""

    h: Float[Array, "i o"]
    shortened: Int[Array, ""]


class WeightKind(NamedTuple):
    """A family of weight distributions with one parameter h a weight.

    moments
        Mean and variance of every weight.
    absorb
        Multiply every marginal by exp(W gradient).
    mode
        The most probable value of every weight.
    furthest
        Largest |h|.
    """

    moments: Callable[[Array], Gaussian]
    absorb: Callable[[Array, Array], Moved]
    mode: Callable[[Array], Array]
    furthest: float


def _binary_moments(h: Float[Array, "i o"]) -> Gaussian:
    """Return tanh h and 1 - tanh² h: weights are 1 or -1, h half of the log odds."""
    mean = jnp.tanh(h)
    return Gaussian(mean, (1.0 - mean) * (1.0 + mean))


def _absorb_binary(h: Float[Array, "i o"], gradient: Float[Array, "i o"]) -> Moved:
    step = jnp.clip(gradient, -LONGEST_STEP, LONGEST_STEP)
    shortened = jnp.sum(jnp.abs(gradient) > LONGEST_STEP)
    return Moved(jnp.clip(h + step, -FURTHEST, FURTHEST), shortened)


def _real_moments(h: Float[Array, "i o"]) -> Gaussian:
    """Return h and 1: the first order leaves the variances alone."""
    return Gaussian(h, jnp.ones_like(h))


def _absorb_real(h: Float[Array, "i o"], gradient: Float[Array, "i o"]) -> Moved:
    return Moved(h + gradient, jnp.asarray(0))


KINDS: dict[str, WeightKind] = {
    "binary": WeightKind(
        _binary_moments, _absorb_binary, lambda h: jnp.where(h < 0.0, -1.0, 1.0), FURTHEST
    ),
    "real": WeightKind(_real_moments, _absorb_real, lambda h: h, np.inf),
}


class EBPState(NamedTuple):
    """The parameter h of every weight, (n_in + 1, n_out) a layer; the bias is the last row."""

    h: tuple[PyTree, ...]


class EBPInfo(NamedTuple):
    """What one pass met on its way.

    log_z
        Sum over the pass of weight times log P(y | x), nats, each row predicted before it was
        absorbed.
    rows_refused
        Rows whose update was not finite, and that left all weights as they were.
    steps_shortened
        Steps of binary weights beyond `LONGEST_STEP`.
    weights_at_bound
        Binary weights that are at `FURTHEST` after the pass, where they can say no more.
    """

    log_z: PyTree
    rows_refused: PyTree
    steps_shortened: PyTree
    weights_at_bound: PyTree


def init(rng: np.random.Generator | np.random.RandomState, sizes: Sequence[int]) -> EBPState:
    """Draw every h from N(0, 1), which breaks the symmetry of the units; without hidden layers, 0.

    sizes
        Inputs, units of every hidden layer, outputs.
    """
    spread = 1.0 if len(sizes) > 2 else 0.0
    return EBPState(tuple(spread * rng.standard_normal((a + 1, b)) for a, b in pairwise(sizes)))


def output_moments(weights: Sequence[Gaussian], x: Float[Array, " d"]) -> Gaussian:
    """Mean and variance of the inputs of the output units; the variances are held constant."""
    z = Gaussian(x, jnp.zeros_like(x))
    for w in weights[:-1]:
        z = activation_moments.sign(*_unit_input(w, z))
    return _unit_input(weights[-1], z)


def _unit_input(w: Gaussian, z: Gaussian) -> Gaussian:
    m, v = dense_propagate(w, Gaussian(z.m, jax.lax.stop_gradient(z.v)))
    return Gaussian(m, jax.lax.stop_gradient(v))


def log_probability(
    means: tuple[Float[Array, "i o"], ...], variances: tuple[Float[Array, "i o"], ...], row: Rows
) -> Float[Array, ""]:
    """Log P(y | x), nats: sum over the outputs of log Phi(y m / sqrt(v))."""
    weights = [Gaussian(*pair) for pair in zip(means, variances, strict=True)]
    m, v = output_moments(weights, row.x)
    return jnp.sum(log_cdf(row.y * m / jnp.sqrt(v)))


class Absorbed(NamedTuple):
    """All layers after one row, and the information on its update."""

    h: tuple[Float[Array, "i o"], ...]
    log_z: Float[Array, ""]
    refused: Array
    shortened: Int[Array, ""]


def absorb(h: tuple, row: Rows, kind: WeightKind) -> Absorbed:
    """Absorb one row; a row of weight 0 changes nothing.

    One of a weight above 1 is absorbed as its copies would be, each part with the gradient that the
    ones before have left: a straight line as long as the whole weight ends far beyond the label.
    """
    weight = jnp.minimum(row.weight, MOST_COPIES)
    n_parts = jnp.maximum(jnp.ceil(weight), 1.0)
    part = row._replace(weight=weight / n_parts)
    first = _absorb_part(h, part, kind)

    def step(_: PyTree, so_far: Absorbed) -> Absorbed:
        new = _absorb_part(so_far.h, part, kind)
        refused, shortened = so_far.refused | new.refused, so_far.shortened + new.shortened
        return so_far._replace(h=new.h, refused=refused, shortened=shortened)

    first = first._replace(log_z=n_parts * first.log_z)
    return jax.lax.fori_loop(1, n_parts.astype(int), step, first)


def _absorb_part(h: tuple, row: Rows, kind: WeightKind) -> Absorbed:
    moments = [kind.moments(layer) for layer in h]
    means, variances = tuple(w.m for w in moments), tuple(w.v for w in moments)
    log_z, gradient = jax.value_and_grad(log_probability)(means, variances, row)
    new = [kind.absorb(layer, row.weight * g) for layer, g in zip(h, gradient, strict=True)]
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(layer.h)) for layer in new]))
    counts = row.weight > 0.0
    moves = finite & counts
    shortened = sum((layer.shortened for layer in new), start=jnp.asarray(0))
    return Absorbed(
        tuple(jnp.where(moves, n.h, o) for n, o in zip(new, h, strict=True)),
        jnp.where(moves, row.weight * log_z, 0.0),
        ~finite & counts,
        jnp.where(moves, shortened, 0),
    )


@partial(jax.jit, static_argnames="kind")
def _pass(h: tuple, rows: Rows, kind: WeightKind) -> tuple[tuple, EBPInfo]:
    def step(h: tuple, row: Rows) -> tuple[tuple, EBPInfo]:
        new = absorb(h, row, kind)
        return new.h, EBPInfo(new.log_z, new.refused, new.shortened, 0)

    h, infos = jax.lax.scan(step, h, rows)
    at_bound = (jnp.sum(jnp.abs(layer) >= kind.furthest) for layer in h)
    bound = sum(at_bound, start=jnp.asarray(0))
    return h, jax.tree.map(jnp.sum, infos)._replace(weights_at_bound=bound)


@in_float64
def data_pass(
    state: EBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    order: Int[np.ndarray, " k"],
    sample_weight: Float[np.ndarray, " n"] | None = None,
    *,
    weights: str = "binary",
) -> tuple[EBPState, EBPInfo]:
    """Absorb the rows named by `order`, one after the other.

    x
        Standardised inputs.
    y
        Signs, 1 or -1, one an output.
    sample_weight
        How often every row counts: the power of its likelihood.
    weights
        "binary" or "real".
    """
    weight = np.ones(len(x)) if sample_weight is None else sample_weight
    x, y, weight = (np.asarray(part, np.float64)[order] for part in (x, y, weight))
    rows = filled(Rows(x, y, weight), _few_lengths(len(order)))
    h, info = _pass(tuple(map(jnp.asarray, state.h)), rows, KINDS[weights])
    on_host = EBPInfo(float(info.log_z), *(int(count) for count in info[1:]))
    return EBPState(tuple(map(np.asarray, h))), on_host


def _few_lengths(n: int) -> int:
    """Round up to three binary digits: folds of nearly the same length compile once."""
    unit = 1 << max(n.bit_length() - 3, 0)
    return -(-n // unit) * unit


@partial(jax.jit, static_argnames=("kind", "is_map"))
def _scores(h: tuple, x: Float[Array, "n d"], kind: WeightKind, *, is_map: bool) -> Array:
    def log_odds(x: Float[Array, " d"]) -> Float[Array, " o"]:
        m, v = output_moments([kind.moments(layer) for layer in h], x)
        z = m / jnp.sqrt(v)
        return log_cdf(z) - log_cdf(-z)

    def of_mode(z: Float[Array, " d"]) -> Float[Array, " o"]:
        *hidden, last = map(kind.mode, h)
        for w in hidden:
            z = jnp.where(dense_apply(w, z) < 0.0, -1.0, 1.0)
        return dense_apply(last, z)

    return jax.vmap(of_mode if is_map else log_odds)(x)


@in_float64
def scores(
    state: EBPState, x: Float[np.ndarray, "n d"], *, weights: str = "binary", is_map: bool = False
) -> Float[np.ndarray, "n o"]:
    """Return log P(1) - log P(-1) of every output, averaged over the posterior, nats.

    is_map
        Return the inputs of the output units in the one network of the most probable weights.
    """
    h = tuple(map(jnp.asarray, state.h))
    return np.asarray(_scores(h, jnp.asarray(x), KINDS[weights], is_map=is_map))


@dataclass(frozen=True)
class EBPNetwork(RowPasses):
    """A network of sign units; two classes have one output, more have one each.

    weights
        A name in `KINDS`.
    is_map
        Whether the one most probable network predicts, not the average over the posterior.
    """

    sizes: tuple[int, ...]
    n_epochs: int
    weights: str
    is_map: bool

    rows_at_once = 8192

    def start(self, rng: np.random.Generator | np.random.RandomState) -> EBPState:
        """Return the posterior of no rows."""
        return init(rng, self.sizes)

    def passes(
        self, rows: Rows, start: EBPState, orders: Orders
    ) -> Iterator[tuple[EBPState, EBPInfo]]:
        """Yield the state after each pass and its info."""
        first = 1 if self.sizes[-1] == 1 else 0  # of two classes the second has the output
        signs = 2.0 * (rows.y[:, None] == first + np.arange(self.sizes[-1])) - 1.0
        state = start
        for order in orders:
            state, info = data_pass(state, rows.x, signs, order, rows.weight, weights=self.weights)
            yield state, info

    def guards(self, infos: list[EBPInfo]) -> dict[str, int]:
        """Sum what was refused and shortened; weights at the bound are those of the last pass."""
        return {
            "rows_refused": sum(info.rows_refused for info in infos),
            "steps_shortened": sum(info.steps_shortened for info in infos),
            "weights_at_bound": infos[-1].weights_at_bound,
        }

    def advice(self, guards: dict[str, int], n_updates: int) -> list[str]:
        """Say so where updates were refused, or where most weights can learn no more."""
        del n_updates
        refused, at_bound = guards["rows_refused"], guards["weights_at_bound"]
        advice = []
        if refused:
            advice.append(
                f"{refused} updates were not finite, and left the weights as they were: look for "
                "extreme values in the table"
            )
        if at_bound > 0.5 * self.n_weights:
            advice.append(
                f"{at_bound / self.n_weights:.0%} of the weights are as good as certain and can "
                "learn no more: take fewer epochs, or more units"
            )
        return advice

    def predict(self, state: EBPState, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
        """Average over the signs of the outputs; every network of the posterior is certain."""
        of_outputs = scores(state, padded(x), weights=self.weights, is_map=self.is_map)[: len(x)]
        if of_outputs.shape[1] == 1:
            of_outputs = np.hstack([np.zeros_like(of_outputs), of_outputs])
        if self.is_map:
            proba = np.eye(of_outputs.shape[1])[of_outputs.argmax(axis=1)]
        else:
            proba = special.softmax(of_outputs, axis=1)
        return ClassPredictive.of_codes(proba, np.zeros(len(x)))

    def graph(self, state: EBPState, x: Node) -> ClassNodes:
        """Write `predict` as a graph of ONNX; ValueError for prediction="map"."""
        if self.is_map:
            raise ValueError("ONNX takes prediction='posterior' of ebp, got 'map': set it so")
        with jax.enable_x64(True):
            q = [KINDS[self.weights].moments(jnp.asarray(layer)) for layer in state.h]
        m, v = graphs.scaled_propagated([w.m for w in q], [w.v for w in q], x, "sign")
        odds = graphs.log_odds(m / graphs.applied("sqrt", v))
        odds = graphs.side_by_side([odds * 0.0, odds]) if self.sizes[-1] == 1 else odds
        return ClassNodes(graphs.applied("softmax", odds), odds.sum() * 0.0)

    @property
    def state_kind(self) -> EBPState:
        """A state of the shapes of this network."""
        return EBPState(tuple(np.zeros((n_in + 1, n_out)) for n_in, n_out in pairwise(self.sizes)))
