"""Prior precisions that maximise an evidence, whatever the likelihood is.

A weight's prior is N(0, 1 / a); weights of a group share a. With m and v the posterior mean and
variance of every weight, the derivative of the evidence, or of a lower bound of it, by log a is

    (gamma - a sum m²) / 2,   gamma = sum (1 - a v)

MacKay (1992), "Bayesian interpolation"; Bishop (2006), eqs. 3.91, 3.92, 7.87, 9.63. MacKay's steps
may overshoot: one that lowers the evidence is replaced by a step of expectation maximisation, which
cannot (Neal & Hinton 1998).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

FIXED = -1
_FEW_PARTS, _SLOWEST, _FURTHEST = 2, 0.98, 5.0
"""Precisions whose steps shrink at one rate, which is taken to be so much at most; and how far such
steps are followed, in logs."""


@dataclass(frozen=True, eq=False)
class Weights:
    """What is believed of weights, in parts that have a precision each.

    prec
        Prior precision.
    square, var
        Sums over a part of the squared posterior means and of the posterior variances.
    size
        Weights of a part.
    """

    prec: Float[np.ndarray, " k"]
    square: Float[np.ndarray, " k"]
    var: Float[np.ndarray, " k"]
    size: Float[np.ndarray, " k"]

    @property
    def well_determined(self) -> Float[np.ndarray, " k"]:
        """MacKay's gamma: a weight counts 1 where the data decide, 0 where the prior does."""
        return np.minimum(np.maximum(self.size - self.prec * self.var, 0.0), self.size)

    def with_noise(self, prec: float, n_values: float, error: float, gamma: float) -> Weights:
        """Append the precision b of the noise as one more part, of N values with Q = error.

        Its derivative (N - gamma - b Q) / 2 and its steps (N - gamma) / Q (MacKay) and
        N / (Q + gamma / b) are those of a part of N weights whose squared means add up to Q and
        whose variances to gamma / b.

        error
            Sum of the squared residuals of the mean, in the units of 1 / prec.
        gamma
            Well-determined weights, those of known precision among them.
        """
        parts = np.empty((4, len(self.prec) + 1))
        parts[0, :-1], parts[1, :-1], parts[2, :-1] = self.prec, self.square, self.var
        parts[3, :-1] = self.size
        parts[:, -1] = prec, error, gamma / prec, n_values
        return Weights(*parts)


@dataclass(frozen=True, eq=False)
class Groups:
    """Which weights (or parts) share a precision; those of group `FIXED` keep theirs."""

    number: Int[np.ndarray, " k"]

    @cached_property
    def free(self) -> Int[np.ndarray, " f"]:
        """Which weights have a precision that may move."""
        return np.flatnonzero(self.number != FIXED)

    @cached_property
    def place(self) -> Int[np.ndarray, " f"]:
        """Group of every free weight."""
        return self.number[self.free]

    @cached_property
    def sizes(self) -> Float[np.ndarray, " g"]:
        """Weights (or parts) of every group."""
        return np.bincount(self.place).astype(np.float64)

    def total(self, by_weight: np.ndarray) -> Float[np.ndarray, " g"]:
        """Sum over the weights of every group."""
        return np.bincount(self.place, by_weight.take(self.free))

    def mean(self, by_weight: np.ndarray) -> Float[np.ndarray, " g"]:
        """Average over the weights of every group."""
        return self.total(by_weight) / self.sizes

    def spread(self, by_group: np.ndarray, fixed: np.ndarray) -> Float[np.ndarray, " k"]:
        """Give every weight the value of its group, and the fixed ones their own."""
        values = fixed.copy()
        values[self.free] = by_group[self.place]
        return values

    def weights(
        self,
        prec: Float[np.ndarray, " g"],
        square: Float[np.ndarray, " k"],
        var: Float[np.ndarray, " k"],
        size: Float[np.ndarray, " k"] | None = None,
    ) -> Weights:
        """Add up over every group, whose precisions are given; None: parts of one weight."""
        sizes = self.sizes if size is None else self.total(size)
        return Weights(prec, self.total(square), self.total(var), sizes)


class Bounds(NamedTuple):
    """The least and the most that precisions may be."""

    least: Float[np.ndarray, " k"]
    most: Float[np.ndarray, " k"]


class Step(NamedTuple):
    """Where to go, and the largest derivative by a log precision, nats, before it.

    What pushes against a bound is no derivative.
    """

    prec: Float[np.ndarray, " k"]
    gradient: float


