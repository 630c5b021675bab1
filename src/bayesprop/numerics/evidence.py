"""Prior precisions that maximise an evidence, whatever the likelihood is.

A weight's prior is N(0, 1 / a); weights of a group share a. With m and v the posterior mean and
variance of every weight, the derivative of the evidence, or of a lower bound of it, by log a is

    (gamma - a sum m²) / 2,   gamma = sum (1 - a v)

MacKay (1992), "Bayesian interpolation"; Bishop (2006), eqs. 3.91, 3.92, 7.87, 9.63. MacKay's steps
may overshoot: one that lowers the evidence is replaced by a step of expectation maximisation, which
cannot (Neal & Hinton 1998).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

FIXED = -1


@dataclass(frozen=True, eq=False)
class Weights:
    """What is believed of weights, in as many parts as could have a precision of their own.

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
    size: Float[np.ndarray, " k"] | float = 1.0

    @cached_property
    def well_determined(self) -> Float[np.ndarray, " k"]:
        """MacKay's gamma: a weight counts 1 where the data decide, 0 where the prior does."""
        return np.minimum(np.maximum(self.size - self.prec * self.var, 0.0), self.size)

    def with_noise(self, prec: float, n_values: float, error: float) -> Weights:
        """Append the precision b of the noise as one more part, of N values with Q = error.

        Its derivative (N - gamma - b Q) / 2, with gamma of all weights together, and its steps
        (N - gamma) / Q (MacKay) and N / (Q + gamma / b) are those of a part of N weights whose
        squared means add up to Q and whose variances to gamma / b.

        error
            Sum of the squared residuals of the mean, in the units of 1 / prec.
        """
        k = len(self.prec)
        parts = np.empty((4, k + 1))
        for part, values in zip(parts, (self.prec, self.square, self.var, self.size), strict=True):
            part[:k] = values
        parts[:, k] = prec, error, float(self.well_determined.sum()) / prec, n_values
        return Weights(*parts)


@dataclass(frozen=True, eq=False)
class Groups:
    """Which parts share a precision (those of group `FIXED` keep theirs), and its bounds."""

    number: Int[np.ndarray, " k"]
    least: Float[np.ndarray, " k"]
    most: Float[np.ndarray, " k"]

    @cached_property
    def is_free(self) -> Bool[np.ndarray, " k"]:
        """Which parts have a precision that may move."""
        return self.number != FIXED

    @cached_property
    def place(self) -> Int[np.ndarray, " f"]:
        """Group of every free part."""
        return self.number[self.is_free]

    @cached_property
    def bounds(self) -> tuple[Float[np.ndarray, " g"], Float[np.ndarray, " g"]]:
        """Return the least and the most that the precision of every group may be."""
        n_groups = int(self.place.max(initial=-1)) + 1
        least, most = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
        np.minimum.at(least, self.place, self.least[self.is_free])
        np.maximum.at(most, self.place, self.most[self.is_free])
        return least, most

    def total(self, by_part: np.ndarray) -> Float[np.ndarray, " g"]:
        """Sum over the parts of every group."""
        return np.bincount(self.place, by_part[self.is_free])

    def all(self, by_part: Bool[np.ndarray, " k"]) -> Bool[np.ndarray, " g"]:
        """Whether something holds for all parts of a group."""
        return self.total(~by_part) == 0.0


def gradient(weights: Weights, groups: Groups) -> float:
    """Largest derivative by a log precision, nats, without those that push against a bound."""
    by_part = weights.well_determined - weights.prec * weights.square
    slope = 0.5 * groups.total(by_part)
    at_most, at_least = weights.prec >= groups.most, weights.prec <= groups.least
    if at_most.any():
        slope[(slope > 0.0) & groups.all(at_most)] = 0.0
    if at_least.any():
        slope[(slope < 0.0) & groups.all(at_least)] = 0.0
    return float(np.abs(slope).max(initial=0.0))


def mackay(weights: Weights, groups: Groups) -> Float[np.ndarray, " k"]:
    """Prior precisions gamma / sum m²: fast, but a step may overshoot."""
    return _per_group(weights, groups, weights.well_determined, weights.square)


def em(weights: Weights, groups: Groups) -> Float[np.ndarray, " k"]:
    """Prior precisions 1 / mean E[w²] of expectation maximisation: slower, and never downhill."""
    sizes = np.broadcast_to(weights.size, weights.square.shape)
    return _per_group(weights, groups, sizes, weights.square + weights.var)


def _per_group(
    weights: Weights, groups: Groups, above: np.ndarray, below: np.ndarray
) -> Float[np.ndarray, " k"]:
    """Divide above by below, both summed over the parts that share a precision; 0 / 0 stays."""
    numerator, denominator = groups.total(above), groups.total(below)
    least, most = groups.bounds
    ratio = np.divide(numerator, denominator, out=most.copy(), where=denominator > 0.0)
    shared = np.minimum(np.maximum(ratio, least), most)
    moves = groups.is_free.copy()
    moves[moves] = ((numerator > 0.0) | (denominator > 0.0))[groups.place]
    prec = weights.prec.copy()
    prec[moves] = shared[groups.number[moves]]
    return prec


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
    at: Callable[[Float[np.ndarray, " k"], Any], Any],
    prec: Float[np.ndarray, " k"],
    groups: Groups,
    *,
    max_steps: int,
    tolerance: float,
    slack: float = 1e-10,
) -> Ascent:
    """Go uphill from given precisions until the gradient is below the tolerance.

    at
        From precisions, and the point before (None at first), to a point: its `log_evidence`,
        nats but for a constant, and the `weights` that `Groups` number.
    slack
        What a step may lose, relative to the log evidence; infinite where it need not rise.
    """
    point = at(prec, None)
    slope = gradient(point.weights, groups)
    trace, n_repaired = [point.log_evidence], 0
    for _ in range(max_steps):
        if slope < tolerance:
            break
        ahead = at(mackay(point.weights, groups), point)
        if not ahead.log_evidence >= trace[-1] - slack * (1.0 + abs(trace[-1])):
            ahead = at(em(point.weights, groups), point)
            n_repaired += 1
        point = ahead
        slope = gradient(point.weights, groups)
        trace.append(point.log_evidence)
    return Ascent(point, trace, slope, slope < tolerance, n_repaired)
