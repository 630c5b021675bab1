"""Steps towards the prior precisions that maximise an evidence, whatever the likelihood is.

A weight's prior is N(0, 1 / a); weights of a group share a. With m and v the posterior mean and
variance of every weight, the derivative of the evidence, or of a lower bound of it, by log a is

    (gamma - a sum m²) / 2,   gamma = sum (1 - a v)

MacKay (1992), "Bayesian interpolation"; Bishop (2006), eqs. 3.91, 3.92, 7.87, 9.63.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

FIXED = -1
EVIDENCE, ARD = "evidence", "ard"


@dataclass(frozen=True)
class PriorChoice:
    """Which precisions the weights of columns have, the intercept's first.

    prec
        A number; or those that maximise the evidence, `EVIDENCE` (one) or `ARD` (one a column).
    intercept
        Of the intercept, which evidence does not move.
    """

    prec: float | str
    intercept: float

    @property
    def is_known(self) -> bool:
        """Whether there is nothing to find."""
        return not isinstance(self.prec, str)

    def start(self, k: int) -> Float[np.ndarray, " k"]:
        """Precisions of k weights, ones where they are to be found."""
        prec = np.full(k, float(self.prec) if self.is_known else 1.0)
        prec[0] = self.intercept
        return prec

    def groups(self, k: int) -> Int[np.ndarray, " k"]:
        """Say which of k weights share a precision that is to be found; `FIXED` is not."""
        columns = np.arange(-1, k - 1)
        if self.prec == ARD:
            return columns
        return np.where(columns < 0, FIXED, FIXED if self.is_known else 0)


class Weights(NamedTuple):
    """What is believed of every weight: prior precision, squared posterior mean, variance."""

    prec: Float[np.ndarray, " k"]
    square: Float[np.ndarray, " k"]
    var: Float[np.ndarray, " k"]

    @property
    def well_determined(self) -> Float[np.ndarray, " k"]:
        """MacKay's gamma of every weight: 1 where the data decide, 0 where the prior does."""
        return np.clip(1.0 - self.prec * self.var, 0.0, 1.0)


class Groups(NamedTuple):
    """Which weights share a precision (those of group `FIXED` keep theirs), and its bounds."""

    number: Int[np.ndarray, " k"]
    least: Float[np.ndarray, " k"]
    most: Float[np.ndarray, " k"]

    @property
    def free(self) -> Int[np.ndarray, " g"]:
        """Numbers of the groups whose precision may move."""
        return np.unique(self.number[self.number != FIXED])


def gradient(weights: Weights, groups: Groups) -> float:
    """Largest derivative by a log precision, nats, without those that push against a bound."""
    by_weight = 0.5 * (weights.well_determined - weights.prec * weights.square)
    largest = 0.0
    for group in groups.free:
        members = groups.number == group
        slope, prec = float(np.sum(by_weight[members])), weights.prec[members]
        is_most = slope > 0.0 and bool(np.all(prec >= groups.most[members]))
        is_least = slope < 0.0 and bool(np.all(prec <= groups.least[members]))
        largest = largest if is_most or is_least else max(largest, abs(slope))
    return largest


def mackay(weights: Weights, groups: Groups) -> Float[np.ndarray, " k"]:
    """Prior precisions gamma / sum m²: fast, but a step may overshoot."""
    return _per_group(weights, groups, weights.well_determined, weights.square)


def em(weights: Weights, groups: Groups) -> Float[np.ndarray, " k"]:
    """Prior precisions 1 / mean E[w²] of expectation maximisation: slower, and never downhill."""
    ones = np.ones_like(weights.square)
    return _per_group(weights, groups, ones, weights.square + weights.var)


def _per_group(
    weights: Weights, groups: Groups, above: np.ndarray, below: np.ndarray
) -> Float[np.ndarray, " k"]:
    """Divide above by below, both summed over the weights that share a precision."""
    prec = weights.prec.copy()
    for group in groups.free:
        members = groups.number == group
        numerator, denominator = float(np.sum(above[members])), float(np.sum(below[members]))
        least, most = np.min(groups.least[members]), np.max(groups.most[members])
        if numerator > 0.0:
            ratio = numerator / denominator if denominator > 0.0 else most
            prec[members] = np.clip(ratio, least, most)
    return prec
