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
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

FIXED = -1


class Weights(NamedTuple):
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

    @property
    def well_determined(self) -> Float[np.ndarray, " k"]:
        """MacKay's gamma: a weight counts 1 where the data decide, 0 where the prior does."""
        return np.clip(self.size - self.prec * self.var, 0.0, self.size)

    def with_noise(self, prec: float, n_values: float, error: float) -> Weights:
        """Append the precision b of the noise as one more part, of N values with Q = error.

        Its derivative (N - gamma - b Q) / 2, with gamma of all weights together, and its steps
        (N - gamma) / Q (MacKay) and N / (Q + gamma / b) are those of a part of N weights whose
        squared means add up to Q and whose variances to gamma / b.

        error
            Sum of the squared residuals of the mean, in the units of 1 / prec.
        """
        spent = float(np.sum(self.well_determined)) / prec
        sizes = np.broadcast_to(self.size, self.prec.shape)
        return Weights(
            np.append(self.prec, prec),
            np.append(self.square, error),
            np.append(self.var, spent),
            np.append(sizes, n_values),
        )


class Groups(NamedTuple):
    """Which parts share a precision (those of group `FIXED` keep theirs), and its bounds."""

    number: Int[np.ndarray, " k"]
    least: Float[np.ndarray, " k"]
    most: Float[np.ndarray, " k"]

    @property
    def free(self) -> Int[np.ndarray, " g"]:
        """Numbers of the groups whose precision may move."""
        return np.unique(self.number[self.number != FIXED])


def gradient(weights: Weights, groups: Groups) -> float:
    """Largest derivative by a log precision, nats, without those that push against a bound."""
    by_part = 0.5 * (weights.well_determined - weights.prec * weights.square)
    largest = 0.0
    for group in groups.free:
        members = groups.number == group
        slope, prec = float(np.sum(by_part[members])), weights.prec[members]
        is_most = slope > 0.0 and bool(np.all(prec >= groups.most[members]))
        is_least = slope < 0.0 and bool(np.all(prec <= groups.least[members]))
        largest = largest if is_most or is_least else max(largest, abs(slope))
    return largest


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
    prec = weights.prec.copy()
    for group in groups.free:
        members = groups.number == group
        numerator, denominator = float(np.sum(above[members])), float(np.sum(below[members]))
        least, most = np.min(groups.least[members]), np.max(groups.most[members])
        if numerator > 0.0 or denominator > 0.0:
            ratio = numerator / denominator if denominator > 0.0 else most
            prec[members] = np.clip(ratio, least, most)
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
    trace, n_repaired = [point.log_evidence], 0
    for _ in range(max_steps):
        if gradient(point.weights, groups) < tolerance:
            break
        ahead = at(mackay(point.weights, groups), point)
        if not ahead.log_evidence >= trace[-1] - slack * (1.0 + abs(trace[-1])):
            ahead = at(em(point.weights, groups), point)
            n_repaired += 1
        point = ahead
        trace.append(point.log_evidence)
    slope = gradient(point.weights, groups)
    return Ascent(point, trace, slope, slope < tolerance, n_repaired)
