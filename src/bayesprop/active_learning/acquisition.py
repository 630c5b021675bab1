"""Acquisition functions: the value of a measurement at each candidate.

MacKay (1992), "Information-based objective functions for active data selection"; Houlsby et al.
(2011), "Bayesian active learning for classification and preference learning"; Hernández-Lobato &
Adams (2015), eqs. 18-19; Bickford Smith et al. (2023), "Prediction-oriented Bayesian active
learning".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.active_learning.doubt import Doubt, Functions
from bayesprop.active_learning.goal import (
    Seek,
    confidence_bound,
    log_expected_improvement,
    probability_of_improvement,
)
from bayesprop.numerics.machine import chunks

Score = Callable[[Doubt], Float[np.ndarray, " n"]]
"""A score of every candidate from the doubt about it; higher is better."""

NUMBERS, CLASSES = "numbers", "classes"
RANDOM, EXPECTED_ENTROPY_REDUCTION = "random", "expected-entropy-reduction"
LOG_EXPECTED_IMPROVEMENT, THOMPSON = "log-expected-improvement", "thompson"
PROBABILITY, CONFIDENCE_BOUND = "probability-of-improvement", "confidence-bound"


class Acquisition(NamedTuple):
    """A line of the table: what the score is, its unit, and whom it suits.

    targets
        What it can be taken for: numbers, classes.
    needs_parts
        Whether the estimator must divide its doubt into epistemic and noise.
    score
        None where the doubt at a candidate is not enough to know it.
    seek
        The score where a goal is sought.
    goal
        Whether it needs a goal, True, or can have none, False; None: either.
    """

    name: str
    meaning: str
    unit: str
    targets: tuple[str, ...]
    needs_parts: bool
    score: Score | None
    seek: Seek | None = None
    goal: bool | None = False

    @property
    def beats(self) -> bool:
        """Whether it depends on a value to beat."""
        return self.name in (LOG_EXPECTED_IMPROVEMENT, PROBABILITY)


def predictive_variance(doubt: Doubt) -> Float[np.ndarray, " n"]:
    """Variance of what would be measured, y²; of several targets the geometric mean.

    It ranks as the entropy H[y | x, data] of eq. 19 does; where the noise is the same everywhere,
    as the expected reduction of the posterior's entropy (eq. 18).
    """
    return _geometric_mean(doubt.var)


def epistemic_variance(doubt: Doubt) -> Float[np.ndarray, " n"]:
    """Variance of the function, y², noise left out; of several targets the geometric mean."""
    if doubt.epistemic_var is None:
        raise ValueError(
            "epistemic-variance needs an estimator of numbers that tells it from noise: take "
            "mutual-information for classes, predictive-variance for other estimators"
        )
    return _geometric_mean(doubt.epistemic_var)


def predictive_entropy(doubt: Doubt) -> Float[np.ndarray, " n"]:
    """H[y | x, data], nats."""
    return doubt.entropy


def mutual_information(doubt: Doubt) -> Float[np.ndarray, " n"]:
    """I[y; parameters | x, data] = H[y | x, data] - E H[y | parameters, x], nats.

    The expected reduction of the posterior's entropy (eqs. 18-19), known as BALD. Of a Gaussian
    function and noise it is log(1 + epistemic_var / noise_var) / 2, exactly; of a mixture over
    draws an upper bound, its entropy being taken for that of a Gaussian.
    """
    if doubt.noise_entropy is None:
        raise ValueError(
            "mutual-information needs an estimator that tells what it could learn from noise: take "
            "predictive-variance (numbers) or predictive-entropy (classes)"
        )
    knows_all = np.isneginf(doubt.entropy)
    entropy = np.where(knows_all, 0.0, doubt.entropy)
    return np.maximum(entropy - np.where(knows_all, 0.0, doubt.noise_entropy), 0.0)


def expected_entropy_reduction(
    candidates: Functions, reference: Functions
) -> Float[np.ndarray, " n"]:
    """Information of a measurement about new measurements at the reference rows, nats.

    The mean over reference rows of I[y; y_ref | x, x_ref, data] = -log(1 - corr²) / 2 (MacKay
    1992, section 4.2; Bickford Smith et al. 2023, eq. 9), summed over targets. Unlike the mutual
    information it does not pay for knowledge of places that nobody asks about.
    """
    n, o, k = candidates.features.shape
    total = np.zeros(n)
    reference_var = reference.epistemic_var + reference.noise_var
    for rows in chunks(n, len(reference_var) + k):
        part = candidates.some(rows)
        var = part.epistemic_var + part.noise_var
        for t in range(o):
            cov = part.features[:, t] @ reference.features[:, t].T
            square = cov**2 / (var[:, t, None] * reference_var[:, t])
            total[rows] -= 0.5 * np.log1p(-np.minimum(square, 1.0 - 1e-12)).mean(axis=1)
    return total


def _geometric_mean(var: Float[np.ndarray, "n o"]) -> Float[np.ndarray, " n"]:
    if var.shape[1] == 1:
        return var[:, 0]
    with np.errstate(divide="ignore"):
        return np.exp(np.log(var).mean(axis=1))


_BOTH = (NUMBERS, CLASSES)
_TABLE = (
    Acquisition(
        "mutual-information", "what the measurement would tell about the model (BALD)", "nats",
        _BOTH, True, mutual_information,
    ),
    Acquisition(
        "epistemic-variance", "variance that more data would remove", "y²",
        (NUMBERS,), True, epistemic_variance,
    ),
    Acquisition(
        "predictive-variance", "variance of what would be measured, noise included", "y²",
        (NUMBERS,), False, predictive_variance,
    ),
    Acquisition(
        "predictive-entropy", "doubt about the class, noise included", "nats",
        (CLASSES,), False, predictive_entropy,
    ),
    Acquisition(
        EXPECTED_ENTROPY_REDUCTION, "what the measurement would tell about the reference rows",
        "nats", (NUMBERS,), True, None,
    ),
    Acquisition(RANDOM, "chance, the baseline", "", _BOTH, False, None, goal=None),
    Acquisition(
        LOG_EXPECTED_IMPROVEMENT, "log of the expected gain over the best so far", "log y",
        (NUMBERS,), False, None, log_expected_improvement, goal=True,
    ),
    Acquisition(
        PROBABILITY, "chance that the function beats the best so far", "",
        (NUMBERS,), False, None, probability_of_improvement, goal=True,
    ),
    Acquisition(
        CONFIDENCE_BOUND, "how good the function may be, two standard deviations from its mean",
        "y", (NUMBERS,), False, None, confidence_bound, goal=True,
    ),
    Acquisition(
        THOMPSON, "how good the function is in a draw", "y", (NUMBERS,), True, None, goal=True,
    ),
)  # fmt: skip
ACQUISITIONS: dict[str, Acquisition] = {line.name: line for line in _TABLE}


def find(name: str, *, targets: str, tells_parts: bool, has_goal: bool = False) -> Acquisition:
    """Return the acquisition of a name; ValueError where it does not suit the estimator.

    targets
        What the estimator predicts: numbers or classes.
    tells_parts
        Whether it divides its doubt into epistemic and noise.
    has_goal
        Whether the largest or smallest value is sought.
    """
    suited = [
        line.name
        for line in _TABLE
        if targets in line.targets
        and (tells_parts or not line.needs_parts)
        and line.goal in (None, has_goal)
    ]
    if name not in suited:
        undivided = "" if tells_parts else " that does not tell epistemic doubt from noise"
        goal = " and a goal" if has_goal else ""
        raise ValueError(
            f"acquisition must be one of {', '.join(suited)} for an estimator of {targets}"
            f"{undivided}{goal}; got {name!r}"
        )
    return ACQUISITIONS[name]