def mackay(weights: Weights, bounds: Bounds) -> Step:
    """Step to prior precisions gamma / sum m²: fast, but it may overshoot."""
    gamma = weights.well_determined
    prec = _ratio(weights, bounds, gamma, weights.square)
    slope = 0.5 * (gamma - weights.prec * weights.square) * (prec != weights.prec)
    return Step(prec, max(map(abs, slope.tolist()), default=0.0))


def em(weights: Weights, bounds: Bounds) -> Float[np.ndarray, " k"]:
    """Prior precisions 1 / mean E[w²] of expectation maximisation: slower, and never downhill."""
    return _ratio(weights, bounds, weights.size, weights.square + weights.var)


def _ratio(
    weights: Weights, bounds: Bounds, above: np.ndarray, below: np.ndarray
) -> Float[np.ndarray, " k"]:
    """Divide above by below, within bounds; 0 / 0 leaves a precision as it is."""
    least, most = bounds
    stays = np.where(above > 0.0, most, weights.prec)
    ratio = np.divide(above, below, out=stays, where=below > 0.0)
    return np.minimum(np.maximum(ratio, least), most)


class Ascent(NamedTuple):
    """Where a search ended.

    trace
        Log evidence after every step, nats.
    gradient
        Largest derivative at the end, nats.
    converged
        Whether that is below the tolerance.
    n_repaired
        Steps that lowered the evidence, and were replaced.
    """

    point: Any
    trace: list[float]
    gradient: float
    converged: bool
    n_repaired: int


def ascend(
    at: Callable,
    prec: Float[np.ndarray, " k"],
    bounds: Bounds,
    *,
    max_steps: int,
    tolerance: float,
    slack: float = 1e-10,
    on_step: Callable[[float], bool] = lambda _: False,
) -> Ascent:
    """Go uphill from given precisions until the gradient is below the tolerance.

    Of one or two precisions every third step goes on to where the two before it lead.

    at
        From precisions, and the point before (None at first), to a point: its `log_evidence`,
        nats but for a constant, and its `weights`, a part for each precision.
    slack
        What a step may lose, relative to the log evidence; infinite where it need not rise.
    on_step
        Called before every step with the share that is done, as if the gradient fell at one rate;
        whether to end there.
    """
    point = at(prec, None)
    step, moved = mackay(point.weights, bounds), None
    trace, n_repaired, ahead = [point.log_evidence], 0, point
    first = max(step.gradient, 2.0 * tolerance)
    for _ in range(max_steps):
        if step.gradient < tolerance:
            break
        share = np.log(first / step.gradient) / np.log(first / tolerance)
        if on_step(max(float(share), 0.0)):
            break
        further, last = None, moved
        if len(step.prec) <= _FEW_PARTS and slack < np.inf:
            moved = np.log(step.prec / point.weights.prec)
            further = None if last is None else _further(step.prec, moved, last, bounds)
        least = trace[-1] - slack * (1.0 + abs(trace[-1]))
        for prec in _steps(further, step.prec, point.weights, bounds):
            ahead = at(prec, point)
            if ahead.log_evidence >= least:
                break
            n_repaired += 1
        n_repaired -= not ahead.log_evidence >= least  # the last is taken whatever it is
        moved = moved if further is None else None  # a rate is that of two plain steps
        point = ahead
        step = mackay(point.weights, bounds)
        trace.append(point.log_evidence)
    return Ascent(point, trace, step.gradient, step.gradient < tolerance, n_repaired)


def _steps(
    further: np.ndarray | None, prec: np.ndarray, weights: Weights, bounds: Bounds
) -> Iterator[Float[np.ndarray, " k"]]:
    """Return where to go, and where instead if the evidence is lower there."""
    if further is not None:
        yield further
    yield prec
    yield em(weights, bounds)


def _further(
    prec: np.ndarray, move: np.ndarray, last: np.ndarray, bounds: Bounds
) -> Float[np.ndarray, " k"]:
    """Go on to where steps that shrink at one rate would end (Aitken 1926), in log precisions.

    move, last
        The step to `prec` and the one before.
    """
    rate = np.clip(move @ last / max(last @ last, np.finfo(float).tiny), 0.0, _SLOWEST)
    further = np.clip(move * rate / (1.0 - rate), -_FURTHEST, _FURTHEST)
    return np.clip(prec * np.exp(further), *bounds)
